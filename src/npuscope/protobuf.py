"""Protobuf by hand: single fields, messages by a table of their fields, messages by a schema that
comes with them.

Reading trusts nothing: every length is checked against the bytes at hand, and whatever is wrong
ends in a BrokenMessage that names the byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, ClassVar, Protocol, TypeVar

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.text import safe_terminal

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
_LONGEST_VARINT = 10


class BrokenMessage(FileError):
    """Bytes that are not the message which they should be; `where` counts them."""


class FieldKind(Enum):
    UINT32 = "uint32"
    UINT64 = "uint64"
    INT32 = "int32"
    FLOAT = "float"
    STRING = "string"
    BYTES = "bytes"
    MESSAGE = "message"


_NUMBERS = (FieldKind.UINT32, FieldKind.UINT64, FieldKind.INT32)


class Field(Struct, frozen=True):
    """One row of a message's table; `type` is the class of a nested message."""

    number: int
    name: str
    kind: FieldKind
    repeated: bool = False
    type: type[Message] | None = None


class Message(Protocol):
    """A dataclass with a table of its fields; every field has a default."""

    FIELDS: ClassVar[tuple[Field, ...]]


M = TypeVar("M", bound=Message)
Wire = int | bytes


def encode(message: Message, *, proto3: bool = False) -> bytes:
    """The message's bytes; a nested message that is None is left out.

    proto3 leaves out zeros, too, and packs the numbers of a list into one run.
    """
    return b"".join(_field(row, getattr(message, row.name), proto3) for row in message.FIELDS)


def _field(row: Field, value: Any, proto3: bool) -> bytes:
    if row.repeated and proto3 and row.kind in _NUMBERS:
        return bytes_field(row.number, b"".join(map(varint, value))) if value else b""
    if row.repeated:
        return b"".join(_one(row, item, proto3) for item in value)
    # A nested message that is there is written even if nothing is in it.
    left_out = proto3 and row.kind is not FieldKind.MESSAGE and not value
    return b"" if value is None or left_out else _one(row, value, proto3)


def decode(cls: type[M], data: bytes) -> M:
    """A message from its bytes; unknown fields are skipped, missing ones keep their default."""
    table = {field.number: field for field in cls.FIELDS}
    lists: dict[str, list[Any]] = {}
    values: dict[str, Any] = {}
    for number, wire, at in fields(data):
        field = table.get(number)
        if field is None:
            continue
        if field.repeated:
            lists.setdefault(field.name, []).extend(_several(field, wire, at))
        else:
            values[field.name] = _value(field, wire, at)
    return cls(**values, **{name: tuple(items) for name, items in lists.items()})


def fields(data: bytes) -> Iterator[tuple[int, Wire, int]]:
    """Number, value as it lies on the wire and position of each field."""
    at = 0
    while at < len(data):
        start = at
        tag, at = read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise _broken("field number 0", start)
        value, at = _payload(data, at, wire_type, start)
        yield number, value, start


def _payload(data: bytes, at: int, wire_type: int, start: int) -> tuple[Wire, int]:
    if wire_type == VARINT:
        return read_varint(data, at)
    if wire_type == BYTES:
        size, at = read_varint(data, at)
    elif wire_type in (FIXED32, FIXED64):
        size = 4 if wire_type == FIXED32 else 8
    else:
        raise _broken(f"wire type {wire_type}", start)
    if size > len(data) - at:
        raise _broken(f"a field of {size} bytes, but only {len(data) - at} are left", start)
    return bytes(data[at : at + size]), at + size


def varint(value: int) -> bytes:
    """Seven bits a byte, the low ones first; a negative number takes ten bytes."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a position, and the position after it."""
    value = 0
    for i in range(_LONGEST_VARINT):
        if at + i >= len(data):
            raise _broken("the message ends inside a number", at)
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + i + 1
    raise _broken(f"a number of more than {_LONGEST_VARINT} bytes", at)


def number_field(number: int, value: int) -> bytes:
    return tag(number, VARINT) + varint(value)


def bytes_field(number: int, body: bytes) -> bytes:
    return tag(number, BYTES) + varint(len(body)) + body


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def _one(row: Field, value: Any, proto3: bool) -> bytes:
    if row.kind in _NUMBERS:
        return number_field(row.number, int(value))
    if row.kind is FieldKind.FLOAT:
        return tag(row.number, FIXED32) + _float_bytes(value)
    if row.kind is FieldKind.STRING:
        return bytes_field(row.number, str(value).encode("utf-8", "replace"))
    body = encode(value, proto3=proto3) if row.kind is FieldKind.MESSAGE else bytes(value)
    return bytes_field(row.number, body)


def _float_bytes(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _several(field: Field, wire: Wire, at: int) -> Iterator[Any]:
    """Items of a repeated field: one, or numbers packed into one run of bytes."""
    numeric = field.kind in _NUMBERS
    if not numeric or isinstance(wire, int):
        yield _value(field, wire, at)
        return
    yield from (_value(field, number, at) for number in _packed(wire))


def _packed(run: bytes) -> Iterator[int]:
    at = 0
    while at < len(run):
        number, at = read_varint(run, at)
        yield number


def _value(field: Field, wire: Wire, at: int) -> Any:
    if field.kind in _NUMBERS:
        if not isinstance(wire, int):
            raise _broken(f"'{field.name}' is not a number", at)
        return _number(field.kind, wire)
    if isinstance(wire, int):
        raise _broken(f"'{field.name}' is a number, expected {field.kind.value}", at)
    if field.kind is FieldKind.FLOAT:
        if len(wire) != 4:
            raise _broken(f"'{field.name}' has {len(wire)} bytes, expected 4", at)
        value: float = struct.unpack("<f", wire)[0]
        return value
    if field.kind is FieldKind.STRING:
        return wire.decode("utf-8", "replace")
    return decode(field.type, wire) if field.type is not None else wire


def _number(kind: FieldKind, value: int) -> int:
    if kind is FieldKind.UINT64:
        return value
    value &= 0xFFFFFFFF
    return value - (1 << 32) if kind is FieldKind.INT32 and value >> 31 else value


def _broken(what: str, at: int) -> BrokenMessage:
    return BrokenMessage(f"a broken message: {what}", where=f"byte {at} of the message")


# Messages read by a schema that comes with them: protobuf's own description of its files.

Table = dict[str, Any]
_DEEPEST = 32
# Kinds of fields in descriptors.
_STRING, _MESSAGE, _BYTES, _SINT32, _SINT64 = 9, 11, 12, 17, 18
_INT64, _INT32, _ENUM = 3, 5, 14
_REPEATED = 3


class FieldDescriptor(Struct, frozen=True):
    name: str
    repeated: bool
    kind: int
    type_name: str


Schema = dict[str, dict[int, FieldDescriptor]]


def read_schema(data: bytes, place: str) -> Schema:
    """Messages by full name, of a FileDescriptorSet or of a single FileDescriptorProto."""
    try:
        files = dict(_described_files(data))
        # In a single file field 1 is its name, so that nothing was found in it.
        schema = files or dict(_described_file(data))
    except (BrokenMessage, RecursionError) as error:
        raise _broken_in(error, place) from error
    if not schema:
        raise FileError(
            "no message is described in this file",
            where=place,
            hint="expected a protobuf FileDescriptorSet (protoc --descriptor_set_out)",
        )
    return schema


def _described_files(data: bytes) -> Iterator[tuple[str, dict[int, FieldDescriptor]]]:
    for number, value, _ in fields(data):
        if number == 1 and isinstance(value, bytes):
            try:
                yield from list(_described_file(value))
            except BrokenMessage:  # a name, not a file
                continue


def _described_file(data: bytes) -> Iterator[tuple[str, dict[int, FieldDescriptor]]]:
    parts = list(fields(data))
    package = next((_text(value) for number, value, _ in parts if number == 2), "")
    for number, value, _ in parts:
        if number == 4 and isinstance(value, bytes):
            yield from _described_message(value, f".{package}" if package else "", 0)


def _described_message(
    data: bytes, scope: str, depth: int
) -> Iterator[tuple[str, dict[int, FieldDescriptor]]]:
    if depth > _DEEPEST:
        return
    parts = list(fields(data))
    name = next((_text(value) for number, value, _ in parts if number == 1), "")
    full = f"{scope}.{name}"
    described = [_described_field(value) for number, value, _ in parts if number == 2]
    yield full, dict(described)
    for number, value, _ in parts:
        if number == 3 and isinstance(value, bytes):
            yield from _described_message(value, full, depth + 1)


def _described_field(data: Wire) -> tuple[int, FieldDescriptor]:
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


def decode_by(schema: Schema, type_name: str, data: bytes, place: str) -> Table:
    """A message as names and values; repeated fields are lists, unknown ones are skipped."""
    if type_name not in schema:
        raise FileError(
            f"the descriptors do not contain {type_name.lstrip('.')}",
            where=place,
            hint="take them from the tool that belongs to the program's SDK",
        )
    try:
        return _decoded_by(schema, type_name, data, 0)
    except (BrokenMessage, RecursionError) as error:
        raise _broken_in(error, place) from error


def _decoded_by(schema: Schema, type_name: str, data: bytes, depth: int) -> Table:
    if depth > _DEEPEST:
        raise BrokenMessage(f"nested more than {_DEEPEST} levels")
    table = schema.get(type_name, {})
    values_by_name: Table = {}
    for number, wire, _ in fields(data):
        field = table.get(number)
        if field is None:
            continue
        values = [_value_by(schema, field, one, depth) for one in _each_by(field, wire)]
        if field.repeated:
            values_by_name.setdefault(field.name, []).extend(values)
        elif values:
            values_by_name[field.name] = values[-1]
    return values_by_name


def _each_by(field: FieldDescriptor, wire: Wire) -> Iterable[Wire]:
    """Numbers of a repeated field may be packed into one run of bytes."""
    numeric = field.kind not in (_STRING, _MESSAGE, _BYTES)
    packed = numeric and field.repeated
    return _packed(wire) if packed and isinstance(wire, bytes) else (wire,)


def _value_by(schema: Schema, field: FieldDescriptor, wire: Wire, depth: int) -> Any:
    if field.kind == _MESSAGE and isinstance(wire, bytes):
        return _decoded_by(schema, field.type_name, wire, depth + 1)
    if field.kind == _STRING and isinstance(wire, bytes):
        return wire.decode("utf-8", "replace")
    if isinstance(wire, int):
        if field.kind in (_SINT32, _SINT64):
            return (wire >> 1) ^ -(wire & 1)
        if field.kind in (_INT32, _INT64, _ENUM) and wire >> 63:
            return wire - (1 << 64)
        return wire
    return wire


def _broken_in(error: Exception, place: str) -> FileError:
    what = error.message if isinstance(error, BrokenMessage) else "nested too deeply"
    at = error.where if isinstance(error, BrokenMessage) else ""
    return FileError(safe_terminal(what), where=f"{place}, {at}" if at else place)
