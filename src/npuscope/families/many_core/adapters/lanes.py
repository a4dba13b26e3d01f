"""Rows of a trace: which core and engine each one is, and the timeline that they make."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct, field

from npuscope.errors import FileError
from npuscope.families.many_core.adapters.columns import Event, SliceColumns
from npuscope.families.many_core.adapters.model import SheetLane, SheetTimeline
from npuscope.families.many_core.layout import Engine

# --- Vendor names: op details, operands, threads ---

ENGINES = tuple(engine.value for engine in Engine)
Details = tuple[str, str, str, tuple[str, ...]]

_LANE = re.compile(
    r"(?P<net>.{0,200}?)(?:_slice(?P<slice>\d{1,4}))?_Core_(?P<core>\d{1,4})"
    r"(?:_(?P<engine>HVX|HMX|DMAIssue))?(?:_(?P<side>Barrier|DMA))?(?:_.{1,40})?",
    re.ASCII,
)
# Older traces have one process per core; HVX threads come first, then HMX, then DMA.
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


class LaneName(Struct, frozen=True):
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


class Operand(Struct, frozen=True):
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


Key = tuple[int | str, int | str]
Samples = Mapping[tuple[int, str], list[tuple[float, float]]]

# Devices x cores x threads stay far below.
_MOST_LANES = 100_000


class FlowEnd(Struct, frozen=True):
    id: str
    lane: int
    time_us: float
    op: int | None
    category: str


class ResolvedLanes(Struct, frozen=True):
    """`core` is -1 and `engine` empty for a lane that holds no ops."""

    rows: tuple[SheetLane, ...]
    core: np.ndarray
    engine: list[str]
    network: str
    devices: int


class TraceLanes(Struct):
    """Lanes by process and thread. Their names may come after their events."""

    numbers: dict[Key, int] = field(default_factory=dict)
    threads: dict[Key, str] = field(default_factory=dict)
    processes: dict[int | str, str] = field(default_factory=dict)

    def number(self, event: Event) -> int:
        key = _key(event)
        if key not in self.numbers and len(self.numbers) >= _MOST_LANES:
            raise FileError(f"more than {_MOST_LANES} threads in one trace")
        return self.numbers.setdefault(key, len(self.numbers))

    def name_thread(self, event: Event, name: str) -> None:
        if len(self.threads) < _MOST_LANES:
            self.threads[_key(event)] = name

    def name_process(self, event: Event, name: str) -> None:
        if len(self.processes) < _MOST_LANES:
            self.processes[_key(event)[0]] = name

    def resolved(self) -> ResolvedLanes:
        parsed = [
            parse_lane(
                self.processes.get(key[0], ""),
                self.threads.get(key, ""),
                key[1] if isinstance(key[1], int) else None,
            )
            for key in self.numbers
        ]
        devices = sorted({lane.device for lane in parsed if lane and lane.device is not None})
        # Every device gets the same range of numbers, also if its last cores have no events.
        stride = max((lane.core for lane in parsed if lane), default=0) + 1
        offsets = {device: i * stride for i, device in enumerate(devices)}
        cores = [lane.core + offsets.get(lane.device or 0, 0) if lane else None for lane in parsed]
        engines = [
            (lane.engine or ("DMAIssue" if lane.side == "DMA" else "")) if lane else ""
            for lane in parsed
        ]
        rows = tuple(
            SheetLane(
                self.processes.get(key[0], str(key[0])),
                self.threads.get(key, str(key[1])),
                core,
                engine,
                lane.device if lane else None,
            )
            for key, lane, core, engine in zip(self.numbers, parsed, cores, engines, strict=True)
        )
        pairs = zip(cores, engines, strict=True)
        numbers = [core if core is not None and engine else -1 for core, engine in pairs]
        networks = [lane.network for lane in parsed if lane and lane.network]
        network = networks[0] if networks else ""
        return ResolvedLanes(rows, np.array(numbers, np.int64), engines, network, len(devices))


def _key(event: Event) -> Key:
    return _id(event.get("pid")), _id(event.get("tid"))


def _id(value: Any) -> int | str:
    if isinstance(value, int):
        return value
    return value[:200] if isinstance(value, str) else 0


def timeline_of(
    columns: SliceColumns,
    lanes: ResolvedLanes,
    flows: Sequence[tuple[FlowEnd, FlowEnd, bool]],
    samples: Samples,
    odd: Counter[str],
) -> SheetTimeline:
    start = np.asarray(columns.start)
    ends = start + np.asarray(columns.us)
    sources = find_slices(columns, [flow[0] for flow in flows])
    targets = find_slices(columns, [flow[1] for flow in flows])
    bound = (sources >= 0) & (targets >= 0)
    if not bound.all():
        odd["flows lead to no slice and were left out"] += int((~bound).sum())
    counters = []
    for (lane, counter), rows in samples.items():
        times, values = np.array(rows).T
        counters.append((f"{lanes.rows[lane].process} {counter}", _ns(times), values))
    return SheetTimeline(
        lanes=lanes.rows,
        names=tuple(str(name) for name in columns.labels.all),
        lane=np.array(columns.lane, np.int64),
        name=np.array(columns.label, np.int64),
        start_ns=_ns(start),
        end_ns=_ns(ends),
        flow_source=sources[bound],
        flow_target=targets[bound],
        flow_data=np.array([flow[2] for flow in flows], np.bool_)[bound],
        counters=tuple(counters),
    )


def _ns(us: np.ndarray) -> np.ndarray:
    """Both ends are rounded, not the duration: slices back to back then stay so."""
    ns: np.ndarray = np.rint(us * 1000).astype(np.int64)
    return ns


def find_slices(columns: SliceColumns, ends: Sequence[FlowEnd]) -> np.ndarray:
    """The slice of each flow end: the op that it names, else the one open at its time; or -1.

    Where an op ran more than once, the last that had begun is meant.
    """
    lane, op = np.asarray(columns.lane), np.asarray(columns.op)
    start = np.asarray(columns.start)
    lookup = _Lookup(lane, op, start)
    anything = _Lookup(lane, np.zeros_like(op), start)
    matches = [
        anything.find(end.lane, 0, end.time_us)
        if end.op is None
        else lookup.find(end.lane, end.op, end.time_us)
        for end in ends
    ]
    return np.array(matches, np.int64)


class _Lookup:
    """Slices in the order of lane, op and start."""

    def __init__(self, lane: np.ndarray, op: np.ndarray, start: np.ndarray) -> None:
        self.order = np.lexsort((start, op, lane))
        self.start = start[self.order]
        keys = np.stack([lane[self.order], op[self.order]])
        new = np.ones(self.order.size, np.bool_)
        new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        firsts = np.flatnonzero(new)
        stops = np.append(firsts[1:], self.order.size)
        self.ranges = {
            (int(keys[0, first]), int(keys[1, first])): (int(first), int(stop))
            for first, stop in zip(firsts, stops, strict=True)
        }

    def find(self, lane: int, op: int, time_us: float) -> int:
        first, stop = self.ranges.get((lane, op), (0, 0))
        if first == stop:
            return -1
        if stop - first == 1:
            return int(self.order[first])
        # Times are written with three digits at least.
        after = int(np.searchsorted(self.start[first:stop], time_us + 5e-4, side="right"))
        return int(self.order[first + max(after - 1, 0)])
