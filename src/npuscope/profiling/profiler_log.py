"""Logs of the NPU profiler: what the board sent line by line, and the report made of it."""

from __future__ import annotations

import math
import re
from pathlib import Path

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.profiling.profiler_events import (
    PROFILER_RULES,
    BlockTitle,
    BusLine,
    CacheLine,
    EngineLine,
    InferenceLine,
    LogEvent,
    NodeRun,
    nodes_of,
)
from npuscope.profiling.validate_report import VALIDATE_RULES, ValidateReport, validate_part
from npuscope.program.generate_report.lines import (
    KeyValue,
    ReportDraft,
    ReportLine,
    left_over,
    number,
    read_into,
    read_lines,
    unread,
    whole,
)
from npuscope.program.generate_report.reader import GENERATE_RULES

_EVENT = re.compile(r"(?:^|\s)s:(?:node|config):[a-z]", re.MULTILINE)
EPOCH_TITLE = re.compile(r"EpochBlock_\d{1,9} \(c_idx=")


def is_profiler_log(text: str) -> bool:
    return bool(_EVENT.search(text) or EPOCH_TITLE.search(text))


class EpochText(Struct, frozen=True):
    """One epoch of the report for people; `entries` are its lines without a form of their own."""

    title: BlockTitle
    bus: tuple[BusLine, ...]
    engines: tuple[EngineLine, ...]
    cache: CacheLine | None
    entries: tuple[KeyValue, ...]

    @property
    def duration_ms(self) -> float | None:
        """Mean over the inferences of the log."""
        return number(self.value("duration").partition("ms")[0])

    @property
    def mcu_cycles(self) -> tuple[int, ...]:
        """Mean (pre, core, post)."""
        return self.cycles("mcu cycles")

    def cycles(self, key: str) -> tuple[int, ...]:
        """`[18859, 10599, 5253] -> ...`"""
        words = self.value(key).partition("]")[0].lstrip("[").split(",")
        values = [whole(word.strip()) for word in words]
        return tuple(value for value in values if value is not None)

    @property
    def npu_core_cycles(self) -> int | None:
        return whole(self.value("core npu cycles").partition(" ")[0])

    def value(self, key: str) -> str:
        """The first line of that name."""
        return next((entry.value for entry in self.entries if entry.key == key), "")


class ProfilerLog(Struct, frozen=True):
    """All of a log: the board's configuration, every node of every inference, the report."""

    config: tuple[tuple[str, str], ...]
    nodes: tuple[NodeRun, ...]
    other_events: tuple[LogEvent, ...]
    inferences: tuple[InferenceLine, ...]
    epochs: tuple[EpochText, ...]
    results: ValidateReport
    networks: tuple[str, ...] = ()  # by the titles of their summaries
    messages: tuple[KeyValue, ...] = ()  # what the tool said on the way, as text
    ignored: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return dict(self.config).get("version", "")

    def clock_hz(self, name: str) -> int | None:
        """Clock `mcu`, `noc`, `npu` or `nic`."""
        text = dict(self.config).get(f"{name}_freq", "")
        return int(text) if text.isdecimal() and len(text) <= 18 else None


def read_profiler_log(path: str | Path) -> ProfilerLog:
    log = parse_profiler_log(read_lines(path))
    if not (log.config or log.nodes or log.epochs):
        raise FileError(
            "no line of the form s:node:... and no epoch report: this is not a profiler log",
            where=str(path),
            hint="give what npu_profiler printed, or the raw lines of the board",
        )
    return log


def parse_profiler_log(lines: tuple[ReportLine, ...]) -> ProfilerLog:
    draft = ReportDraft()
    read_into(draft, lines, (*PROFILER_RULES, *VALIDATE_RULES, *GENERATE_RULES))
    events = draft.get("events")
    nodes, others = nodes_of(tuple(event for event in events if event.category == "node"))
    config = (e for e in events if e.category == "config")
    loose = tuple(e for e in events if e.category not in ("node", "config"))
    rest = left_over(lines, draft.used())
    # Each title with the lines up to the next one.
    titles = draft.rows.get("titles_of_epochs", [])
    starts = [line.number for line, _ in titles]
    ends = [*starts[1:], math.inf][: len(starts)]
    spans = zip(titles, starts, ends, strict=True)
    walks = {
        name: _Walk(draft.rows.get(name, [])) for name in ("bus", "engine", "cache", "entries")
    }
    return ProfilerLog(
        config=tuple((event.key, ":".join(event.values)) for event in config),
        nodes=nodes,
        other_events=(*others, *loose),
        inferences=draft.get("inferences"),
        epochs=tuple(_block(title, start, end, walks) for (_, title), start, end in spans),
        results=validate_part(draft),
        networks=tuple(dict.fromkeys(draft.get("summaries"))),
        messages=tuple(KeyValue(line.number, "", line.text.strip()) for line in rest),
        ignored=unread(lines, {line.number for line in lines}),
    )


class _Walk:
    """Rows in file order, handed out by line number; epochs are asked for in that order too."""

    def __init__(self, rows: list[tuple[ReportLine, object]]) -> None:
        self.rows = rows
        self.at = 0

    def between(self, start: int, end: float) -> tuple[object, ...]:
        while self.at < len(self.rows) and self.rows[self.at][0].number < start:
            self.at += 1
        first = self.at
        while self.at < len(self.rows) and self.rows[self.at][0].number < end:
            self.at += 1
        return tuple(row for _, row in self.rows[first : self.at])


def _block(title: BlockTitle, start: int, end: float, rows: dict[str, _Walk]) -> EpochText:
    lines = {name: walk.between(start, end) for name, walk in rows.items()}
    caches = [row for row in lines["cache"] if isinstance(row, CacheLine)]
    return EpochText(
        title,
        tuple(row for row in lines["bus"] if isinstance(row, BusLine)),
        tuple(row for row in lines["engine"] if isinstance(row, EngineLine)),
        caches[0] if caches else None,
        tuple(row for row in lines["entries"] if isinstance(row, KeyValue)),
    )
