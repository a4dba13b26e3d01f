"""Messages read by a schema that comes with them: protobuf's own description of its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from npuscope.board.wire.protobuf import Wire, fields, read_varint
from npuscope.errors import DeviceError, FileError
from npuscope.text import safe_terminal

Message = dict[str, Any]

_DEEPEST = 32
# Kinds of fields in descriptors.
_STRING, _MESSAGE, _BYTES, _SINT32, _SINT64 = 9, 11, 12, 17, 18
_INT64, _INT32, _ENUM = 3, 5, 14
_REPEATED = 3


@dataclass(frozen=True, slots=True)
class FieldDescriptor:
    name: str
    repeated: bool
    kind: int
    type_name: str


Schema = dict[str, dict[int, FieldDescriptor]]


def read_schema(data: bytes, place: str) -> Schema:
    """Messages by full name, of a FileDescriptorSet or of a single FileDescriptorProto."""
    try:
        found = dict(_set(data))
        # In a single file field 1 is its name, so that nothing was found in it.
        schema = found or dict(_file(data))
    except (DeviceError, RecursionError) as error:
        raise _broken(error, place) from error
    if not schema:
        raise FileError(
            "no message is described in this file",
            where=place,
            hint="expected a protobuf FileDescriptorSet (protoc --descriptor_set_out)",
        )
    return schema


def _set(data: bytes) -> Iterator[tuple[str, dict[int, FieldDescriptor]]]:
    for number, value, _ in fields(data):
        if number == 1 and isinstance(value, bytes):
            try:
                yield from list(_file(value))
            except DeviceError:  # a name, not a file
                continue


def _file(data: bytes) -> Iterator[tuple[str, dict[int, FieldDescriptor]]]:
    parts = list(fields(data))
    package = next((_text(value) for number, value, _ in parts if number == 2), "")
    for number, value, _ in parts:
        if number == 4 and isinstance(value, bytes):
            yield from _message(value, f".{package}" if package else "", 0)


def _message(
    data: bytes, scope: str, depth: int
) -> Iterator[tuple[str, dict[int, FieldDescriptor]]]:
    if depth > _DEEPEST:
        return
    parts = list(fields(data))
    name = next((_text(value) for number, value, _ in parts if number == 1), "")
    full = f"{scope}.{name}"
    described = [_field(value) for number, value, _ in parts if number == 2]
    yield full, dict(described)
    for number, value, _ in parts:
        if number == 3 and isinstance(value, bytes):
            yield from _message(value, full, depth + 1)


def _field(data: Wire) -> tuple[int, FieldDescriptor]:
    values = {
        number: value for number, value, _ in fields(data if isinstance(data, bytes) else b"")
    }
    return _int(values.get(3)), FieldDescriptor(
        _text(values.get(1)), _int(values.get(4)) == _REPEATED, _int(values.get(5)),
        _text(values.get(6)),
    )  # fmt: skip


def _text(value: Wire | None) -> str:
    return value[:1000].decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _int(value: Wire | None) -> int:
    return value if isinstance(value, int) else 0


def decode_by(schema: Schema, type_name: str, data: bytes, place: str) -> Message:
    """A message as names and values; repeated fields are lists, unknown ones are skipped."""
    if type_name not in schema:
        raise FileError(
            f"the descriptors do not know {type_name.lstrip('.')}",
            where=place,
            hint="take them from the tool that belongs to the program's SDK",
        )
    try:
        return _decode(schema, type_name, data, 0)
    except (DeviceError, RecursionError) as error:
        raise _broken(error, place) from error


def _decode(schema: Schema, type_name: str, data: bytes, depth: int) -> Message:
    if depth > _DEEPEST:
        raise DeviceError(f"messages lie more than {_DEEPEST} deep in each other")
    table = schema.get(type_name, {})
    found: Message = {}
    for number, wire, _ in fields(data):
        field = table.get(number)
        if field is None:
            continue
        values = [_value(schema, field, one, depth) for one in _several(field, wire)]
        if field.repeated:
            found.setdefault(field.name, []).extend(values)
        elif values:
            found[field.name] = values[-1]
    return found


def _several(field: FieldDescriptor, wire: Wire) -> Iterator[Wire]:
    """Numbers of a repeated field may be packed into one run of bytes."""
    numeric = field.kind not in (_STRING, _MESSAGE, _BYTES)
    if not (numeric and field.repeated and isinstance(wire, bytes)):
        yield wire
        return
    at = 0
    while at < len(wire):
        number, at = read_varint(wire, at)
        yield number


def _value(schema: Schema, field: FieldDescriptor, wire: Wire, depth: int) -> Any:
    if field.kind == _MESSAGE and isinstance(wire, bytes):
        return _decode(schema, field.type_name, wire, depth + 1)
    if field.kind == _STRING and isinstance(wire, bytes):
        return wire.decode("utf-8", "replace")
    if isinstance(wire, int):
        return _signed(field.kind, wire)
    return wire


def _signed(kind: int, value: int) -> int:
    if kind in (_SINT32, _SINT64):
        return (value >> 1) ^ -(value & 1)
    if kind in (_INT32, _INT64, _ENUM) and value >> 63:
        return value - (1 << 64)
    return value


def _broken(error: Exception, place: str) -> FileError:
    what = error.message if isinstance(error, DeviceError) else "nested too deeply"
    at = error.where if isinstance(error, DeviceError) else ""
    return FileError(safe_terminal(what), where=f"{place}, {at}" if at else place)
