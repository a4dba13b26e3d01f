"""Writing proto3: values that are zero are left out, numbers of a list are packed into one run."""

from __future__ import annotations

import struct
from typing import Any

from npuscope.board.wire.protobuf import Field, Kind, Message, varint

_NUMBERS = (Kind.UINT32, Kind.UINT64, Kind.INT32)
_VARINT, _BYTES, _FIXED32 = 0, 2, 5  # wire types


def encode(message: Message) -> bytes:
    """The message's bytes, as generated code of the schema would write them."""
    return b"".join(_field(field, getattr(message, field.name)) for field in message.FIELDS)


def _field(field: Field, value: Any) -> bytes:
    if not field.repeated:
        # A nested message that is there is written even if nothing is in it.
        there = value is not None if field.kind is Kind.MESSAGE else bool(value)
        return _item(field, value) if there else b""
    if field.kind in _NUMBERS:
        return _run(field, b"".join(map(varint, value))) if value else b""
    return b"".join(_item(field, item) for item in value)


def _item(field: Field, value: Any) -> bytes:
    if field.kind in _NUMBERS:
        return varint(field.number << 3 | _VARINT) + varint(value)
    if field.kind is Kind.FLOAT:
        return varint(field.number << 3 | _FIXED32) + struct.pack("<f", value)
    return _run(field, encode(value) if field.kind is Kind.MESSAGE else _text(value))


def _run(field: Field, body: bytes) -> bytes:
    return varint(field.number << 3 | _BYTES) + varint(len(body)) + body


def _text(value: str) -> bytes:
    return value.encode("utf-8", "replace")
