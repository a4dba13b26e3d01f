"""Reports and logs of a validation on a board: time of every node, tensors, metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from npuscope.errors import FileError
from npuscope.profile.validate_rules import (
    VALIDATE_RULES,
    MetricsLine,
    NodeLine,
    RateLine,
    TensorLine,
    TotalTime,
)
from npuscope.program.generate_report.draft import Draft, number, read_into, whole
from npuscope.program.generate_report.lines import Entry, Line, read_lines, unread
from npuscope.program.generate_report.model import GenerateReport
from npuscope.program.generate_report.reader import generate_part
from npuscope.program.generate_report.rules import GENERATE_RULES
from npuscope.program.model import EpochKind

_RESULTS = re.compile(r'ST\.AI Profiling results v(\S{1,20}) - "([^"]{0,200})"')
_DURATION = re.compile(r"([\d.]{1,20}) ms by sample \(([\d./]{1,60})\)")
_EXTRA = "extra"
_KINDS = {"SW": EpochKind.SW, "HYBRID": EpochKind.HYBRID}


@dataclass(frozen=True, slots=True)
class Duration:
    """Milliseconds of one inference over the samples."""

    mean_ms: float
    min_ms: float
    max_ms: float
    std_ms: float


@dataclass(frozen=True, slots=True)
class Clocks:
    """MHz of the board as it told them; 0 where it did not."""

    mcu_mhz: float = 0.0
    noc_mhz: float = 0.0
    npu_mhz: float = 0.0
    nic_mhz: float = 0.0


@dataclass(frozen=True, slots=True)
class MeasuredEpoch:
    """One epoch as it ran: its node, with the internal transfers of a hybrid added to it.

    Cycles are those of the MCU in all three phases.
    """

    first: int
    last: int
    kind: EpochKind
    controller: bool
    ms: float
    cycles: tuple[int, ...]
    nodes: int


@dataclass(frozen=True, slots=True)
class ValidateReport:
    """What a validation printed. `report` is what it repeats of the generate report."""

    network: str
    results_version: str
    samples: int | None
    duration: Duration | None
    cycles: tuple[int, ...]
    nodes: tuple[NodeLine, ...]
    total: TotalTime | None
    rate: RateLine | None
    clocks: Clocks
    tensors: tuple[TensorLine, ...]
    metrics: tuple[MetricsLine, ...]
    report: GenerateReport
    ignored: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return self.report.version

    @property
    def epochs(self) -> tuple[MeasuredEpoch, ...]:
        """Nodes by epoch; the extra blocks of a hybrid belong to the node before them."""
        found: list[MeasuredEpoch] = []
        for node in self.nodes:
            if _EXTRA in node.type and found and found[-1].kind is EpochKind.HYBRID:
                found[-1] = _joined(found[-1], node)
            else:
                found.append(_epoch(node))
        return tuple(found)

    def count(self, kind: EpochKind) -> int:
        return sum(epoch.kind is kind for epoch in self.epochs)


def read_validate_report(path: str | Path) -> ValidateReport:
    report = parse_validate_report(read_lines(path))
    if not report.network and not report.nodes and not report.metrics:
        raise FileError(
            "no profiling results and no metrics: this is not a validate report",
            where=str(path),
            hint="give the network_validate_report.txt, or the log of a validation on a board",
        )
    return report


def parse_validate_report(lines: tuple[Line, ...]) -> ValidateReport:
    draft = Draft()
    read_into(draft, lines, (*VALIDATE_RULES, *GENERATE_RULES))
    return validate_part(draft, unread(lines, draft.used()))


def validate_part(draft: Draft, ignored: tuple[str, ...] = ()) -> ValidateReport:
    """What a draft has of this report; a profiler's log holds one too."""
    report = generate_part(draft)
    titles = [hit for title in report.titles if (hit := _RESULTS.match(title))]
    return ValidateReport(
        network=titles[-1][2] if titles else "",
        results_version=titles[-1][1] if titles else "",
        samples=whole(_last(report.entries, "nb sample(s)")),
        duration=_duration(_last(report.entries, "duration", " by sample ")),
        cycles=_cycles(_last(report.entries, "CPU cycles", "[")),
        nodes=draft.get("nodes"),
        total=draft.last("total_time"),
        rate=draft.last("rate"),
        clocks=_clocks(_last(report.entries, "device.attrs")),
        tensors=draft.get("tensors"),
        metrics=draft.get("metrics"),
        report=report,
        ignored=ignored,
    )


def _last(entries: tuple[Entry, ...], key: str, part: str = "") -> str:
    found = (entry.value for entry in reversed(entries) if entry.key == key)
    return next((value for value in found if part in value), "")


def _duration(text: str) -> Duration | None:
    found = _DURATION.match(text)
    parts = [found[1], *found[2].split("/")] if found else []
    values = [number(part) for part in parts]
    if len(values) != 4 or None in values:
        return None
    return Duration(*(value for value in values if value is not None))


def _cycles(text: str) -> tuple[int, ...]:
    values = [whole(part) for part in text.strip("[] ").split()]
    return tuple(value for value in values if value is not None)


def _clocks(text: str) -> Clocks:
    """`mcu_freq=800MHz,noc_freq=400MHz,...` among other attributes."""
    pairs = (part.strip().partition("=") for part in text.split(","))
    mhz = {key: number(value.removesuffix("MHz")) for key, _, value in pairs if "_freq" in key}
    known = {key.replace("_freq", "_mhz"): value for key, value in mhz.items() if value}
    names = ("mcu_mhz", "noc_mhz", "npu_mhz", "nic_mhz")
    return Clocks(**{name: known[name] for name in names if name in known})


def _epoch(node: NodeLine) -> MeasuredEpoch:
    mark = node.type.partition("(")[2].rstrip(")")
    return MeasuredEpoch(
        node.first,
        node.last,
        _KINDS.get(mark, EpochKind.HW),
        mark == "EC",
        node.ms,
        node.cycles,
        1,
    )


def _joined(epoch: MeasuredEpoch, node: NodeLine) -> MeasuredEpoch:
    pairs = zip(epoch.cycles, node.cycles, strict=False)
    cycles = tuple(a + b for a, b in pairs)
    return replace(epoch, ms=epoch.ms + node.ms, cycles=cycles, nodes=epoch.nodes + 1)
