"""Names that the vendor's texts and traces are made of: op details, operands, thread names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from npuscope.manycore.layout import Engine

ENGINES = tuple(engine.value for engine in Engine)
Details = tuple[str, str, str, tuple[str, ...]]

_LANE = re.compile(
    r"(?P<net>.{0,200}?)(?:_slice(?P<slice>\d{1,4}))?_Core_(?P<core>\d{1,4})"
    r"(?:_(?P<engine>HVX|HMX|DMAIssue))?(?:_(?P<side>Barrier|DMA))?(?:_.{1,40})?",
    re.ASCII,
)
# Older traces have one process a core; HVX threads come first, then HMX, then DMA.
_PROCESS = re.compile(r"Program:.{0,100}\[(?P<net>.{0,200})_Core_(?P<core>\d{1,4})\]", re.ASCII)
_OPERAND = re.compile(
    r"(?P<way>in|out|inout) (?P<memory>\S{1,40}) \S{1,100} .{0,2000}?"
    r"(?P<dtype>[a-z]{1,12}\d{0,3}q?) \S{1,200} (?P<kb>\d{1,12}(?:\.\d{1,6})?) ?KB",
    re.ASCII,
)
_OLD_ENGINES = {0: "HVX", 1: "HVX", 2: "HVX", 3: "HVX", 4: "HMX", 5: "DMAIssue"}


def parse_details(text: str) -> Details:
    """`kind Engine Memory (types)`: kind, engine, memory and types; parts may be missing."""
    head, _, tail = text.partition("(")
    words = head.split()
    at = next((i for i, word in enumerate(words) if word in ENGINES), len(words))
    dtypes = tuple(part.strip() for part in tail.rstrip(") ").split(",") if part.strip())
    engine = words[at] if at < len(words) else ""
    return " ".join(words[:at]), engine, " ".join(words[at + 1 :]), dtypes


@dataclass(frozen=True, slots=True)
class LaneName:
    """What a thread of a trace is. `side` is `Barrier` or `DMA` beside the engine's own row."""

    network: str
    core: int
    engine: str
    side: str = ""
    device: int | None = None


def parse_lane(process: str, thread: str, tid: int | None) -> LaneName | None:
    """None for rows that belong to no core: the host, the device, peers."""
    hit = _LANE.fullmatch(thread)
    if hit:
        device = int(hit["slice"]) if hit["slice"] else None
        engine, side = hit["engine"] or "", hit["side"] or ""
        return LaneName(hit["net"], int(hit["core"]), engine, side, device)
    hit = _PROCESS.fullmatch(process)
    if hit:
        return LaneName(hit["net"], int(hit["core"]), _OLD_ENGINES.get(tid or 0, ""))
    return None


@dataclass(frozen=True, slots=True)
class Operand:
    output: bool
    memory: str
    dtype: str
    kib: float


@lru_cache(8192)  # the cores of a device have the same operands
def parse_operand(text: str) -> Operand | None:
    """`out TCM Result tensor float16 [1,2] 4KB`; None for what has another form."""
    hit = _OPERAND.fullmatch(text.strip())
    if not hit:
        return None
    return Operand(hit["way"] != "in", hit["memory"], hit["dtype"], float(hit["kb"]))
