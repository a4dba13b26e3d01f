"""The lines that a validation adds to a report: one rule a kind of line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from npuscope.program.generate_report.draft import Draft, Rule, number, whole

_BLOCK = re.compile(r"EpochBlock_(\d{1,9})(?: -> (\d{1,9}))?(?: \((\d{1,9})\))?$", re.ASCII)
_METRIC = re.compile(r"([a-z][a-z0-9]{1,7})=(\S{1,30})")
_TENSOR_ID = re.compile(r"[IO]\.\d{1,6}$", re.ASCII)
_MOST_CYCLES = 8  # pre, core, post; some firmwares add the total and the NPU's own


@dataclass(frozen=True, slots=True)
class NodeLine:
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


@dataclass(frozen=True, slots=True)
class TotalTime:
    ms: float
    cycles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RateLine:
    inferences_per_s: float
    percents: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TensorLine:
    """Values of one input or output over the samples."""

    id: str
    samples: int
    type: str
    min: float
    max: float
    mean: float
    std: float
    name: str


@dataclass(frozen=True, slots=True)
class MetricsLine:
    """How an output compares with the reference; a metric that was not computed is None."""

    output: str
    values: tuple[tuple[str, float | None], ...]
    tensor: str = ""


def _bracket(text: str) -> tuple[list[str], list[str], str] | None:
    """Words before `[`, words inside, text behind `]`."""
    left, opened, rest = text.partition("[")
    inside, closed, right = rest.partition("]")
    if not opened or not closed:
        return None
    words = inside.split(None, _MOST_CYCLES)
    return (left.split(None, 20), words, right.strip()) if len(words) <= _MOST_CYCLES else None


def node(text: str, draft: Draft) -> NodeLine | None:
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


def total_time(text: str, draft: Draft) -> TotalTime | None:
    parts = _bracket(text) if text.lstrip().startswith("total ") else None
    if not parts or len(parts[0]) != 2:
        return None
    ms, cycles = number(parts[0][1]), _wholes(parts[1])
    return TotalTime(ms, cycles) if ms is not None and cycles is not None else None


def rate(text: str, draft: Draft) -> RateLine | None:
    """`48.32 inf/s [ 6.5% 87.8% 5.7% ]`."""
    parts = _bracket(text) if " inf/s " in text else None
    if not parts or len(parts[0]) != 2:
        return None
    value, percents = number(parts[0][0]), _numbers(parts[1])
    return RateLine(value, percents) if value is not None and percents is not None else None


def tensor(text: str, draft: Draft) -> TensorLine | None:
    words = text.split(None, 7)
    if len(words) != 8 or not _TENSOR_ID.match(words[0]):
        return None
    samples, values = whole(words[1]), _numbers(words[3:7])
    if samples is None or values is None:
        return None
    low, high, mean, std = values
    return TensorLine(words[0], samples, words[2], low, high, mean, std, words[7])


def metrics(text: str, draft: Draft) -> MetricsLine | None:
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
    return _metrics_row(text, draft.columns)


def _metrics_row(text: str, columns: tuple[str, ...]) -> MetricsLine | None:
    cells = text.split(None, 2 + len(columns))
    if len(cells) < 2 + len(columns):
        return None
    values = tuple(number(cell) for cell in cells[2 : 2 + len(columns)])
    rest = cells[2 + len(columns) :]
    output = " ".join(cells[:2])
    return MetricsLine(output, tuple(zip(columns, values, strict=True)), "".join(rest).strip())


VALIDATE_RULES: tuple[Rule, ...] = (
    ("nodes", node),
    ("total_time", total_time),
    ("rate", rate),
    ("tensors", tensor),
    ("metrics", metrics),
)
