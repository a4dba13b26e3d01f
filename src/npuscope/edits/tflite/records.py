"""Tables of the TFLite schema as records: read whole, written whole.

The schema package has accessors and builders for every table but no objects. Its function names
tell what fields a table has, so one reader and one writer serve all tables.
"""

from __future__ import annotations

import re
import struct
from dataclasses import field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from npuscope.errors import FileError
from npuscope.files.tflite.file import WILD_OFFSET, operator_number
from npuscope.graph.limits import Budget
from npuscope.lean_dataclass import dataclass

# Tables that a union field holds, by the field and the number in its type.
_UNIONS = {
    "BuiltinOptions": "BuiltinOptions",
    "BuiltinOptions2": "BuiltinOptions2",
    "Details": "QuantizationDetails",
    "ArraySegments": "SparseIndexVector",
    "ArrayIndices": "SparseIndexVector",
}
_RECORD_BYTES = 16  # what a table takes in a file at least, about
_ALIGNED_BYTES = 16  # of the data of buffers, by the schema
_I32, _U16 = struct.Struct("<i"), struct.Struct("<H")


@dataclass(slots=True, eq=False)
class Record:
    """One table. `fields` holds numbers, bytes, arrays, records and lists of them."""

    table: str
    fields: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        return self.fields.get(name, default)

    def copy(self) -> Record:
        """Edits of the copy leave the record alone; arrays are shared, nobody writes in them."""
        return Record(self.table, {name: _copied(value) for name, value in self.fields.items()})


def _copied(value: Any) -> Any:
    if isinstance(value, Record):
        return value.copy()
    return [_copied(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    is_vector: bool
    add: Any
    start_vector: Any
    slot: int  # its place in a table's list of fields


@cache
def _fields(table: str) -> tuple[_Field, ...]:
    """Fields in the order of the schema."""
    module = import_module(f"tflite.{table}")
    pattern = re.compile(rf"{table}Add(\w+)")
    names = [match[1] for name in vars(module) if (match := pattern.fullmatch(name))]
    return tuple(
        _Field(
            name,
            hasattr(module, f"{table}Start{name}Vector"),
            getattr(module, f"{table}Add{name}"),
            getattr(module, f"{table}Start{name}Vector", None),
            _slot(getattr(module, f"{table}Add{name}")),
        )
        for name in names
    )


def _slot(add: Any) -> int:
    """The number that a field has in the schema, as the function that adds it tells a builder."""
    told: list[int] = []

    class Builder:
        def __getattr__(self, name: str) -> Any:
            return lambda slot, value, default: told.append(slot)

    add(Builder(), 0)
    return told[0]


# A table without any field: the length of its list of fields, its own, and the way to that list.
_EMPTY = struct.pack("<HHi", 4, 4, 4)
_EMPTY_AT = 4


@cache
def _defaults(table: str) -> dict[str, Any]:
    """What the accessors say of numbers that a file leaves out."""
    accessor = getattr(import_module(f"tflite.{table}"), table)()
    accessor.Init(_EMPTY, _EMPTY_AT)
    numbers = {f.name: getattr(accessor, f.name)() for f in _fields(table) if not f.is_vector}
    return {name: value for name, value in numbers.items() if value is not None}


# reading


def read_model_record(data: bytes) -> Record:
    """The whole file. What the network's reader does not look at is foreign too, so wild offsets
    and tables that hang on many others are refused here."""
    import tflite

    try:
        return _Reader(Budget(len(data))).record(tflite.Model.GetRootAs(data, 0), "Model")
    except WILD_OFFSET:
        raise FileError(
            "the file is damaged: a table outside of the network cannot be read",
            hint="copy or export the model again",
        ) from None


@dataclass(frozen=True, slots=True)
class _Reader:
    budget: Budget

    def record(self, accessor: Any, table: str) -> Record:
        """A table with all that hangs on it; fields that are absent are left out."""
        self.budget.take(_RECORD_BYTES)
        record = Record(table, dict(_defaults(table)))
        there = _present(accessor._tab)
        for known in _fields(table):
            if known.slot >= len(there) or not there[known.slot]:
                continue
            vector = known.is_vector
            value = self._vector(accessor, known) if vector else self._single(accessor, known.name)
            if value is None:
                record.fields.pop(known.name, None)
            else:
                record.fields[known.name] = value
        if table == "OperatorCode":
            record.fields["BuiltinCode"] = operator_number(accessor)
        if table == "Buffer":
            self._bring_inside(record, accessor)
        return record

    def _bring_inside(self, record: Record, accessor: Any) -> None:
        """Data that stands behind the flatbuffer: its place is another one once it is written."""
        start, size = (record.fields.pop(name, 0) for name in ("Offset", "Size"))
        if start > 1:
            self.budget.take(size)
            record.fields["Data"] = np.frombuffer(accessor._tab.Bytes, np.uint8)[start:][:size]

    def _vector(self, accessor: Any, known: _Field) -> Any:
        as_array = getattr(accessor, f"{known.name}AsNumpy", None)
        if as_array is not None:
            values = as_array()
            return values if isinstance(values, np.ndarray) else np.zeros(0, np.uint8)
        item = getattr(accessor, known.name)
        count = getattr(accessor, f"{known.name}Length")()
        self.budget.take(count)
        return [self._value(item(n)) for n in range(count)]

    def _single(self, accessor: Any, name: str) -> Any:
        value = getattr(accessor, name)()
        if value is not None and name in _UNIONS and type(value).__name__.endswith("Table"):
            return self._union(accessor, name, value)
        return self._value(value)

    def _union(self, accessor: Any, name: str, table: Any) -> Record | None:
        number = getattr(accessor, f"{name}Type")()
        kinds = vars(getattr(import_module(f"tflite.{_UNIONS[name]}"), _UNIONS[name]))
        kind = next((k for k, value in kinds.items() if value == number and k != "NONE"), None)
        if kind is None:
            return None
        inner = getattr(import_module(f"tflite.{kind}"), kind)()
        inner.Init(table.Bytes, table.Pos)
        return self.record(inner, kind)

    def _value(self, value: Any) -> Any:
        if hasattr(value, "_tab"):
            return self.record(value, type(value).__name__)
        if isinstance(value, bytes):
            self.budget.take(len(value))
        return value


def _present(table: Any) -> tuple[int, ...]:
    """The list of fields of a table: where each lies in it, 0 for those that the file leaves out.
    A list that is cut off is met by the accessor of the first field behind it."""
    start = table.Pos - _I32.unpack_from(table.Bytes, table.Pos)[0]
    if start < 0:
        raise struct.error("a list of fields lies before the file")
    count = (_U16.unpack_from(table.Bytes, start)[0] - 4) // 2
    return struct.unpack_from(f"<{max(0, count)}H", table.Bytes, start + 4)


# writing


def write_record(builder: Any, record: Record) -> int:
    """The record and all it holds; gives the table's offset."""
    start, end = _ends(record.table)
    usual, fields = _defaults(record.table), record.fields
    known = [
        entry
        for entry in _fields(record.table)
        if entry.name in fields and not _is_usual(usual.get(entry.name), fields[entry.name])
    ]
    values = [_offset(builder, record, entry) for entry in known]
    start(builder)
    for entry, value in zip(known, values, strict=True):
        entry.add(builder, value)
    return int(end(builder))


def _is_usual(usual: Any, value: Any) -> bool:
    """A number that a builder leaves out anyway."""
    return usual is not None and value.__class__ is usual.__class__ and bool(value == usual)


@cache
def _ends(table: str) -> tuple[Any, Any]:
    module = import_module(f"tflite.{table}")
    return getattr(module, f"{table}Start"), getattr(module, f"{table}End")


def _offset(builder: Any, record: Record, known: _Field) -> Any:
    """A number as it is; anything larger is written first, and stands as its offset."""
    value = record.fields[known.name]
    if isinstance(value, Record):
        return write_record(builder, value)
    if isinstance(value, np.ndarray):
        return _write_array(builder, value, record.table == "Buffer")
    if isinstance(value, list):
        return _write_list(builder, value, known)
    if isinstance(value, bytes | str):
        return builder.CreateString(value)
    return value


def _write_array(builder: Any, values: np.ndarray, aligned: bool) -> int:
    flat = np.ascontiguousarray(values).reshape(-1)
    raw = flat.view(np.uint8) if flat.size else np.zeros(0, np.uint8)
    step = flat.dtype.itemsize
    builder.StartVector(step, flat.size, _ALIGNED_BYTES if aligned else step)
    builder.head = int(builder.Head()) - raw.size
    builder.Bytes[builder.head : builder.head + raw.size] = raw.tobytes()
    return int(builder.EndVector())


def _write_list(builder: Any, values: list[Any], known: _Field) -> int:
    offsets = [
        write_record(builder, v) if isinstance(v, Record) else builder.CreateString(v)
        for v in values
    ]
    known.start_vector(builder, len(offsets))
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())
