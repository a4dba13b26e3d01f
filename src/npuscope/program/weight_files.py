"""Bytes of memories from what builds ship them in: Intel HEX, ELF, arrays in C."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import ELF, HEX, SOURCE, read_bytes, read_text
from npuscope.errors import FileError
from npuscope.text import safe_terminal


class AddressedBytes(Struct, frozen=True):
    """Consecutive bytes and where they belong; `name` is a symbol's or a section's, if any."""

    address: int
    data: bytes
    name: str = ""

    @property
    def end(self) -> int:
        return self.address + len(self.data)


class PoolImages(Struct, frozen=True):
    """Bytes of pools by name, and what is worth knowing of where they were found."""

    data: Mapping[str, bytes]
    notes: tuple[str, ...] = ()


# Intel HEX: lines of ':', length, 16 address bits, kind, data, checksum.

_DATA, _END, _UPPER_SEGMENT, _START_SEGMENT, _UPPER_LINEAR, _START_LINEAR = range(6)
_HEX_HINT = "the file is damaged or not Intel HEX: make it again from the image"


def is_hex(head: bytes) -> bool:
    line = head.lstrip().split(b"\n", 1)[0].strip()
    return re.fullmatch(rb":[0-9A-Fa-f]{10,520}", line) is not None


def read_hex(path: str | Path) -> tuple[AddressedBytes, ...]:
    """The file's bytes as segments, in its order; lines that follow each other are one."""
    lines = read_bytes(path, HEX).split(b"\n")
    base, place, started = 0, -1, -1
    parts: list[bytes] = []
    segments: list[AddressedBytes] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        kind, offset, data = _record(text, f"{path}, line {number}")
        if kind == _DATA:
            if base + offset != place:
                segments += _segment(started, parts)
                started, parts = base + offset, []
            parts.append(data)
            place = base + offset + len(data)
        elif kind in (_UPPER_SEGMENT, _UPPER_LINEAR):
            base = int.from_bytes(data, "big") << (16 if kind == _UPPER_LINEAR else 4)
        elif kind == _END:
            return (*segments, *_segment(started, parts))
    raise FileError("has no end record: the file is truncated", where=str(path), hint=_HEX_HINT)


def _segment(address: int, parts: list[bytes]) -> list[AddressedBytes]:
    return [AddressedBytes(address, b"".join(parts))] if parts else []


def _record(text: bytes, where: str) -> tuple[int, int, bytes]:
    """Kind, address and data of a line."""
    try:
        raw = bytes.fromhex(text[1:].decode("ascii")) if text[:1] == b":" else b""
    except ValueError:
        raw = b""
    if len(raw) < 5 or len(raw) != raw[0] + 5:
        head = safe_terminal(text[:24].decode("ascii", "replace"))
        raise FileError(f"'{head}' is not a record of Intel HEX", where=where, hint=_HEX_HINT)
    if sum(raw) & 0xFF:
        expected = -sum(raw[:-1]) & 0xFF
        message = f"the checksum is {raw[-1]:02X}, the bytes give {expected:02X}"
        raise FileError(message, where=where, hint=_HEX_HINT)
    kind = raw[3]
    widths = {_UPPER_SEGMENT: 2, _UPPER_LINEAR: 2}
    if kind > _START_LINEAR or raw[0] != widths.get(kind, raw[0]):
        message = f"unknown record of kind {kind} with {raw[0]} bytes"
        raise FileError(message, where=where, hint=_HEX_HINT)
    return kind, raw[1] << 8 | raw[2], raw[4:-1]


# ELF, 32 bits, low byte first: firmware, and the object file of an array of weights.

_MAGIC = b"\x7fELF\x01\x01"
_HEADER = struct.Struct("<16x2H5I6H")
_SECTION = struct.Struct("<10I")
_SYMBOL = struct.Struct("<3I2BH")
_WITH_BYTES, _SYMBOLS, _NO_BYTES = 1, 2, 8
_OBJECT, _RELOCATABLE = 1, 1


def is_elf(head: bytes) -> bool:
    return head.startswith(_MAGIC)


class Elf(Struct, frozen=True):
    """Sections with bytes, and the objects with bytes that symbols name."""

    machine: int
    relocatable: bool
    sections: tuple[AddressedBytes, ...]
    objects: tuple[AddressedBytes, ...]


def read_elf(path: str | Path) -> Elf:
    data = read_bytes(path, ELF)
    if not data.startswith(_MAGIC) or len(data) < _HEADER.size:
        raise FileError("is not a 32-bit little-endian ELF file", where=str(path))
    kind, machine, _, _, _, table, _, _, _, _, size, count, names = _HEADER.unpack_from(data)
    if size != _SECTION.size or table + size * count > len(data):
        raise FileError("its section table extends past the end of the file", where=str(path))
    rows = [_SECTION.unpack_from(data, table + size * i) for i in range(count)]
    texts = _body(data, rows[names]) if names < count else b""
    sections = tuple(
        AddressedBytes(row[3], _body(data, row), _text(texts, row[0]))
        for row in rows
        if row[1] == _WITH_BYTES and row[5]
    )
    objects = tuple(s for row in rows if row[1] == _SYMBOLS for s in _objects(data, rows, row))
    return Elf(machine, kind == _RELOCATABLE, sections, objects)


def _body(data: bytes, row: tuple[int, ...]) -> bytes:
    """The bytes of a section; fewer where the file ends before it."""
    return b"" if row[1] == _NO_BYTES else data[row[4] : row[4] + row[5]]


def _text(table: bytes, at: int) -> str:
    end = table.find(b"\0", at)
    return table[at:end].decode("ascii", "replace") if 0 <= at < end else ""


def _objects(
    data: bytes, rows: list[tuple[int, ...]], row: tuple[int, ...]
) -> list[AddressedBytes]:
    """An object's value is an address, in object files an offset into its section."""
    table = _body(data, row)
    texts = _body(data, rows[row[6]]) if row[6] < len(rows) else b""
    relocatable = struct.unpack_from("<H", data, 16)[0] == _RELOCATABLE
    segments = []
    for name, value, size, info, _, home in _SYMBOL.iter_unpack(table[: len(table) // 16 * 16]):
        if info & 0xF != _OBJECT or not size or home >= len(rows):
            continue
        section = rows[home]
        start = value if relocatable else value - section[3]
        if section[1] == _WITH_BYTES and start >= 0 and start + size <= section[5]:
            body = data[section[4] + start : section[4] + start + size]
            segments.append(AddressedBytes(0 if relocatable else value, body, _text(texts, name)))
    return segments


# Arrays in C: `const uint64_t _mem_pool_xSPI2_network[132] = { 0x..ULL, 0, ... };`

_ARRAY = re.compile(r"\bu?int(8|16|32|64)_t\s+(\w{1,200})\s*\[[^\]\n]{0,40}\][^=;{]{0,200}=\s*\{")
_NUMBER = re.compile(r"(-?)\b(0[xX][0-9A-Fa-f]{1,16}|\d{1,20})(?:[uUlL]{0,3})\b")


def read_c_arrays(path: str | Path) -> tuple[AddressedBytes, ...]:
    """Arrays of whole numbers by name, low byte first as on the device."""
    return c_arrays(read_text(path, SOURCE, errors="replace"), str(path))


def c_arrays(text: str, where: str) -> tuple[AddressedBytes, ...]:
    segments = []
    for head in _ARRAY.finditer(text):
        end = text.find("}", head.end())
        if end < 0:
            line = text.count("\n", 0, head.start()) + 1
            raise FileError(
                f"the array '{head[2]}' does not end: the file is truncated",
                where=f"{where}, line {line}",
            )
        body = text[head.end() : end]
        width = int(head[1]) // 8
        mask = (1 << 8 * width) - 1
        values = (
            int(sign + digits, 0 if "x" in digits.lower() else 10) & mask
            for sign, digits in _NUMBER.findall(body)
        )
        segments.append(
            AddressedBytes(
                0, b"".join(value.to_bytes(width, "little") for value in values), head[2]
            )
        )
    return tuple(segments)


# The image of a pool, from whichever of these holds it.


def pool_image(path: Path, file_name: str, address: int, size: int) -> bytes:
    """The bytes of a pool in a file: by the name of its array, or else by its addresses."""
    suffix = path.suffix.lower()
    if suffix == ".c":
        return _named(read_c_arrays(path), file_name)
    if suffix == ".hex":
        return overlaid(read_hex(path), address, size)
    elf = read_elf(path)
    return _named(elf.objects, file_name) or (
        b"" if elf.relocatable else overlaid(elf.sections, address, size)
    )


def _named(arrays: tuple[AddressedBytes, ...], file_name: str) -> bytes:
    start = f"_mem_pool_{file_name}"
    fitting = (one.data for one in arrays if one.name == start or one.name.startswith(f"{start}_"))
    return next(fitting, b"")


def overlaid(segments: Iterable[AddressedBytes], address: int, size: int) -> bytes:
    """What segments put into a memory from its first byte on; bytes between them are 0. Nothing
    where the first byte is not among them: other programs' bytes may follow in the memory."""
    inside = [one for one in segments if one.address < address + size and address < one.end]
    if not any(one.address <= address for one in inside):
        return b""
    image = bytearray(max(min(one.end, address + size) - address for one in inside))
    for one in inside:
        skipped = max(0, address - one.address)
        place = max(0, one.address - address)
        data = one.data[skipped : skipped + len(image) - place]
        image[place : place + len(data)] = data
    return bytes(image)
