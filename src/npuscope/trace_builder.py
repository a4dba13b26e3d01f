"""Collects what a trace shows and puts it in the order that a TraceModel has."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct, field
from numpy.typing import ArrayLike, NDArray

from npuscope.errors import FileError
from npuscope.trace_model import (
    ArgColumn,
    ArgKind,
    Column,
    CounterTrack,
    Events,
    Flows,
    Ids,
    Process,
    Samples,
    Thread,
    Times,
    TraceModel,
    check,
    trace_order,
)

Args = Mapping[str, Column]


class _Batch(Struct, frozen=True):
    """Events that were added together."""

    thread: Ids
    start_ns: Times
    end_ns: Times
    name: Ids
    category: Ids
    args: dict[int, Column]


class TraceBuilder(Struct):
    """Threads and names first, then whole columns of events, then `build`."""

    _strings: dict[str, int] = field(default_factory=dict)
    _processes: list[Process] = field(default_factory=list)
    _threads: list[Thread] = field(default_factory=list)
    _counter_tracks: list[CounterTrack] = field(default_factory=list)
    _slices: list[_Batch] = field(default_factory=list)
    _instants: list[_Batch] = field(default_factory=list)
    _samples: list[tuple[Ids, Times, NDArray[np.float64]]] = field(default_factory=list)
    _flows: list[tuple[NDArray[np.int64], NDArray[np.int64], Ids]] = field(default_factory=list)
    _lanes: dict[tuple[int, int], int] = field(default_factory=dict)
    _count: int = 0

    def text(self, text: str) -> int:
        """The id of a text; the same text has one id."""
        return self._strings.setdefault(text, len(self._strings))

    def texts(self, many: Iterable[str]) -> Ids:
        return np.fromiter(map(self.text, many), np.int32)

    def process(self, name: str, pid: int, sort: int = 0, label: str = "") -> int:
        self._processes.append(Process(pid, name, sort, label))
        return len(self._processes) - 1

    def thread(self, process: int, name: str, tid: int | None = None, sort: int = 0) -> int:
        """A row of the process; without a tid it gets the next one."""
        used = [thread.tid for thread in self._threads if thread.process == process]
        self._threads.append(Thread(process, tid or max(used, default=0) + 1, name, sort))
        return len(self._threads) - 1

    def counter(self, process: int, name: str, unit: str = "") -> int:
        self._counter_tracks.append(CounterTrack(process, name, unit))
        return len(self._counter_tracks) - 1

    def add_slices(
        self,
        thread: ArrayLike,
        start_ns: ArrayLike,
        end_ns: ArrayLike,
        name: ArrayLike | str,
        category: ArrayLike | str = "",
        args: Args | None = None,
        *,
        overlapping: bool = False,
    ) -> NDArray[np.int64]:
        """Numbers of the new slices, for flows. Single values stand for whole columns.

        Where slices may overlap (transfers in flight) they are spread over as many threads as it
        takes; the further ones have the name of the first with a number behind it.
        """
        batch = self._batch(thread, start_ns, end_ns, name, category, args)
        if overlapping:
            batch.thread[:] = self._spread(batch)
        self._slices.append(batch)
        self._count += len(batch.start_ns)
        return np.arange(self._count - len(batch.start_ns), self._count)

    def add_instants(
        self,
        thread: ArrayLike,
        ns: ArrayLike,
        name: ArrayLike | str,
        category: ArrayLike | str = "",
        args: Args | None = None,
    ) -> None:
        self._instants.append(self._batch(thread, ns, ns, name, category, args))

    def add_samples(self, track: ArrayLike, ns: ArrayLike, value: ArrayLike) -> None:
        """Values of counters."""
        times = np.atleast_1d(np.asarray(ns, np.int64))
        values = np.broadcast_to(np.asarray(value, np.float64), times.shape)
        self._samples.append((_spread_out(track, times), times, values))

    def add_flows(
        self, source: ArrayLike, target: ArrayLike, category: ArrayLike | str = ""
    ) -> None:
        """Arrows between slices, by the numbers that `add_slices` gave."""
        sources = np.atleast_1d(np.asarray(source, np.int64))
        targets = np.atleast_1d(np.asarray(target, np.int64))
        self._flows.append((sources, targets, self._ids(category, sources)))

    def build(self, where: str = "") -> TraceModel:
        """The trace; an error where slices of one thread overlap. `where`: what was recorded."""
        self.text("")
        slices, place = _events(self._slices)
        flows, undrawn = self._drawn(place)
        model = TraceModel(
            tuple(self._strings),
            tuple(self._processes),
            tuple(self._threads),
            tuple(self._counter_tracks),
            slices,
            _events(self._instants)[0],
            self._all_samples(),
            flows,
            undrawn,
        )
        if wrong := check(model):
            text = f"the records do not form a timeline: {'; '.join(wrong)}"
            raise FileError(text, where=where)
        return model

    def _batch(
        self,
        thread: ArrayLike,
        start_ns: ArrayLike,
        end_ns: ArrayLike,
        name: ArrayLike | str,
        category: ArrayLike | str,
        args: Args | None,
    ) -> _Batch:
        start = np.atleast_1d(np.asarray(start_ns, np.int64))
        return _Batch(
            _spread_out(thread, start),
            start,
            np.broadcast_to(np.asarray(end_ns, np.int64), start.shape),
            self._ids(name, start),
            self._ids(category, start),
            {self.text(key): column for key, column in (args or {}).items()},
        )

    def _ids(self, names: ArrayLike | str, rows: NDArray[np.int64]) -> Ids:
        return _spread_out(self.text(names) if isinstance(names, str) else names, rows)

    def _spread(self, batch: _Batch) -> Ids:
        """The thread of each slice when those in flight at the same time lie apart."""
        result = batch.thread.copy()
        for thread in np.unique(batch.thread).tolist():
            rows = np.flatnonzero(batch.thread == thread)
            lane = lanes(batch.start_ns[rows], batch.end_ns[rows])
            of_lane = np.array([self._lane(thread, i) for i in range(lane.max() + 1)], np.int32)
            result[rows] = of_lane[lane]
        return result

    def _lane(self, thread: int, lane: int) -> int:
        if lane == 0:
            return thread
        if (thread, lane) not in self._lanes:
            first = self._threads[thread]
            name = f"{first.name} {lane + 1}"
            self._lanes[thread, lane] = self.thread(first.process, name, sort=first.sort)
        return self._lanes[thread, lane]

    def _all_samples(self) -> Samples:
        track, ns, value = (
            np.concatenate(part) for part in zip(*self._samples, _NO_SAMPLES, strict=True)
        )
        order = np.argsort(ns, kind="stable")
        return Samples(track[order], ns[order], value[order])

    def _drawn(self, place: NDArray[np.int64]) -> tuple[Flows, int]:
        """Flows between places in the sorted table, and how many point back in time."""
        source, target, category = (
            np.concatenate(p) for p in zip(*self._flows, _NO_FLOWS, strict=True)
        )
        source, target = place[source], place[target]
        forward = source < target
        flows = Flows(source[forward], target[forward], category[forward])
        return flows, len(source) - len(flows)


_NO_SAMPLES = (np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0))
_NO_FLOWS = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32))
_NO_EVENTS = _Batch(_NO_FLOWS[2], _NO_FLOWS[0], _NO_FLOWS[0], _NO_FLOWS[2], _NO_FLOWS[2], {})


def lanes(start_ns: Times, end_ns: Times) -> NDArray[np.int64]:
    """The first free lane for each span, so that no two overlap in a lane."""
    result = np.zeros(len(start_ns), np.int64)
    free: list[int] = []
    busy: list[tuple[int, int]] = []  # end, lane
    order = np.lexsort((end_ns, start_ns))
    spans = zip(order.tolist(), start_ns[order].tolist(), end_ns[order].tolist(), strict=True)
    for row, start, end in spans:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        result[row] = lane
    return result


def _spread_out(value: ArrayLike, rows: NDArray[np.int64]) -> Ids:
    return np.broadcast_to(np.asarray(value, np.int32), rows.shape).copy()


def _events(batches: list[_Batch]) -> tuple[Events, NDArray[np.int64]]:
    """The table in trace order, and where each event went."""
    every = [*batches, _NO_EVENTS]
    start = np.concatenate([batch.start_ns for batch in every])
    end = np.concatenate([batch.end_ns for batch in every])
    order = trace_order(start, end)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    events = Events(
        np.concatenate([batch.thread for batch in every])[order],
        start[order],
        end[order],
        np.concatenate([batch.name for batch in every])[order],
        np.concatenate([batch.category for batch in every])[order],
        _arg_columns(batches, place),
    )
    return events, place


def _arg_columns(batches: list[_Batch], place: NDArray[np.int64]) -> tuple[ArgColumn, ...]:
    """One column for each name and kind, in the order in which they were first seen."""
    columns: dict[tuple[int, ArgKind], Column] = {}
    first = 0
    for batch in batches:
        rows = place[first : first + len(batch.start_ns)]
        first += len(rows)
        for name, column in batch.args.items():
            key = name, column.kind
            if key not in columns:
                values = np.zeros(len(place), column.kind.value)
                columns[key] = Column(column.kind, values, np.zeros(len(place), bool))
            whole = columns[key]
            present = np.ones(1, bool) if column.present is None else column.present
            whole.values[rows] = np.where(present, column.values, 0)
            if whole.present is not None:
                whole.present[rows] = present
    return tuple(ArgColumn(name, _whole(column)) for (name, _), column in columns.items())


def _whole(column: Column) -> Column:
    """Without the mask where all have the argument."""
    everywhere = column.present is not None and column.present.all()
    return Column(column.kind, column.values) if everywhere else column
