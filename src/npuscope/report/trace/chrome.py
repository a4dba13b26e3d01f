"""A TraceModel as Chrome trace events in JSON, one event a line.

A slice is a complete event (X). Viewers take those of one start by their length, and tie a flow to
the slice that was opened last: on threads where slices with flows share their start with others,
begin and end events (B, E) keep the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from npuscope.report.trace.chrome_lines import (
    EXACT_NS,
    Lines,
    Words,
    flow_ends,
    flow_starts,
    json,
    microseconds,
    numbers,
    objects,
    ordered_rows,
    slice_ends,
    woven,
)
from npuscope.trace_model import ArgColumn, ArgKind, Events, Mask, TraceModel

ROWS = 1 << 14  # events in a block: some megabytes of text


def write_chrome(model: TraceModel, file: BinaryIO) -> None:
    """The whole trace; memory grows with the model, not with the file."""
    model, base_ns = _near_zero(model)
    words = Words.of(model)
    head = f'{{"displayTimeUnit":"ns","otherData":{{"base_ns":"{base_ns}"}},"traceEvents":[\n'
    file.write(head.encode())
    separator = b""
    blocks = chain(_tracks(model), _slices(model, words), _instants(model, words), _samples(model))
    for block in blocks:
        file.write(separator + ",\n".join(block).encode())
        separator = b",\n"
    file.write(b"\n]}\n")


def _near_zero(model: TraceModel) -> tuple[TraceModel, int]:
    """The trace moved to time 0 where viewers would lose nanoseconds, and by how much."""
    tables = (model.slices, model.instants)
    starts = [table.start_ns for table in tables] + [model.samples.ns]
    latest = max((int(ns.max()) for ns in (*starts, model.slices.end_ns) if len(ns)), default=0)
    if latest < EXACT_NS:
        return model, 0
    base = min(int(ns.min()) for ns in starts if len(ns))
    slices, instants = (
        replace(table, start_ns=table.start_ns - base, end_ns=table.end_ns - base)
        for table in tables
    )
    samples = replace(model.samples, ns=model.samples.ns - base)
    return replace(model, slices=slices, instants=instants, samples=samples), base


def _tracks(model: TraceModel) -> Iterator[Lines]:
    """Names and places of processes and threads."""
    for process in model.processes:
        yield _named("process", f'"pid":{process.pid}', process.name, process.sort)
    for thread in model.threads:
        place = f'"pid":{model.processes[thread.process].pid},"tid":{thread.tid}'
        yield _named("thread", place, thread.name, thread.sort)


def _named(what: str, place: str, name: str, sort: int) -> Lines:
    head = f'{{"ph":"M",{place},"name":"{what}_'
    place_line = f'{head}sort_index","args":{{"sort_index":{sort}}}}}'
    if not name:  # an empty one counts as an error of the file
        return [place_line]
    return [f'{head}name","args":{{"name":{json(name)}}}}}', place_line]


def _slices(model: TraceModel, words: Words) -> Iterator[Lines]:
    slices = model.slices
    in_two = ordered_rows(model)
    further = (flow_starts(model, words), flow_ends(model, words), slice_ends(model, in_two, words))
    for rows in _blocks(len(slices)):
        duration = microseconds(slices.end_ns[rows] - slices.start_ns[rows])
        phases = objects(woven('"ph":"X","dur":', duration))
        phases[in_two[rows]] = '"ph":"B"'
        lines = _events(slices, rows, words, list(phases))
        for tails in further:
            tails.append_to(lines, rows)
        yield lines


def _instants(model: TraceModel, words: Words) -> Iterator[Lines]:
    for rows in _blocks(len(model.instants)):
        phases = ['"ph":"i","s":"t"'] * (rows.stop - rows.start)
        yield _events(model.instants, rows, words, phases)


def _samples(model: TraceModel) -> Iterator[Lines]:
    samples = model.samples
    heads = objects(
        [
            f'"ph":"C","pid":{model.processes[track.process].pid},"name":{json(track.name)},'
            f'"args":{{{json(track.unit or "value")}'
            for track in model.counter_tracks
        ]
    )
    for rows in _blocks(len(samples)):
        head, value = list(heads[samples.track[rows]]), numbers(samples.value[rows])
        yield woven("{", head, ":", value, '},"ts":', microseconds(samples.ns[rows]), "}")


def _blocks(count: int) -> Iterator[slice]:
    return (slice(at, min(at + ROWS, count)) for at in range(0, count, ROWS))


def _events(events: Events, rows: slice, words: Words, phases: Lines) -> Lines:
    """One line an event; the phase comes with the fields that only it has."""
    place, start = words.place(events.thread[rows]), microseconds(events.start_ns[rows])
    name, category = words.text(events.name[rows]), words.text(events.category[rows])
    heads = woven("{", phases, ",", place, ',"ts":', start, ',"name":', name, ',"cat":', category)
    if not events.args:
        return woven(heads, "}")
    args = _arguments(events.args, rows, words)
    return woven(heads, ',"args":{', args, "}}")


def _arguments(args: tuple[ArgColumn, ...], rows: slice, words: Words) -> Lines:
    """What is between the braces. Events that have the same arguments are written together."""
    keys = [f"{words.strings[arg.name]}:" for arg in args]
    values = [_arg_values(arg, rows, words) for arg in args]
    result = objects([""] * (rows.stop - rows.start))
    for having, present in _groups(args, rows):
        shown = np.flatnonzero(present).tolist()
        pieces: list[str | Lines] = []
        for i in shown:
            pieces += ["," + keys[i] if pieces else keys[i], _chosen(values[i], having)]
        if pieces:
            result[having] = woven(*pieces)
    return list(result)


def _arg_values(arg: ArgColumn, rows: slice, words: Words) -> Lines:
    values = arg.column.values[rows]
    return words.text(values) if arg.column.kind is ArgKind.TEXT else numbers(values)


def _groups(args: tuple[ArgColumn, ...], rows: slice) -> Iterator[tuple[NDArray[np.int64], Mask]]:
    """Events with the same arguments, and which those are."""
    masks = [arg.column.present for arg in args]
    count = rows.stop - rows.start
    if all(mask is None for mask in masks):
        yield np.arange(count), np.ones(len(args), bool)
        return
    every = np.ones(count, bool)
    table = np.stack([every if mask is None else mask[rows] for mask in masks], axis=1)
    kinds, kind_of = np.unique(table, axis=0, return_inverse=True)
    for kind, present in enumerate(kinds):
        yield np.flatnonzero(kind_of.reshape(-1) == kind), present


def _chosen(column: Lines, having: NDArray[np.int64]) -> Lines:
    if len(having) == len(column):
        return column
    return [column[row] for row in having.tolist()]
