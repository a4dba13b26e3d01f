"""A whole .tflite file as records: every table of the schema, read and written by one reader and
one writer, and what stands behind the flatbuffer."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct, field

from npuscope.errors import FileError, ModelError
from npuscope.files.tflite.flat_table import WILD_OFFSET, Table
from npuscope.files.tflite.tables import (
    METHODS,
    STRING,
    TABLE,
    TableField,
    defaults,
    fields,
    union_tables,
)
from npuscope.graph.limits import Budget

_RECORD_BYTES = 64  # what a table takes here at least, about; many may be one in the file
_ALIGNED_BYTES = 16  # of the data of buffers, by the schema
_WORD = struct.Struct("<I").unpack_from
# Fields that say where the data of a table is that does not fit into the flatbuffer.
_OUTSIDE = {
    "Buffer": ("Offset", "Size"),
    "Operator": ("LargeCustomOptionsOffset", "LargeCustomOptionsSize"),
}
_FIRST_OUTSIDE = 2  # writers fill 0 and 1 in where there is no such data
_LATER = (1 << 64) - 1  # a place that is not known yet


class Record(Struct, eq=False):
    """One table. `fields` holds numbers, bytes, arrays, records and lists of them; `outside` what
    the table keeps behind the flatbuffer."""

    table: str
    fields: dict[str, Any] = field(default_factory=dict)
    outside: np.ndarray | None = None

    def get(self, name: str, default: Any = None) -> Any:
        return self.fields.get(name, default)

    def copy(self) -> Record:
        """Edits of the copy leave the record alone; arrays are shared, nobody writes in them."""
        copied = {name: _copied(value) for name, value in self.fields.items()}
        return Record(self.table, copied, self.outside)

    def values(self) -> Iterator[tuple[str, Any]]:
        """Fields that say something: not the numbers that a file may leave out."""
        usual = defaults(self.table)
        for name, value in self.fields.items():
            if name not in usual or value != usual[name]:
                yield name, value


def _copied(value: Any) -> Any:
    if isinstance(value, Record):
        return value.copy()
    return [_copied(item) for item in value] if isinstance(value, list) else value


def same(one: Any, other: Any) -> bool:
    """Do two values of records say the same?"""
    if one is other:
        return True
    if isinstance(one, Record) and isinstance(other, Record):
        mine, yours = dict(one.values()), dict(other.values())
        alike = one.table == other.table and mine.keys() == yours.keys()
        return (
            alike
            and same(one.outside, other.outside)
            and all(same(value, yours[name]) for name, value in mine.items())
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        # As bytes: a NaN is the same as itself.
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return type(one) is type(other) and bool(one == other)


class TfliteFile(Struct, frozen=True):
    """A file as records. `attached` stands behind everything that the flatbuffer names, such as an
    archive of labels. `unknown` says what in the file is newer than the schema known here: it
    would be lost in writing."""

    model: Record
    identifier: bytes
    attached: bytes = b""
    unknown: str = ""


# reading


def read_model_file(data: bytes) -> TfliteFile:
    """What the network's reader does not look at is foreign too, so wild offsets and tables that
    hang on many others are refused here."""
    reader = _Reader(data)
    try:
        model = reader.record(Table(data, _WORD(data, 0)[0]), "Model")
        attached = reader.attached()
    except WILD_OFFSET:
        raise FileError(
            "the file is damaged: a table outside the network cannot be read",
            hint="copy or export the model again",
        ) from None
    return TfliteFile(model, data[4:8], attached, reader.unknown)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.budget = data, Budget(len(data))
        self.unknown = ""
        self.end = 0  # of what the flatbuffer holds, as far as it was read
        self.outside: list[tuple[int, int]] = []

    def record(self, table: Table, name: str) -> Record:
        """A table with all that hangs on it; what is absent is left out, except numbers."""
        self.budget.take(_RECORD_BYTES)
        self._reached(table.pos, table.slots[1])
        record = Record(name, dict(defaults(name)))
        present = {slot for slot, place in enumerate(table.slots[2:]) if place}
        for entry in fields(name):
            value = self._value(table, entry) if entry.slot in present else None
            if value is not None:
                record.fields[entry.name] = value
        if present - {entry.slot for entry in fields(name)}:
            self.unknown = self.unknown or f"a field of {name}"
        if name in _OUTSIDE:
            self._take_outside(record)
        return record

    def _value(self, table: Table, entry: TableField) -> Any:
        slot = 4 + 2 * entry.slot
        if entry.is_vector:
            vector = table.vector(slot)
            count, start = vector
            if entry.form in METHODS:
                numbers = np.frombuffer(self.data, entry.form, count, start)
                self._reached(start, numbers.nbytes)
                return numbers
            self._reached(start, 4 * count)
            self.budget.take(count)
            if entry.form == TABLE:
                return [self.record(table.item(vector, n), entry.table) for n in range(count)]
            places = [start + 4 * n for n in range(count)]
            targets = [place + _WORD(self.data, place)[0] for place in places]
            return [self._string(_WORD(self.data, target)[0], target + 4) for target in targets]
        if entry.form in METHODS:
            return table.number(slot, entry.form)
        if entry.form == STRING:
            return self._string(*table.vector(slot))
        content = table.table(slot)
        assert content is not None
        if entry.form == TABLE:
            return self.record(content, entry.table)
        number = table.number(slot - 2, "B")  # a union's type is the field before it
        tables = union_tables(entry.table)
        if number in tables:
            return self.record(content, tables[number])
        self.unknown = self.unknown or f"number {number} of {entry.table}"
        return None

    def _string(self, count: int, start: int) -> bytes:
        self.budget.take(count)
        self._reached(start, count + 1)
        return self.data[start : start + count]

    def _reached(self, start: int, size: int) -> None:
        if start + size > len(self.data):
            raise IndexError
        self.end = max(self.end, start + size)

    def _take_outside(self, record: Record) -> None:
        start, size = (record.get(name, 0) for name in _OUTSIDE[record.table])
        if start < _FIRST_OUTSIDE:
            return
        if start + size > len(self.data):
            raise IndexError
        self.budget.take(size)
        self.outside.append((start, start + size))
        record.outside = np.frombuffer(self.data, np.uint8, size, start)

    def attached(self) -> bytes:
        """Behind the flatbuffer and the data that it keeps there; anything but zeros between them
        has a meaning that nobody knows here."""
        end = self.end
        for start, stop in sorted(self.outside):
            if any(self.data[end:start]):
                self.unknown = self.unknown or "data after its tables"
            end = max(end, stop)
        rest = self.data[end:]
        return rest if any(rest) else b""


# writing


def write_model_file(file: TfliteFile) -> bytes:
    """A flatbuffer, the data behind it, then what was attached."""
    if file.unknown:
        raise ModelError(
            f"the file cannot be written without loss: npuscope does not know {file.unknown}",
            hint="the file is newer than this version of npuscope",
        )
    behind = [record for record in _records(file.model) if record.outside is not None]
    if not behind:
        return _flatbuffer(file) + file.attached
    _set_places(behind, [_LATER] * len(behind))
    places, end = [], len(_flatbuffer(file))
    for record in behind:
        assert record.outside is not None
        places.append(end + -end % _ALIGNED_BYTES)
        end = places[-1] + record.outside.size
    _set_places(behind, places)
    data = bytearray(_flatbuffer(file))
    for record, place in zip(behind, places, strict=True):
        assert record.outside is not None
        data += bytes(place - len(data)) + record.outside.tobytes()
    return bytes(data) + file.attached


def _records(record: Record) -> Iterator[Record]:
    """It and all that hang on it."""
    yield record
    for value in record.fields.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Record):
                yield from _records(item)


def _set_places(records: list[Record], places: list[int]) -> None:
    for record, place in zip(records, places, strict=True):
        assert record.outside is not None
        start, size = _OUTSIDE[record.table]
        record.fields |= {start: place, size: record.outside.size}


def _flatbuffer(file: TfliteFile) -> bytes:
    import flatbuffers

    buffers = file.model.get("Buffers", [])
    size = sum(len(buffer.get("Data", ())) for buffer in buffers)
    builder = flatbuffers.Builder(size + size // 8 + 65536)
    try:
        builder.Finish(_write(builder, file.model), file.identifier)
    except flatbuffers.builder.BuilderSizeError:
        raise ModelError(
            "the edited file would be larger than 2 GB, which no reader accepts"
        ) from None
    return bytes(builder.Output())


def _write(builder: Any, record: Record) -> int:
    """The record and all it holds; gives the table's offset."""
    by_name = {entry.name: entry for entry in fields(record.table)}
    rows = [(by_name[name], value) for name, value in record.values()]
    numbers = [_written(builder, entry, value) for entry, value in rows]
    builder.StartObject(max((entry.slot + 1 for entry, _ in rows), default=0))
    for (entry, _), number in zip(rows, numbers, strict=True):
        if entry.is_vector or entry.form not in METHODS:
            builder.PrependUOffsetTRelativeSlot(entry.slot, number, 0)
        else:
            getattr(builder, METHODS[entry.form])(entry.slot, number, entry.default)
    return int(builder.EndObject())


def _written(builder: Any, entry: TableField, value: Any) -> Any:
    """A number as it is; anything larger is written first, and stands as its offset."""
    if isinstance(value, np.ndarray):
        raw = np.ascontiguousarray(value, np.dtype(entry.form)).tobytes()
        step = np.dtype(entry.form).itemsize
        builder.StartVector(step, value.size, _ALIGNED_BYTES if step == 1 else step)
        builder.head = int(builder.Head()) - len(raw)
        builder.Bytes[builder.head : builder.head + len(raw)] = raw
        return int(builder.EndVector())
    if isinstance(value, list):
        offsets = [_written(builder, entry, item) for item in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())
    if isinstance(value, Record):
        return _write(builder, value)
    return builder.CreateString(value) if isinstance(value, bytes) else value
