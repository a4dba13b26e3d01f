"""A TraceModel as Chrome trace events in JSON, one event per line.

A slice is a complete event (X). Viewers take those of one start by their length, and tie a flow to
the slice that was opened last: on threads where slices with flows share their start with others,
begin and end events (B, E) keep the order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any, BinaryIO

import numpy as np
import orjson
from msgspec import Struct
from numpy.typing import NDArray

from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.trace_model import ArgColumn, ArgKind, Events, Ids, Mask, Times, TraceModel

# --- Parts of Chrome's JSON lines, and the lines that follow a slice: flows and ends ---

Lines = list[str]
# Viewers hold microseconds as 64-bit floats; below this (13 days) they show each nanosecond.
EXACT_NS = 1 << 50
Rows = NDArray[np.int64]


def json(text: str) -> str:
    return orjson.dumps(safe_terminal(text)).decode()


def json_all(texts: tuple[str, ...]) -> Lines:
    """The same of many; where none has anything to escape, quotes are all that is added."""
    together = "".join(texts)
    if together.isprintable() and '"' not in together and "\\" not in together:
        return [f'"{text}"' for text in texts]
    return [json(text) for text in texts]


def objects(texts: Lines) -> NDArray[np.object_]:
    result = np.empty(len(texts), object)
    result[:] = texts
    return result


Pieces = tuple[str | Lines, ...]


def woven(*pieces: str | Lines) -> Lines:
    """Columns of texts with the same texts between them, joined row by row."""
    columns = [repeat(piece) if isinstance(piece, str) else piece for piece in pieces]
    return list(map("".join, zip(*columns, strict=False)))


def block(count: int, *pieces: str | Lines) -> str:
    """What `woven` gives for so many rows, as one text: one join is faster than one a row."""
    flat = [""] * (count * len(pieces))
    for place, piece in enumerate(pieces):
        flat[place :: len(pieces)] = [piece] * count if isinstance(piece, str) else piece
    return "".join(flat)


def numbers(values: NDArray[Any]) -> Lines:
    """As JSON, which has only null for what is not finite."""
    return orjson.dumps(values.tolist())[1:-1].decode().split(",") if len(values) else []


def microseconds(ns: Times) -> Lines:
    """Exact below EXACT_NS: the shortest text of a float has no more than three decimals then."""
    return numbers(ns / 1000)


class Words(Struct, frozen=True):
    """What many events share, as JSON: strings, and where a thread is."""

    strings: NDArray[np.object_]
    threads: NDArray[np.object_]

    @classmethod
    def of(cls, model: TraceModel) -> Words:
        places = [
            f'"pid":{model.processes[thread.process].pid},"tid":{thread.tid}'
            for thread in model.threads
        ]
        return cls(objects(json_all(tuple(model.strings))), objects(places))

    def text(self, ids: Ids) -> Lines:
        return list(self.strings[ids])

    def place(self, threads: Ids) -> Lines:
        return list(self.threads[threads])


class Tails(Struct, frozen=True):
    """Lines that follow that of a slice; flows have a number and a category."""

    row: Rows  # the slice whose line goes before; ascending
    thread: Ids
    ns: Times
    phase: str
    words: Words
    number: Rows | None = None
    category: Ids | None = None

    def append_to(self, lines: Lines, rows: slice) -> None:
        """To the lines of the slices `rows`."""
        here = slice(*np.searchsorted(self.row, (rows.start, rows.stop)))
        place, ns = self.words.place(self.thread[here]), microseconds(self.ns[here])
        head = (",\n{" + self.phase + ",", place, ',"ts":', ns)
        tails = woven(*head, *self._flow(here), "}")
        for line, tail in zip((self.row[here] - rows.start).tolist(), tails, strict=True):
            lines[line] += tail

    def _flow(self, here: slice) -> Pieces:
        if self.number is None or self.category is None:
            return ()
        category = self.words.text(self.category[here])
        return ',"name":"flow","id":', numbers(self.number[here]), ',"cat":', category


def flow_starts(model: TraceModel, words: Words) -> Tails:
    return _flow_tails(model, model.flows.source, '"ph":"s"', words)


def flow_ends(model: TraceModel, words: Words) -> Tails:
    # `bp: e` binds the arrow to the slice that is open; the default would take the next one.
    return _flow_tails(model, model.flows.target, '"ph":"f","bp":"e"', words)


def _flow_tails(model: TraceModel, row: Rows, phase: str, words: Words) -> Tails:
    """Where the slices start: at an end, the next slice may have begun. Numbers are unique."""
    order = np.argsort(row, kind="stable")
    row, slices = row[order], model.slices
    category = model.flows.category[order]
    place = slices.thread[row], slices.start_ns[row]
    return Tails(row, *place, phase, words, order + 1, category)


def ordered_rows(model: TraceModel) -> Mask:
    """Slices to write as begin and end, on the threads where the order of events matters.

    Those without length stay complete events: a viewer would take their end before their begin.
    """
    slices = model.slices
    with_flow = np.zeros(len(slices), bool)
    with_flow[model.flows.source] = with_flow[model.flows.target] = True
    threads = np.zeros(len(model.threads), bool)
    # Slices that start when another one of their thread does
    order = np.lexsort((slices.start_ns, slices.thread))
    start, thread = slices.start_ns[order], slices.thread[order]
    as_next = (start[1:] == start[:-1]) & (thread[1:] == thread[:-1])
    result = np.zeros(len(slices), bool)
    result[order[1:][as_next]] = result[order[:-1][as_next]] = True
    threads[slices.thread[with_flow & result]] = True
    return threads[slices.thread] & (slices.end_ns > slices.start_ns)


def slice_ends(model: TraceModel, in_two: Mask, words: Words) -> Tails:
    """End events, so that lines stay in order of time and in front of what starts then."""
    slices, own = model.slices, np.flatnonzero(in_two)
    after = np.searchsorted(slices.start_ns, slices.end_ns[own]) - 1
    order = np.lexsort((slices.end_ns[own], after))
    own, after = own[order], after[order]
    return Tails(after, slices.thread[own], slices.end_ns[own], '"ph":"E"', words)


_BEFORE = ",\n"  # every event but the first
ROWS = 1 << 12  # events in a block: a megabyte of text, so that it stays in cache


def write_chrome(model: TraceModel, file: BinaryIO) -> None:
    """The whole trace; memory grows with the model, not with the file."""
    model, base_ns = _near_zero(model)
    words = Words.of(model)
    head = f'{{"displayTimeUnit":"ns","otherData":{{"base_ns":"{base_ns}"}},"traceEvents":[\n'
    file.write(head.encode())
    blocks = chain(_tracks(model), _slices(model, words), _instants(model, words), _samples(model))
    first = next(blocks, _BEFORE)
    file.write(first.removeprefix(_BEFORE).encode())
    for text in blocks:
        file.write(text.encode())
    file.write(b"\n]}\n")


def _near_zero(model: TraceModel) -> tuple[TraceModel, int]:
    """The trace moved to time 0 where viewers would lose nanoseconds, and by how much."""
    tables = (model.slices, model.instants)
    starts = [table.start_ns for table in tables] + [model.samples.ns]
    latest = max((int(ns.max()) for ns in (*starts, model.slices.end_ns) if len(ns)), default=0)
    if latest < EXACT_NS:
        return model, 0
    # The shift is in `otherData.base_ns`, so that UTC can be restored.
    base = min(int(ns.min()) for ns in starts if len(ns))
    slices, instants = (
        replace(table, start_ns=table.start_ns - base, end_ns=table.end_ns - base)
        for table in tables
    )
    samples = replace(model.samples, ns=model.samples.ns - base)
    return replace(model, slices=slices, instants=instants, samples=samples), base


def _tracks(model: TraceModel) -> Iterator[str]:
    """Names and places of processes and threads."""
    for process in model.processes:
        place = f'"pid":{process.pid}'
        lines = _named("process", place, process.name, process.sort)
        if process.label:
            labels = f'"args":{{"labels":{json(process.label)}}}}}'
            lines.append(f'{{"ph":"M",{place},"name":"process_labels",{labels}')
        yield block(len(lines), _BEFORE, lines)
    for thread in model.threads:
        place = f'"pid":{model.processes[thread.process].pid},"tid":{thread.tid}'
        lines = _named("thread", place, thread.name, thread.sort)
        yield block(len(lines), _BEFORE, lines)


def _named(what: str, place: str, name: str, sort: int) -> Lines:
    head = f'{{"ph":"M",{place},"name":"{what}_'
    place_line = f'{head}sort_index","args":{{"sort_index":{sort}}}}}'
    if not name:  # an empty one counts as an error of the file
        return [place_line]
    return [f'{head}name","args":{{"name":{json(name)}}}}}', place_line]


def _slices(model: TraceModel, words: Words) -> Iterator[str]:
    slices = model.slices
    in_two = ordered_rows(model)
    further = (flow_starts(model, words), flow_ends(model, words), slice_ends(model, in_two, words))
    for rows in _blocks(len(slices)):
        duration = microseconds(slices.end_ns[rows] - slices.start_ns[rows])
        phases: Pieces = ('"ph":"X","dur":', duration)
        if in_two[rows].any():
            mixed = objects(woven(*phases))
            mixed[in_two[rows]] = '"ph":"B"'
            phases = (list(mixed),)
        followers = [""] * (rows.stop - rows.start)
        for tails in further:
            tails.append_to(followers, rows)
        yield _events(slices, rows, words, phases, followers)


def _instants(model: TraceModel, words: Words) -> Iterator[str]:
    for rows in _blocks(len(model.instants)):
        yield _events(model.instants, rows, words, ('"ph":"i","s":"t"',))


def _samples(model: TraceModel) -> Iterator[str]:
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
        start = microseconds(samples.ns[rows])
        yield block(len(head), ",\n{", head, ":", value, '},"ts":', start, "}")


def _blocks(count: int) -> Iterator[slice]:
    return (slice(at, min(at + ROWS, count)) for at in range(0, count, ROWS))


def _events(
    events: Events, rows: slice, words: Words, phases: Pieces, followers: Lines | None = None
) -> str:
    """One line per event; the phase comes with the fields that only it has."""
    place, start = words.place(events.thread[rows]), microseconds(events.start_ns[rows])
    name, category = words.text(events.name[rows]), words.text(events.category[rows])
    pieces: list[str | Lines] = [",\n{", *phases, ",", place, ',"ts":', start, ',"name":', name]
    pieces += [',"cat":', category]
    if events.args:
        pieces += [',"args":{', *_arguments(events.args, rows, words), "}"]
    pieces += ["}"] if followers is None else ["}", followers]
    return block(rows.stop - rows.start, *_joined(pieces))


def _joined(pieces: list[str | Lines]) -> Iterator[str | Lines]:
    """Texts that follow each other in every row as one."""
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        if text:
            yield text
        yield piece
        text = ""
    if text:
        yield text


def _arguments(args: tuple[ArgColumn, ...], rows: slice, words: Words) -> Pieces:
    """What is between the braces. Events that have the same arguments are written together."""
    keys = [f"{words.strings[arg.name]}:" for arg in args]
    values = [_arg_values(arg, rows, words) for arg in args]
    if all(arg.column.present is None for arg in args):
        return _pairs(keys, values)
    result = objects([""] * (rows.stop - rows.start))
    for having, present in _groups(args, rows):
        columns = np.flatnonzero(present).tolist()
        if columns:
            texts = [_chosen(values[i], having) for i in columns]
            result[having] = woven(*_pairs([keys[i] for i in columns], texts))
    return (list(result),)


def _pairs(keys: Lines, values: list[Lines]) -> Pieces:
    pieces: list[str | Lines] = []
    for key, value in zip(keys, values, strict=True):
        pieces += ["," + key if pieces else key, value]
    return tuple(pieces)


def _arg_values(arg: ArgColumn, rows: slice, words: Words) -> Lines:
    values = arg.column.values[rows]
    return words.text(values) if arg.column.kind is ArgKind.TEXT else numbers(values)


def _groups(args: tuple[ArgColumn, ...], rows: slice) -> Iterator[tuple[NDArray[np.int64], Mask]]:
    """Events with the same arguments, and which those are."""
    masks = [arg.column.present for arg in args]
    count = rows.stop - rows.start
    every = np.ones(count, bool)
    table = np.stack([every if mask is None else mask[rows] for mask in masks], axis=1)
    kinds, kind_of = np.unique(table, axis=0, return_inverse=True)
    for kind, present in enumerate(kinds):
        yield np.flatnonzero(kind_of.reshape(-1) == kind), present


def _chosen(column: Lines, having: NDArray[np.int64]) -> Lines:
    if len(having) == len(column):
        return column
    return [column[row] for row in having.tolist()]
