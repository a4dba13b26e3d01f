"""Weights from Intel HEX, ELF and C arrays; damaged files are named with their place."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from npuscope.errors import FileError
from npuscope.program.code_files import hex_text
from npuscope.program.weight_files import (
    AddressedBytes,
    c_arrays,
    overlaid,
    pool_image,
    read_elf,
    read_hex,
)

IMAGE = bytes(range(256)) * 3 + b"end"
ADDRESS = 0x7100FF80  # a page ends inside
ROOM = 1 << 20


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_hex_comes_back(tmp_path: Path) -> None:
    path = written(tmp_path, "net_data.hex", hex_text(IMAGE, ADDRESS))
    (segment,) = read_hex(path)
    assert (segment.address, segment.data) == (ADDRESS, IMAGE)
    assert pool_image(path, "xSPI2", ADDRESS, ROOM) == IMAGE
    assert pool_image(path, "xSPI2", ADDRESS + 5, ROOM) == IMAGE[5:]
    assert pool_image(path, "xSPI2", ADDRESS - 1, ROOM) == b""
    assert pool_image(path, "xSPI2", ADDRESS, 3) == IMAGE[:3]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (":0400000001020304F3", "the checksum is F3, the bytes give F2"),
        (":04000000010203", "':04000000010203' is not a record of Intel HEX"),
        ("nothing", "'nothing' is not a record of Intel HEX"),
        (":0100000600F9", "unknown record of kind 6 with 1 bytes"),
        (":0100000400FB", "unknown record of kind 4 with 1 bytes"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = written(tmp_path, "x.hex", f":02000004710089\n{line}\n:00000001FF\n")
    with pytest.raises(FileError) as caught:
        read_hex(path)
    assert caught.value.message == message
    assert caught.value.where == f"{path}, line 2"


def test_hex_without_end(tmp_path: Path) -> None:
    path = written(tmp_path, "x.hex", ":0400000001020304F2\n" * 50)
    with pytest.raises(FileError, match="has no end record"):
        read_hex(path)


def elf(name: bytes, data: bytes, address: int, kind: int) -> bytes:
    """One section with bytes, its symbol, and the tables that they need."""
    names = b"\0.weights\0.symtab\0.strtab\0"
    texts = b"\0" + name + b"\0"
    value = 0 if kind == 1 else address
    symbols = bytes(16) + struct.pack("<3I2BH", 1, value, len(data), 0x11, 0, 1)
    bodies = [data, symbols, texts + names]
    places = [52, 52 + len(data), 52 + len(data) + len(symbols)]
    start = places[-1] + len(bodies[-1])
    rows = [
        (0,) * 10,
        (1, 1, 2, address, places[0], len(data), 0, 0, 1, 0),
        (10, 2, 0, 0, places[1], len(symbols), 3, 0, 4, 16),
        (18, 3, 0, 0, places[2], len(texts), 0, 0, 1, 0),
        (18, 3, 0, 0, places[2] + len(texts), len(names), 0, 0, 1, 0),
    ]
    head = b"\x7fELF\x01\x01".ljust(16, b"\0")
    head += struct.pack("<2H5I6H", kind, 40, 1, 0, 0, start, 0, 52, 0, 0, 40, len(rows), 4)
    return head + b"".join(bodies) + b"".join(struct.pack("<10I", *row) for row in rows)


def test_parts_of_an_image_lie_in_their_places() -> None:
    parts = [
        AddressedBytes(0x1008, b"cd"),
        AddressedBytes(0x0FFE, b"xxab"),
        AddressedBytes(0x1FFF, b"zz"),
        AddressedBytes(0x3000, b"other"),
    ]
    assert overlaid(parts, 0x1000, 0x10) == b"ab" + bytes(6) + b"cd"
    assert overlaid(parts, 0x1000, 0x1000)[-1:] == b"z"
    assert overlaid(parts[:1], 0x1000, 0x1000) == b""


@pytest.mark.parametrize("kind", [1, 2])
def test_an_array_in_an_elf_file(tmp_path: Path, kind: int) -> None:
    content = elf(b"_mem_pool_xSPI2_net", IMAGE, ADDRESS, kind)
    path = written(tmp_path, "net_atonbuf.xSPI2.o", content)
    assert read_elf(path).sections[0].name == ".weights"
    assert pool_image(path, "xSPI2", 0, 0) == IMAGE
    assert pool_image(path, "xSPI1", 0, 0) == b""


def test_a_section_of_firmware_by_its_address(tmp_path: Path) -> None:
    path = written(tmp_path, "app.elf", elf(b"other", IMAGE, ADDRESS, 2))
    assert pool_image(path, "xSPI2", ADDRESS, ROOM) == IMAGE


def test_an_elf_file_may_end_anywhere(tmp_path: Path) -> None:
    content = elf(b"_mem_pool_xSPI2", IMAGE, ADDRESS, 2)
    for size in range(0, len(content), 7):
        path = written(tmp_path, "x.elf", content[:size])
        with pytest.raises(
            FileError, match=r"is not a 32-bit little-endian ELF file|past the end of the file"
        ):
            read_elf(path)


def test_arrays_in_c() -> None:
    text = (
        "LL_ATON_ALIGNED(64) const uint64_t _mem_pool_xSPI2_net[2] = {\n0x0102030405060708ULL,\n"
        "9,};\nconst int8_t other[2] = {-1, 2};\n"
    )
    found = {one.name: one.data for one in c_arrays(text, "x.c")}
    assert found["_mem_pool_xSPI2_net"] == bytes([8, 7, 6, 5, 4, 3, 2, 1, 9, *bytes(7)])
    assert found["other"] == b"\xff\x02"


def test_an_array_that_does_not_end() -> None:
    with pytest.raises(FileError) as caught:
        c_arrays("\nconst uint8_t w[4] = {1, 2,", "x.c")
    assert caught.value.message == "the array 'w' does not end: the file is truncated"
    assert caught.value.where == "x.c, line 2"
