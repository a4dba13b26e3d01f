"""TraceModel: what a timeline shows, as columns: slices, instants, counters and flows.

npuscope.trace_builder makes it, report/trace writes it to files. Times are whole nanoseconds at
both ends of a slice: a duration that is rounded by itself makes neighbours overlap, and viewers
drop what overlaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from npuscope.text import safe_terminal

Ids = NDArray[np.int32]
Times = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Process(Struct, frozen=True):
    """A group of threads; `sort` is its place in the viewer, `label` what viewers write beside
    the name."""

    pid: int
    name: str
    sort: int = 0
    label: str = ""


class Thread(Struct, frozen=True):
    """A row. Its tid is at least 1: viewers take 0 for the main thread of the process."""

    process: int  # index in TraceModel.processes
    tid: int
    name: str
    sort: int = 0


class CounterTrack(Struct, frozen=True):
    process: int  # index in TraceModel.processes
    name: str
    unit: str = ""


class ArgKind(Enum):
    """What the values of an argument are; texts are ids in TraceModel.strings."""

    INT = np.dtype(np.int64)
    FLOAT = np.dtype(np.float64)
    TEXT = np.dtype(np.int32)


class Column(Struct, frozen=True):
    """Values of one argument; `present` tells who has it, None stands for all."""

    kind: ArgKind
    values: NDArray[Any]
    present: Mask | None = None


class ArgColumn(Struct, frozen=True):
    """An argument over all events of a table."""

    name: int  # id in TraceModel.strings
    column: Column


def ints(values: ArrayLike, present: ArrayLike | None = None) -> Column:
    return _column(ArgKind.INT, values, present)


def floats(values: ArrayLike, present: ArrayLike | None = None) -> Column:
    return _column(ArgKind.FLOAT, values, present)


def texts(ids: ArrayLike, present: ArrayLike | None = None) -> Column:
    """Ids that TraceBuilder.text or TraceBuilder.texts gave."""
    return _column(ArgKind.TEXT, ids, present)


def _column(kind: ArgKind, values: ArrayLike, present: ArrayLike | None) -> Column:
    mask = None if present is None else np.atleast_1d(np.asarray(present, bool))
    return Column(kind, np.atleast_1d(np.asarray(values, kind.value)), mask)


class Events(Struct, frozen=True):
    """Slices or instants, in the order in which a file has them: see `trace_order`."""

    thread: Ids  # index in TraceModel.threads
    start_ns: Times
    end_ns: Times  # equal to start_ns for instants
    name: Ids
    category: Ids
    args: tuple[ArgColumn, ...] = ()

    def __len__(self) -> int:
        return len(self.start_ns)


class Samples(Struct, frozen=True):
    """Values of counters, by time."""

    track: Ids  # index in TraceModel.counter_tracks
    ns: Times
    value: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ns)


class Flows(Struct, frozen=True):
    """Arrows from slice to slice. The source comes before the target in the table of slices."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    category: Ids

    def __len__(self) -> int:
        return len(self.source)


class TraceModel(Struct, frozen=True):
    """A whole trace; TraceBuilder makes it."""

    strings: tuple[str, ...]
    processes: tuple[Process, ...]
    threads: tuple[Thread, ...]
    counter_tracks: tuple[CounterTrack, ...]
    slices: Events
    instants: Events
    samples: Samples
    flows: Flows
    undrawn_flows: int = 0  # left out because the target starts before the source


def trace_order(start_ns: Times, end_ns: Times) -> NDArray[np.int64]:
    """By start; among equals those without length first, then the longest, then as given.

    So a slice stands behind all that end where it starts, and in front of what it encloses.
    """
    return np.lexsort((-end_ns, end_ns > start_ns, start_ns))


def ticks_to_ns(ticks: ArrayLike, clock_hz: int) -> Times:
    """Ticks of a clock as nanoseconds, rounded to the nearest; exact for 64-bit counters."""
    seconds, rest = np.divmod(np.asarray(ticks, np.int64), clock_hz)
    result: Times = seconds * 1_000_000_000 + (rest * 1_000_000_000 + clock_hz // 2) // clock_hz
    return result


def check(model: TraceModel) -> tuple[str, ...]:
    """What would keep a viewer from showing the trace correctly; empty if it is valid."""
    tables = (
        *_identity_problems(model),
        *_event_problems(model, model.slices),
        *_event_problems(model, model.instants),
    )
    return tables or (*_overlap_problems(model), *_flow_problems(model))


def _identity_problems(model: TraceModel) -> Iterator[str]:
    pids = [process.pid for process in model.processes]
    if len(set(pids)) < len(pids) or any(pid < 1 for pid in pids):
        yield "processes need different pids of at least 1"
    rows = [(thread.process, thread.tid) for thread in model.threads]
    if len(set(rows)) < len(rows) or any(tid < 1 for _, tid in rows):
        yield "threads of a process need different tids of at least 1"
    counters = [(track.process, track.name) for track in model.counter_tracks]
    if len(set(counters)) < len(counters):
        yield "counters of a process need different names"


def _event_problems(model: TraceModel, events: Events) -> Iterator[str]:
    for what, column, size in (
        ("thread", events.thread, len(model.threads)),
        ("name", events.name, len(model.strings)),
        ("category", events.category, len(model.strings)),
        *(
            ("text", arg.column.values, len(model.strings))
            for arg in events.args
            if arg.column.kind is ArgKind.TEXT
        ),
    ):
        if len(column) and (column.min() < 0 or column.max() >= size):
            yield f"an event has no {what}"
    if len(events) and events.start_ns.min() < 0:
        yield "an event starts before time 0"
    backwards = np.flatnonzero(events.end_ns < events.start_ns)
    if len(backwards):
        yield f"slice {backwards[0]} ends before it starts"
    if (events.start_ns[1:] < events.start_ns[:-1]).any():
        yield "events are not ordered by time"


def _overlap_problems(model: TraceModel) -> Iterator[str]:
    rows = overlapping(model.slices)
    if len(rows):
        thread = model.threads[model.slices.thread[rows[0]]]
        name = safe_terminal(thread.name)
        yield f"slices overlap without nesting ({len(rows)}, first on {name})"


def overlapping(slices: Events) -> NDArray[np.int64]:
    """Slices that start inside another of their thread and end after it."""
    order = np.argsort(slices.thread, kind="stable")
    bounds = np.flatnonzero(np.diff(slices.thread[order])) + 1
    crossings = [_crossing(slices, rows) for rows in np.split(order, bounds) if len(rows) > 1]
    return np.concatenate([np.zeros(0, np.int64), *crossings])


def _crossing(slices: Events, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    start, end = slices.start_ns[rows], slices.end_ns[rows]
    if (start[1:] >= np.maximum.accumulate(end)[:-1]).all():  # nothing nested: the usual case
        return rows[:0]
    return rows[[place for place, crosses in enumerate(_nesting(start, end)) if crosses]]


def _nesting(start: Times, end: Times) -> Iterator[bool]:
    open_ends: list[int] = []
    for begins, ends in zip(start.tolist(), end.tolist(), strict=True):
        while open_ends and open_ends[-1] <= begins:
            open_ends.pop()
        crosses = bool(open_ends) and ends > open_ends[-1]
        yield crosses
        if not crosses:
            open_ends.append(ends)


def _flow_problems(model: TraceModel) -> Iterator[str]:
    source, target = model.flows.source, model.flows.target
    if len(source) and (source.min() < 0 or target.max() >= len(model.slices)):
        yield "a flow has no slice at one end"
    elif (source >= target).any():
        yield "a flow leads to a slice that starts before its source"
