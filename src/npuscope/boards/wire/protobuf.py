"""A small proto2: what the wire's messages need, driven by a table of fields for each message.

Reading trusts nothing: every length is checked against the bytes at hand, and whatever is wrong
ends in a DeviceError that names the byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol, TypeVar

from npuscope.errors import DeviceError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


class Kind(Enum):
    UINT32 = "uint32"
    UINT64 = "uint64"
    INT32 = "int32"
    FLOAT = "float"
    STRING = "string"
    BYTES = "bytes"
    MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a message's table; `type` is the class of a nested message."""

    number: int
    name: str
    kind: Kind
    repeated: bool = False
    type: type[Message] | None = None


class Message(Protocol):
    """A dataclass with a table of its fields; every field has a default."""

    FIELDS: ClassVar[tuple[Field, ...]]


M = TypeVar("M", bound=Message)
Wire = int | bytes


def encode(message: Message) -> bytes:
    """The message's bytes; a nested message that is None is left out."""
    out = bytearray()
    for field in message.FIELDS:
        value = getattr(message, field.name)
        for item in value if field.repeated else (value,):
            if item is not None:
                out += _one(field, item)
    return bytes(out)


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
    if wire_type == _VARINT:
        return read_varint(data, at)
    if wire_type == _BYTES:
        size, at = read_varint(data, at)
    elif wire_type in (_FIXED32, _FIXED64):
        size = 4 if wire_type == _FIXED32 else 8
    else:
        raise _broken(f"wire type {wire_type}", start)
    if size > len(data) - at:
        raise _broken(f"a field of {size} bytes where {len(data) - at} are left", start)
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


def _one(field: Field, value: Any) -> bytes:
    if field.kind in (Kind.UINT32, Kind.UINT64, Kind.INT32):
        return varint(field.number << 3 | _VARINT) + varint(int(value))
    if field.kind is Kind.FLOAT:
        return varint(field.number << 3 | _FIXED32) + _float_bytes(value)
    body = _body(field, value)
    return varint(field.number << 3 | _BYTES) + varint(len(body)) + body


def _body(field: Field, value: Any) -> bytes:
    if field.kind is Kind.STRING:
        return str(value).encode("utf-8", "replace")
    return encode(value) if field.kind is Kind.MESSAGE else bytes(value)


def _float_bytes(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _several(field: Field, wire: Wire, at: int) -> Iterator[Any]:
    """Items of a repeated field: one, or numbers packed into one run of bytes."""
    numeric = field.kind in (Kind.UINT32, Kind.UINT64, Kind.INT32)
    if not numeric or isinstance(wire, int):
        yield _value(field, wire, at)
        return
    inner = 0
    while inner < len(wire):
        number, inner = read_varint(wire, inner)
        yield _value(field, number, at)


def _value(field: Field, wire: Wire, at: int) -> Any:
    if field.kind in (Kind.UINT32, Kind.UINT64, Kind.INT32):
        if not isinstance(wire, int):
            raise _broken(f"'{field.name}' is not a number", at)
        return _number(field.kind, wire)
    if isinstance(wire, int):
        raise _broken(f"'{field.name}' is a number, expected {field.kind.value}", at)
    if field.kind is Kind.FLOAT:
        return _float(field, wire, at)
    if field.kind is Kind.STRING:
        return wire.decode("utf-8", "replace")
    return decode(field.type, wire) if field.type is not None else wire


def _number(kind: Kind, value: int) -> int:
    if kind is Kind.UINT64:
        return value
    value &= 0xFFFFFFFF
    return value - (1 << 32) if kind is Kind.INT32 and value >> 31 else value


def _float(field: Field, wire: bytes, at: int) -> float:
    if len(wire) != 4:
        raise _broken(f"'{field.name}' has {len(wire)} bytes, expected 4", at)
    value: float = struct.unpack("<f", wire)[0]
    return value


def _broken(what: str, at: int) -> DeviceError:
    return DeviceError(f"a broken message: {what}", where=f"byte {at} of the message")
