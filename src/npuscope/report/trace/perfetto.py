"""A TraceModel as a Perfetto trace: protobuf packets with interned names, written in blocks.

A slice is a packet where it starts and one where it ends. Both stand together: the viewer orders
packets by time and keeps the order of the file among equals, which is that of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import BinaryIO

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from npuscope.protobuf import BYTES, FIXED64, VARINT, bytes_field, number_field, tag, varint
from npuscope.protobuf_columns import (
    Bytes,
    Fixed64,
    Literal,
    Part,
    Piece,
    Varints,
    inserted,
    sizes,
    table,
)
from npuscope.text import safe_terminal
from npuscope.trace_model import ArgColumn, ArgKind, Events, Ids, Times, TraceModel

ROWS = 1 << 14  # records in a block: a few megabytes
STRINGS = 1 << 12  # names in a packet
# Fields of the messages Trace, TracePacket, TrackEvent, TrackDescriptor and InternedData.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _TRACK = 8, 10, 11, 12, 13, 60
_CATEGORY, _ARG, _TYPE, _NAME, _TRACK_UUID, _DOUBLE_VALUE = 3, 4, 9, 10, 11, 44
_FLOW, _FLOW_END = 47, 48
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # values of type
_UUID, _PROCESS, _THREAD, _PARENT, _TRACK_NAME, _COUNTER_TRACK = 1, 3, 4, 5, 2, 8
_ARG_NAME, _ARG_INT, _ARG_DOUBLE, _ARG_STRING = 1, 4, 5, 17
_CATEGORIES, _NAMES, _ARG_NAMES, _ARG_STRINGS = 1, 2, 3, 29
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_FLOW_BYTES = 2 + 8


def write_perfetto(model: TraceModel, file: BinaryIO) -> None:
    """The whole trace; memory grows with the model, not with the file."""
    file.write(_packet(number_field(_FLAGS, _STATE_CLEARED)))
    file.writelines(_packet(bytes_field(_TRACK, track)) for track in _tracks(model))
    for block in _interned(model):
        file.write(_packet(number_field(_FLAGS, _NEEDS_STATE) + bytes_field(_INTERNED, block)))
    for records in chain(_slices(model), _instants(model), _samples(model)):
        file.write(records.data)


def _packet(body: bytes) -> bytes:
    return bytes_field(_PACKET, number_field(_SEQUENCE, 1) + body)


def _tracks(model: TraceModel) -> Iterator[bytes]:
    uuids = _Uuids(model)
    for index, process in enumerate(model.processes):
        body = number_field(1, process.pid) + number_field(3, max(process.sort, 0))
        body += bytes_field(6, _text(process.name))
        if process.label:
            body += bytes_field(8, _text(process.label))
        yield number_field(_UUID, uuids.process(index)) + bytes_field(_PROCESS, body)
    for index, thread in enumerate(model.threads):
        body = number_field(1, model.processes[thread.process].pid) + number_field(2, thread.tid)
        body += number_field(3, max(thread.sort, 0)) + bytes_field(5, _text(thread.name))
        head = number_field(_UUID, uuids.first_thread + index)
        yield (
            head + number_field(_PARENT, uuids.process(thread.process)) + bytes_field(_THREAD, body)
        )
    for index, track in enumerate(model.counter_tracks):
        head = number_field(_UUID, uuids.first_counter + index)
        head += number_field(_PARENT, uuids.process(track.process))
        head += bytes_field(_TRACK_NAME, _text(track.name))
        unit = bytes_field(6, _text(track.unit)) if track.unit else b""
        yield head + bytes_field(_COUNTER_TRACK, unit)


class _Uuids(Struct, frozen=True):
    """Numbers of tracks: processes from 1, then threads, then counters."""

    model: TraceModel

    def process(self, index: int) -> int:
        return 1 + index

    @property
    def first_thread(self) -> int:
        return 1 + len(self.model.processes)

    @property
    def first_counter(self) -> int:
        return self.first_thread + len(self.model.threads)


def _text(text: str) -> bytes:
    return safe_terminal(text).encode()


def _interned(model: TraceModel) -> Iterator[bytes]:
    """Tables of the names in use; a name's number is its id and one."""
    both = (model.slices, model.instants)
    args = [arg for events in both for arg in events.args]
    texts = [arg.column.values for arg in args if arg.column.kind is ArgKind.TEXT]
    for field, ids in (
        (_CATEGORIES, [events.category for events in both]),
        (_NAMES, [events.name for events in both]),
        (_ARG_NAMES, [np.array([arg.name for arg in args], np.int32)]),
        (_ARG_STRINGS, texts),
    ):
        used = sorted({int(value) for column in ids for value in np.unique(column)})
        for at in range(0, len(used), STRINGS):
            yield b"".join(
                bytes_field(field, number_field(1, i + 1) + bytes_field(2, _text(model.strings[i])))
                for i in used[at : at + STRINGS]
            )


def _blocks(count: int) -> Iterator[slice]:
    return (slice(at, min(at + ROWS, count)) for at in range(0, count, ROWS))


def _slices(model: TraceModel) -> Iterator[Bytes]:
    slices, ends = model.slices, _FlowEnds.of(model)
    begin = _packets(
        slices.start_ns,
        _tracks_of(model, slices),
        _BEGIN,
        _details(slices),
        ends.bytes_of_rows(len(slices)),
    )
    end = _packets(slices.end_ns, _tracks_of(model, slices), _END)
    lengths, end_bytes = sizes(begin, len(slices)), sum(part.width for part in end)
    for rows in _blocks(len(slices)):
        flat = table((*begin, *end), rows)
        places = np.cumsum(lengths[rows] + np.int64(end_bytes)) - end_bytes
        yield ends.inserted(flat, places, rows)


def _instants(model: TraceModel) -> Iterator[Bytes]:
    instants = model.instants
    tracks = _tracks_of(model, instants)
    parts = _packets(instants.start_ns, tracks, _INSTANT, _details(instants))
    return (table(parts, rows) for rows in _blocks(len(instants)))


def _samples(model: TraceModel) -> Iterator[Bytes]:
    samples = model.samples
    tracks = samples.track + _Uuids(model).first_counter
    value = Part((Literal(tag(_DOUBLE_VALUE, FIXED64)), Fixed64(samples.value)))
    parts = _packets(samples.ns, tracks, _COUNTER, (value,))
    return (table(parts, rows) for rows in _blocks(len(samples)))


def _tracks_of(model: TraceModel, events: Events) -> Ids:
    return events.thread + _Uuids(model).first_thread


def _packets(
    ns: Times,
    track: Ids,
    kind: int,
    more: Sequence[Part] = (),
    further_bytes: NDArray[np.int32] | int = 0,
) -> tuple[Part, ...]:
    """A time and a track event; `further_bytes` will be put behind the last part."""
    place = (Literal(number_field(_TYPE, kind) + tag(_TRACK_UUID, VARINT)), Varints(track))
    event = (Part(place), *more)
    size = sizes(event, len(ns)) + further_bytes
    inner = Part((Literal(tag(_TRACK_EVENT, BYTES)), Varints(size)))
    state = number_field(_SEQUENCE, 1) + number_field(_FLAGS, _NEEDS_STATE)
    stamp = Part((Literal(state + tag(_TIMESTAMP, VARINT)), Varints(ns)))
    outer = Part((Literal(tag(_PACKET, BYTES)), Varints(size + stamp.width + inner.width)))
    return (outer, stamp, inner, *event)


def _details(events: Events) -> tuple[Part, ...]:
    name = Literal(tag(_NAME, VARINT)), Varints(events.name + 1)
    category = Literal(tag(_CATEGORY, VARINT)), Varints(events.category + 1)
    return (Part((*name, *category)), *map(_argument, events.args))


def _argument(arg: ArgColumn) -> Part:
    column, name = arg.column, number_field(_ARG_NAME, arg.name + 1)
    value: tuple[Piece, ...]
    if column.kind is ArgKind.INT:
        value = Literal(name + tag(_ARG_INT, VARINT)), Varints(column.values)
    elif column.kind is ArgKind.FLOAT:
        value = Literal(name + tag(_ARG_DOUBLE, FIXED64)), Fixed64(column.values)
    else:
        value = Literal(name + tag(_ARG_STRING, VARINT)), Varints(column.values + 1)
    size = Literal(tag(_ARG, BYTES) + varint(sum(piece.width for piece in value)))
    return Part((size, *value), column.present)


class _FlowEnds(Struct, frozen=True):
    """Both ends of all flows by slice: each is a field of its slice's first packet."""

    row: NDArray[np.int64]  # ascending
    fields: Bytes  # one row per end

    @classmethod
    def of(cls, model: TraceModel) -> _FlowEnds:
        flows = model.flows
        ids = Fixed64(np.arange(1, len(flows) + 1))
        everything = slice(0, len(flows))
        starts, ends = (
            table((Part((Literal(tag(field, FIXED64)), ids)),), everything).reshape(-1, _FLOW_BYTES)
            for field in (_FLOW, _FLOW_END)
        )
        row = np.concatenate([flows.source, flows.target])
        order = np.argsort(row, kind="stable")
        return cls(row[order], np.concatenate([starts, ends])[order])

    def bytes_of_rows(self, count: int) -> NDArray[np.int32]:
        return np.bincount(self.row, minlength=count).astype(np.int32) * _FLOW_BYTES

    def inserted(self, flat: Bytes, places: NDArray[np.int64], rows: slice) -> Bytes:
        """`flat` with the flow ends of its slices where their first packets end."""
        first, last = np.searchsorted(self.row, (rows.start, rows.stop))
        if first == last:
            return flat
        having, counts = np.unique(self.row[first:last] - rows.start, return_counts=True)
        more = self.fields[first:last].reshape(-1)
        return inserted(flat, places[having], counts * _FLOW_BYTES, more)
