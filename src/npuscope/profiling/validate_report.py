"""Reports and logs of a validation on a board: time of every node, tensors, metrics."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.program.generate_report.lines import (
    KeyValue,
    LineRule,
    ReportDraft,
    ReportLine,
    number,
    read_into,
    read_lines,
    unread,
    whole,
)
from npuscope.program.generate_report.model import GenerateReport
from npuscope.program.generate_report.reader import GENERATE_RULES, generate_part
from npuscope.program.model import EpochKind
from npuscope.structs import replace

# --- Lines that a validation adds to a report: one rule for each kind of line ---

_BLOCK = re.compile(r"EpochBlock_(\d{1,9})(?: -> (\d{1,9}))?(?: \((\d{1,9})\))?$", re.ASCII)
_METRIC = re.compile(r"([a-z][a-z0-9]{1,7})=(\S{1,30})")
_TENSOR_ID = re.compile(r"[IO]\.\d{1,6}$", re.ASCII)
_MOST_CYCLES = 8  # pre, core, post; some firmwares add the total and the NPU's own


def is_validate_report(text: str) -> bool:
    return "Profiling results v" in text or "Cross accuracy report #" in text


class NodeLine(Struct, frozen=True):
    """A row of the time table: one block of epochs on the NPU or one kernel on the CPU."""

    c_id: int
    m_id: int | None
    type: str
    ms: float
    percent: float
    cumulated_percent: float
    cycles: tuple[int, ...]  # MCU cycles: pre, core, post
    name: str
    first: int
    last: int
    block: int | None = None  # which internal block of a hybrid


class TotalTime(Struct, frozen=True):
    ms: float
    cycles: tuple[int, ...]


class RateLine(Struct, frozen=True):
    inferences_per_s: float
    percents: tuple[float, ...]


class TensorLine(Struct, frozen=True):
    """Values of one input or output over the samples."""

    id: str
    samples: int
    type: str
    min: float
    max: float
    mean: float
    std: float
    name: str


class MetricsLine(Struct, frozen=True):
    """How an output compares with the reference; a metric that was not computed is None."""

    output: str
    values: tuple[tuple[str, float | None], ...]
    tensor: str = ""


def _bracket(text: str) -> tuple[list[str], list[str], str] | None:
    """Words before `[`, words inside, text behind `]`."""
    before, opened, rest = text.partition("[")
    inside, closed, right = rest.partition("]")
    if not opened or not closed:
        return None
    words = inside.split(None, _MOST_CYCLES)
    return (before.split(None, 20), words, right.strip()) if len(words) <= _MOST_CYCLES else None


def node(text: str, draft: ReportDraft) -> NodeLine | None:
    """`c_id m_id type ms % cumul [pre core post] name`."""
    parts = _bracket(text) if "EpochBlock_" in text else None
    block = _BLOCK.match(parts[2]) if parts else None
    if not parts or not block or len(parts[0]) < 6:
        return None
    c_id, shares, cycles = whole(parts[0][0]), _numbers(parts[0][-3:]), _wholes(parts[1])
    if c_id is None or shares is None or cycles is None:
        return None
    return NodeLine(
        c_id,
        whole(parts[0][1]),
        " ".join(parts[0][2:-3]),
        shares[0],
        shares[1],
        shares[2],
        cycles,
        parts[2],
        int(block[1]),
        int(block[2] or block[1]),
        int(block[3]) if block[3] else None,
    )


def _numbers(words: list[str]) -> tuple[float, ...] | None:
    values = [number(word) for word in words]
    return None if None in values else tuple(value for value in values if value is not None)


def _wholes(words: list[str]) -> tuple[int, ...] | None:
    values = [whole(word) for word in words]
    return None if None in values else tuple(value for value in values if value is not None)


def total_time(text: str, draft: ReportDraft) -> TotalTime | None:
    parts = _bracket(text) if text.lstrip().startswith("total ") else None
    if not parts or len(parts[0]) != 2:
        return None
    ms, cycles = number(parts[0][1]), _wholes(parts[1])
    return TotalTime(ms, cycles) if ms is not None and cycles is not None else None


def rate(text: str, draft: ReportDraft) -> RateLine | None:
    """`48.32 inf/s [ 6.5% 87.8% 5.7% ]`."""
    parts = _bracket(text) if " inf/s " in text else None
    if not parts or len(parts[0]) != 2:
        return None
    value, percents = number(parts[0][0]), _numbers(parts[1])
    return RateLine(value, percents) if value is not None and percents is not None else None


def tensor(text: str, draft: ReportDraft) -> TensorLine | None:
    words = text.split(None, 7)
    if len(words) != 8 or not _TENSOR_ID.match(words[0]):
        return None
    samples, values = whole(words[1]), _numbers(words[3:7])
    if samples is None or values is None:
        return None
    low, high, mean, std = values
    return TensorLine(words[0], samples, words[2], low, high, mean, std, words[7])


def metrics(text: str, draft: ReportDraft) -> MetricsLine | None:
    """`acc=n.a. rmse=0.1 ...`, or a row of the summary under the names of its heading."""
    words = text.split(None, 20)
    if words[0].startswith("acc="):
        pairs = _METRIC.findall(text)
        return MetricsLine("", tuple((key, number(value)) for key, value in pairs))
    if words[0] == "Output" and words[-1] == "tensor":
        draft.columns = tuple(words[1:-1])
        return None
    if not words[0].startswith("X-cross") or not draft.columns:
        return None
    cells = text.split(None, 2 + len(draft.columns))
    if len(cells) < 2 + len(draft.columns):
        return None
    values = tuple(number(cell) for cell in cells[2 : 2 + len(draft.columns)])
    rest = cells[2 + len(draft.columns) :]
    output = " ".join(cells[:2])
    return MetricsLine(
        output, tuple(zip(draft.columns, values, strict=True)), "".join(rest).strip()
    )


_ATTRS = "device.attrs"
_CONTINUED = re.compile(r"\s*(?:[a-z_]{1,20}_freq=\d{1,5}MHz,? ?){1,8}$", re.ASCII)


def attributes(text: str, draft: ReportDraft) -> str | None:
    """A list of clocks too long for its line goes on in the next."""
    return text.strip() if _CONTINUED.match(text) else None


VALIDATE_RULES: tuple[LineRule, ...] = (
    (_ATTRS, attributes),
    ("nodes", node),
    ("total_time", total_time),
    ("rate", rate),
    ("tensors", tensor),
    ("metrics", metrics),
)


_RESULTS = re.compile(r'ST\.AI Profiling results v(\S{1,20}) - "([^"]{0,200})"')
_DURATION = re.compile(r"([\d.]{1,20}) ms by sample \(([\d./]{1,60})\)")
_EXTRA = "extra"
_KINDS = {"SW": EpochKind.SW, "HYBRID": EpochKind.HYBRID}


class Duration(Struct, frozen=True):
    """Milliseconds of one inference over the samples."""

    mean_ms: float
    min_ms: float
    max_ms: float
    std_ms: float


class ReportClocks(Struct, frozen=True):
    """MHz of the board as it reported them; 0 where it did not."""

    mcu_mhz: float = 0.0
    noc_mhz: float = 0.0
    npu_mhz: float = 0.0
    nic_mhz: float = 0.0


class MeasuredEpoch(Struct, frozen=True):
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


class ValidateReport(Struct, frozen=True):
    """What a validation printed. `report` is what it repeats of the generate report."""

    network: str
    results_version: str
    samples: int | None
    duration: Duration | None
    cycles: tuple[int, ...]
    nodes: tuple[NodeLine, ...]
    total: TotalTime | None
    rate: RateLine | None
    clocks: ReportClocks
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
        rows: list[MeasuredEpoch] = []
        for node in self.nodes:
            if _EXTRA in node.type and rows and rows[-1].kind is EpochKind.HYBRID:
                epoch = rows[-1]
                pairs = zip(epoch.cycles, node.cycles, strict=False)
                cycles = tuple(a + b for a, b in pairs)
                rows[-1] = replace(
                    epoch, ms=epoch.ms + node.ms, cycles=cycles, nodes=epoch.nodes + 1
                )
            else:
                mark = node.type.partition("(")[2].rstrip(")")
                rows.append(
                    MeasuredEpoch(
                        node.first,
                        node.last,
                        _KINDS.get(mark, EpochKind.HW),
                        mark == "EC",
                        node.ms,
                        node.cycles,
                        1,
                    )
                )
        return tuple(rows)

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


def parse_validate_report(lines: tuple[ReportLine, ...]) -> ValidateReport:
    draft = ReportDraft()
    read_into(draft, lines, (*VALIDATE_RULES, *GENERATE_RULES))
    return validate_part(draft, unread(lines, draft.used()))


def validate_part(draft: ReportDraft, ignored: tuple[str, ...] = ()) -> ValidateReport:
    """What a draft has of this report; a profiler's log holds one too."""
    report = generate_part(draft)
    titles = [hit for title in report.titles if (hit := _RESULTS.match(title))]
    text = _last(report.entries, "CPU cycles", "[")
    values = [whole(part) for part in text.strip("[] ").split()]
    return ValidateReport(
        network=titles[-1][2] if titles else "",
        results_version=titles[-1][1] if titles else "",
        samples=whole(_last(report.entries, "nb sample(s)")),
        duration=_duration(_last(report.entries, "duration", " by sample ")),
        cycles=tuple(value for value in values if value is not None),
        nodes=draft.get("nodes"),
        total=draft.last("total_time"),
        rate=draft.last("rate"),
        clocks=_clocks(f"{_last(report.entries, _ATTRS)},{','.join(draft.get(_ATTRS))}"),
        tensors=draft.get("tensors"),
        metrics=draft.get("metrics"),
        report=report,
        ignored=ignored,
    )


def _last(entries: tuple[KeyValue, ...], key: str, part: str = "") -> str:
    values = (entry.value for entry in reversed(entries) if entry.key == key)
    return next((value for value in values if part in value), "")


def _duration(text: str) -> Duration | None:
    match = _DURATION.match(text)
    parts = [match[1], *match[2].split("/")] if match else []
    values = [number(part) for part in parts]
    if len(values) != 4 or None in values:
        return None
    return Duration(*(value for value in values if value is not None))


def _clocks(text: str) -> ReportClocks:
    """`mcu_freq=800MHz,noc_freq=400MHz,...` among other attributes."""
    pairs = (part.strip().partition("=") for part in text.split(","))
    mhz = {key: number(value.removesuffix("MHz")) for key, _, value in pairs if "_freq" in key}
    stated = {key.replace("_freq", "_mhz"): value for key, value in mhz.items() if value}
    names = ("mcu_mhz", "noc_mhz", "npu_mhz", "nic_mhz")
    return ReportClocks(**{name: stated[name] for name in names if name in stated})
