"""The messages of the wire: known bytes, round trips, and whatever else may come over a line."""

from __future__ import annotations

import random
from typing import Any

import pytest

from npuscope.boards.wire.messages import (
    Ack,
    Data,
    Log,
    ModelInfo,
    Operator,
    Req,
    Resp,
    Sync,
    SysInfo,
    Tensor,
    TensorDesc,
    decode,
    encode,
    has_field,
)
from npuscope.errors import DeviceError

DESC = TensorDesc("image", 0x840440, 48, 5 << 24 | 4, (1, 4, 4, 3), 0.5, -3, 0x34200000, 1025)
MODEL = ModelInfo(
    "tiny", 0x10104, "00", "now", 1 << 24, 2 << 24, 1 << 40, 3, 1, (DESC,), 1, (DESC,)
)
MESSAGES: list[Any] = [
    Req(7, 11, 0x203, "tiny", 0x1801),
    Sync(0x0301, 9, 0x10104),
    SysInfo.for_all(0x486, 800_000_000, 400_000_000, 0x05010C00, (0, 1, 2, 0)),
    Ack(48, 1),
    Log(1, "s:config:version:1.0"),
    DESC,
    Data(0, 3, 0x34200000, b"\0\xff\x80"),
    Tensor(DESC, Data(data=b"123", size_bytes=3)),
    Operator("", 0x05000004, 3 << 16 | 1, 0.25, 0x10000, (1, 2, 0xFFFFFFFF)),
    MODEL,
    Resp.of(9, 2, Tensor(DESC)),
    Resp.of(9, 0, MODEL),
]


def kind(message: Any) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", MESSAGES, ids=kind)
def test_what_is_written_reads_the_same(message: Any) -> None:
    assert decode(type(message), encode(message)) == message


def test_known_bytes() -> None:
    assert encode(Req(1, 0, 0, "", 0)) == bytes.fromhex("0801 1000 1800 2200 2800")
    assert encode(Ack(300, 4)) == bytes.fromhex("08ac02 1004")
    # A negative number has ten bytes, a float four.
    assert encode(TensorDesc(zero_point=-1)).hex().count("38ffffffffffffffffff01") == 1
    assert bytes.fromhex("35 0000003f") in encode(TensorDesc(scale=0.5))


def test_a_field_is_seen_in_bytes_of_any_message() -> None:
    assert has_field(encode(Req(opt=1)), 5)
    assert not has_field(encode(Ack(5, 6)), 5)
    with pytest.raises(DeviceError, match="a broken message: the message ends inside a number"):
        has_field(b"\x08", 5)


def test_unknown_fields_are_skipped() -> None:
    strange = bytes.fromhex("9806 05 a206 02 4142 ad06 01020304 a906 0102030405060708")
    assert decode(Ack, strange + encode(Ack(5, 6))) == Ack(5, 6)


def test_packed_numbers_are_read_too() -> None:
    assert decode(Operator, bytes.fromhex("3203 01ac02")).counters == (1, 300)


def test_missing_fields_keep_their_default() -> None:
    assert decode(ModelInfo, b"") == ModelInfo()
    assert decode(Resp, b"").payload is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("08", "ends inside a number"),
        ("08" + "ff" * 11, "more than 10 bytes"),
        ("0001", "field number 0"),
        ("0b", "wire type 3"),
        ("22ffffffff0f41", "but only 1 are left"),
        ("0a0141", "is not a number"),
        ("2005", "expected string"),
    ],
)
def test_what_is_wrong_is_named(data: str, text: str) -> None:
    with pytest.raises(DeviceError, match=text):
        decode(Req, bytes.fromhex(data))


@pytest.mark.parametrize("message", MESSAGES, ids=kind)
def test_every_truncation_is_a_message_or_an_error(message: Any) -> None:
    data = encode(message)
    for end in range(len(data)):
        _decode_or_fail(type(message), data[:end])


@pytest.mark.parametrize("message", MESSAGES, ids=kind)
def test_random_corruption_is_a_message_or_an_error(message: Any) -> None:
    chance = random.Random(1)
    data = encode(message)
    for _ in range(500):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        _decode_or_fail(type(message), bytes(broken))


def test_random_bytes_are_a_message_or_an_error() -> None:
    chance = random.Random(2)
    for _ in range(2000):
        _decode_or_fail(Resp, chance.randbytes(chance.randint(0, 40)))


def _decode_or_fail(cls: type[Any], data: bytes) -> None:
    try:
        found = decode(cls, data)
    except DeviceError:
        return
    assert decode(cls, encode(found)) == found or "nan" in repr(found)
