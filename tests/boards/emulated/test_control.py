"""Control messages, however they are cut, and firmware files, however they are damaged."""

from __future__ import annotations

import pytest

from boards.emulated.programs import program
from npuscope.boards.emulated.firmware_file import read_firmware
from npuscope.boards.emulated.process import Decoder, encode
from npuscope.errors import DeviceError, FileError

MESSAGES = [({"do": "write", "address": 5}, b"\n{}\n"), ({"do": "state"}, b""), ({}, b"\0" * 9)]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_messages_are_found_however_they_are_cut(step: int) -> None:
    data = b"".join(encode(fields, payload) for fields, payload in MESSAGES)
    decoder, found = Decoder(), []
    for at in range(0, len(data), step):
        found += list(decoder.feed(data[at : at + step]))
    assert found == [({**fields, "bytes": len(p)}, p) for fields, p in MESSAGES]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no json\n", "is not JSON"),
        (b"[1]\n", "lacks its size"),
        (b'{"bytes":-1}\n', "lacks its size"),
        (b'{"bytes":9999999999}\n', "lacks its size"),
        (b'{"bytes":"4"}\n', "lacks its size"),
        (b"x" * (1 << 20) + b"y", "has no end"),
    ],
)
def test_bad_messages_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        list(Decoder().feed(data))


def test_a_firmware_has_its_vectors_at_its_start() -> None:
    firmware = read_firmware(program("echo"))
    assert min(firmware.segments)[0] == 0x34000000
    assert firmware.symbols["report"] > 0x34000000
    assert firmware.entry & ~1 == firmware.symbols["bare_reset"] & ~1


def test_damaged_firmware_is_a_file_error() -> None:
    whole = program("echo")
    for size in [*range(200), *range(200, len(whole), 997)]:
        try:
            read_firmware(whole[:size], "cut.elf")
        except FileError as error:
            assert error.where == "cut.elf"
    for at in range(120):
        data = bytearray(whole)
        data[at] ^= 0xFF
        try:
            read_firmware(bytes(data), "changed.elf")
        except FileError as error:
            assert error.where == "changed.elf"
