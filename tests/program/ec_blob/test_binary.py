"""Blobs and containers as bytes, whole, cut and damaged."""

from __future__ import annotations

import pytest

from npuscope.errors import FileError, TargetError
from npuscope.program.addresses import AddressMap
from npuscope.program.ec_blob.assembly import assemble, disassemble
from npuscope.program.ec_blob.binary import (
    CONTAINERS,
    EcBinary,
    Patch,
    Relocation,
    read_binary,
    write_binary,
)
from npuscope.program.ec_blob.instructions import Irq, Label, Write
from npuscope.program.ec_blob.lift import lift
from npuscope.program.model import Pool
from program.ec_blob.epoch_text import CONVOLUTION, COPY

CODE = (Label(1), Write(5, 2, 0x34200000), Write(5, 14, 0x3420003F), Irq(0))
PLAIN = EcBinary(CODE)
MOVED = (Relocation("_user_io_input_0", (2, 4)), Relocation("second", (2,)))
PATCHES = (Patch("size", 0xFFFF, (1,)), Patch("line", 0xF0, (), 0))
POOLS = (Pool("ram", 0x34000000, 1 << 22, 8, 1.0),)


def container(magic: int) -> EcBinary:
    patches = () if magic == 0xECBF0020 else PATCHES
    if magic == 0xECBF0050:
        patches = (*PATCHES, Patch("shifted", 0xFF, (0, 3), -4))
    return EcBinary(CODE, magic, MOVED, patches, b"debug me")


ALL = [PLAIN, *map(container, CONTAINERS), EcBinary(CODE, 0xECBF0050)]


@pytest.mark.parametrize("binary", ALL)
def test_round_trip(binary: EcBinary) -> None:
    data = write_binary(binary)
    assert len(data) % 8 == 0
    assert read_binary(data) == binary
    assert write_binary(read_binary(data)) == data


def test_a_blob_is_magic_count_code() -> None:
    assert write_binary(EcBinary((Label(3), Irq(0)))).hex() == ("7a7a05ca020000007d0000000c000000")


def test_a_container_is_laid_out_as_the_vendor_does() -> None:
    data = write_binary(EcBinary(CODE, 0xECBF0050, (Relocation("_user_io_output_0", (2, 4)),)))
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    assert words[:12] == [0xECBF0050, 0x18, 0, 0, 0x48, 0, 1, 0x18, 2, 0x10, 2, 4]
    assert data[0x30:0x42] == b"_user_io_output_0\0"
    assert words[0x48 // 4] == 0xCA057A7A


@pytest.mark.parametrize("binary", ALL)
def test_a_cut_file_is_an_error_at_every_length(binary: EcBinary) -> None:
    data = write_binary(binary)
    for length in range(len(data)):
        with pytest.raises(FileError) as caught:
            read_binary(data[:length])
        assert caught.value.where.startswith("word ")


DAMAGED = [*ALL, assemble(COPY), assemble(CONVOLUTION)]


@pytest.mark.parametrize("binary", DAMAGED)
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_damaged_byte_is_an_error_or_another_blob(binary: EcBinary, mask: int) -> None:
    data = bytearray(write_binary(binary))
    for at in range(len(data)):
        data[at] ^= mask
        try:
            found = read_binary(bytes(data))
            assert write_binary(assemble(disassemble(found))) == write_binary(found)
            lift([found.instructions], AddressMap(POOLS, ()))
        except FileError as error:
            assert error.where.startswith("word ")
        data[at] ^= mask


@pytest.mark.parametrize(
    ("data", "message", "where"),
    [
        (b"", "0 bytes are not a blob", "word 0"),
        (b"\0" * 16, "expected 0xca057a7a or a container, found 0x00000000", "word 0"),
        (
            bytes.fromhex("7a7a05caffffffff0c000000"),
            "the header states 4294967295 words of code, but there are 1",
            "word 1",
        ),
        (write_binary(PLAIN) + b"\1" * 8, "bytes follow the code", "word 8"),
    ],
)
def test_messages(data: bytes, message: str, where: str) -> None:
    with pytest.raises(FileError) as caught:
        read_binary(data)
    assert (caught.value.message, caught.value.where) == (message, where)


def test_a_table_cannot_announce_more_than_the_file_has() -> None:
    data = bytearray(write_binary(container(0xECBF0050)))
    data[0x18:0x1C] = b"\xff\xff\xff\x7f"
    with pytest.raises(FileError, match="a table of 2147483647 rows extends past the end"):
        read_binary(bytes(data))


@pytest.mark.parametrize(
    "binary",
    [
        EcBinary(CODE, 0xECBF0099),
        EcBinary(CODE, 0xECBF0020, (), PATCHES),
        EcBinary(CODE, 0xECBF0050, (Relocation("x", (6,)),)),
        EcBinary(CODE, 0xECBF0050, (), (Patch("x", 1 << 32, ()),)),
    ],
)
def test_what_a_container_cannot_hold_is_refused(binary: EcBinary) -> None:
    with pytest.raises(TargetError):
        write_binary(binary)
