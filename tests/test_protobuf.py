"""Protobuf by hand: numbers, messages by a table or by a schema, and what is broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuscope.errors import FileError
from npuscope.protobuf import (
    BrokenMessage,
    Field,
    FieldKind,
    decode,
    decode_by,
    encode,
    fields,
    read_schema,
    read_varint,
    varint,
)
from protobuf_samples import described, field


@dataclass(frozen=True, slots=True)
class Inner:
    text: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field(1, "text", FieldKind.STRING),)


@dataclass(frozen=True, slots=True)
class Outer:
    number: int = 0
    many: tuple[int, ...] = ()
    scale: float = 0.0
    inner: Inner | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "number", FieldKind.INT32),
        Field(2, "many", FieldKind.UINT32, repeated=True),
        Field(3, "scale", FieldKind.FLOAT),
        Field(4, "inner", FieldKind.MESSAGE, type=Inner),
    )


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 1 << 32, (1 << 64) - 1])
def test_varint(value: int) -> None:
    data = varint(value)
    assert read_varint(b"\0" + data, 1) == (value, 1 + len(data))


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=4), st.binary(max_size=4))
def test_a_number_is_read_where_it_was_written(value: int, before: bytes, behind: bytes) -> None:
    data = varint(value)
    assert read_varint(before + data + behind, len(before)) == (value, len(before) + len(data))


@pytest.mark.parametrize(
    ("message", "proto2", "proto3"),
    [
        (Outer(), "0800 1d00000000", ""),
        (Outer(-1), "08ffffffffffffffffff01 1d00000000", "08ffffffffffffffffff01"),
        (Outer(1, (1, 300)), "0801 1001 10ac02 1d00000000", "0801 1203 01ac02"),
        (Outer(inner=Inner()), "0800 1d00000000 2202 0a00", "2200"),
        (Outer(scale=1e300), "0800 1d0000807f", "1d0000807f"),
    ],
)
def test_known_bytes(message: Outer, proto2: str, proto3: str) -> None:
    assert encode(message).hex() == proto2.replace(" ", "")
    assert encode(message, proto3=True).hex() == proto3.replace(" ", "")


def test_both_ways_of_writing_read_the_same() -> None:
    message = Outer(-7, (0, 5, 1 << 31), 0.5, Inner("é"))
    assert decode(Outer, encode(message)) == message
    assert decode(Outer, encode(message, proto3=True)) == message


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("08", "byte 1 of the message: a broken message: the message ends inside a number"),
        ("0001", "byte 0 of the message: a broken message: field number 0"),
        (
            "0801 2205 41",
            "byte 2 of the message: a broken message: a field of 5 bytes, but only 1 are",
        ),
    ],
)
def test_the_byte_that_is_wrong_is_named(data: str, text: str) -> None:
    with pytest.raises(BrokenMessage) as caught:
        list(fields(bytes.fromhex(data)))
    assert str(caught.value).startswith(text)


def test_messages_by_schema() -> None:
    inner = described("Inner", (1, "value", "z"), (2, "many", "*i"))
    outer = described("Outer", (3, "inner", "*Inner"), (4, "text", "s"))
    file = field(2, "aicopstatsdesc") + field(4, inner) + field(4, outer)
    schema = read_schema(field(1, file), "here")
    packed = b"".join(varint(value) for value in (1, 300))
    data = field(3, field(1, 3) + field(2, packed) + field(2, 5)) + field(4, "é") + field(8, 1)
    found = decode_by(schema, ".aicopstatsdesc.Outer", data, "here")
    assert found == {"inner": [{"value": -2, "many": [1, 300, 5]}], "text": "é"}


def test_a_message_in_itself_without_end_is_refused() -> None:
    file = field(2, "aicopstatsdesc") + field(4, described("A", (1, "a", "A")))
    schema = read_schema(field(1, file), "here")
    data = b""
    for _ in range(100):
        data = field(1, data)
    with pytest.raises(FileError, match="nested more than 32 levels"):
        decode_by(schema, ".aicopstatsdesc.A", data, "here")
