"""An epoch-controller binary as bytes: a plain blob, or a container with tables around it.

Plain: magic, number of words, code. Container: magic, byte offsets of the relocation table, the
patch table, debug data and the blob (0 = absent). A table holds a count, fixed rows, lists of
places and names; its offsets count from the table. A place is a word of the code."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping

from msgspec import Struct

from npuscope.errors import FileError, TargetError, UsageError
from npuscope.program.ec_blob.instructions import (
    HEADER_WORDS,
    MAGIC,
    Instruction,
    decode,
    encode,
)
from npuscope.program.ec_blob.registers import WORD_MASK
from npuscope.structs import replace
from npuscope.text import safe_terminal

_WORD = 4
_ALIGN = 8  # the header, the tables and the blob start on whole 64-bit words


class Relocation(Struct, frozen=True):
    """Words of the code that hold addresses relative to a named base."""

    identifier: str
    places: tuple[int, ...]


class Patch(Struct, frozen=True):
    """Bits of words that take a named value, shifted right by `shift`, before a run."""

    identifier: str
    mask: int
    places: tuple[int, ...]
    shift: int = 0


class EcBinary(Struct, frozen=True):
    """`container` is the container's magic number, None for a plain blob."""

    instructions: tuple[Instruction, ...]
    container: int | None = None
    relocations: tuple[Relocation, ...] = ()
    patches: tuple[Patch, ...] = ()
    debug: bytes = b""


class _Layout(Struct, frozen=True):
    """What a kind of container has after its magic, and in a row of its patch table."""

    offsets: tuple[str, ...]
    patch_row: tuple[str, ...]


_LATER = ("relocations", "patches", "debug", "blob")
_LAYOUTS = {
    0xECBF0020: _Layout(("relocations", "debug", "blob"), ()),
    0xECBF0030: _Layout(_LATER, ("identifier", "mask", "count", "list")),
    0xECBF0050: _Layout(_LATER, ("identifier", "shift", "mask", "count", "list")),
}
_RELOCATION_ROW = ("identifier", "count", "list")
CONTAINERS = tuple(_LAYOUTS)


def read_binary(data: bytes) -> EcBinary:
    """A blob or a container. Bytes after the code may only be padding."""
    if len(data) < HEADER_WORDS * _WORD:
        raise FileError(f"{len(data)} bytes are not a blob", where="word 0")
    magic = _word(data, 0)
    if magic == MAGIC:
        return EcBinary(_read_code(data, 0))
    layout = _LAYOUTS.get(magic)
    if layout is None:
        raise FileError(
            f"expected {MAGIC:#010x} or a container, found {magic:#010x}",
            where="word 0",
            hint="give a *_ecblobs.h or the bytes of one blob",
        )
    offsets = {name: _word(data, 1 + i) for i, name in enumerate(layout.offsets)}
    for index, (name, offset) in enumerate(offsets.items()):
        if offset % _WORD or offset >= len(data) or (not offset and name == "blob"):
            raise FileError(f"the offset of {name} is {offset}", where=f"word {1 + index}")
    code = _read_code(data, offsets["blob"])
    count = _word(data, offsets["blob"] // _WORD + 1)
    relocations = _read_table(data, offsets["relocations"], _RELOCATION_ROW, count)
    patches = _read_table(data, offsets.get("patches", 0), layout.patch_row, count)
    return EcBinary(
        code,
        magic,
        tuple(Relocation(row.identifier, row.places) for row in relocations),
        tuple(
            Patch(row.identifier, row.numbers["mask"], row.places, _signed(row.numbers))
            for row in patches
        ),
        data[offsets["debug"] : offsets["blob"]] if offsets["debug"] else b"",
    )


def _signed(numbers: dict[str, int]) -> int:
    shift = numbers.get("shift", 0)
    return shift - (1 << 32) if shift >> 31 else shift


def _read_code(data: bytes, start: int) -> tuple[Instruction, ...]:
    first = start // _WORD
    if _word(data, first) != MAGIC:
        raise FileError(f"expected {MAGIC:#010x}", where=f"word {first}")
    count = _word(data, first + 1)
    end = start + (HEADER_WORDS + count) * _WORD
    if end > len(data):
        available = (len(data) - start) // _WORD - HEADER_WORDS
        raise FileError(
            f"the header states {count} words of code, but there are {available}",
            where=f"word {first + 1}",
        )
    if any(data[end:]) or len(data) - end >= 64:
        raise FileError("bytes follow the code", where=f"word {end // _WORD}")
    first += HEADER_WORDS
    words = struct.unpack_from(f"<{count}I", data, first * _WORD)
    return decode(words, first)


class _Row(Struct, frozen=True):
    identifier: str
    numbers: dict[str, int]
    places: tuple[int, ...]


def _read_table(data: bytes, start: int, layout: tuple[str, ...], code_words: int) -> list[_Row]:
    if not start:
        return []
    first = start // _WORD
    rows = _word(data, first)
    if (1 + rows * len(layout)) * _WORD > len(data) - start:
        raise FileError(f"a table of {rows} rows extends past the end", where=f"word {first}")
    return [
        _read_row(data, start, first + 1 + i * len(layout), layout, code_words) for i in range(rows)
    ]


def _read_row(data: bytes, start: int, at: int, layout: tuple[str, ...], code_words: int) -> _Row:
    numbers = {name: _word(data, at + i) for i, name in enumerate(layout)}
    where = start + numbers["list"]
    count = numbers["count"]
    if where % _WORD or where + count * _WORD > len(data):
        raise FileError(f"a list of {count} positions extends past the end", where=f"word {at}")
    places = struct.unpack_from(f"<{count}I", data, where)
    if any(place >= code_words for place in places):
        raise FileError("a position is outside the code", where=f"word {where // _WORD}")
    name_start = start + numbers["identifier"]
    end = data.find(b"\0", name_start)
    if name_start >= len(data) or end < 0:
        raise FileError("a name is not terminated", where=f"word {at}")
    # Any byte has a character in latin-1, so a foreign name cannot fail here.
    return _Row(data[name_start:end].decode("latin-1"), numbers, places)


def _word(data: bytes, index: int) -> int:
    if (index + 1) * _WORD > len(data):
        raise FileError("the file ends here", where=f"word {index}")
    return int.from_bytes(data[index * _WORD : (index + 1) * _WORD], "little")


def write_binary(binary: EcBinary) -> bytes:
    """The bytes, padded to whole 64-bit words."""
    code = encode(binary.instructions)
    blob = _pack((MAGIC, len(code), *code))
    if binary.container is None:
        return _padded(blob)
    layout = _LAYOUTS.get(binary.container)
    if layout is None:
        raise TargetError(f"{binary.container:#010x} is not a container")
    if binary.patches and not layout.patch_row:
        raise TargetError(f"container {binary.container:#010x} has no patches")
    rows: tuple[Relocation | Patch, ...] = (*binary.relocations, *binary.patches)
    for row in rows:
        if any(not 0 <= place < len(code) for place in row.places):
            raise TargetError(f"'{row.identifier}' names a position outside the code")
        if isinstance(row, Patch) and not 0 <= row.mask < 1 << 32:
            raise TargetError(f"the mask of '{row.identifier}' does not fit 32 bits")
    parts = {
        "relocations": _table(binary.relocations, _RELOCATION_ROW),
        "patches": _table(binary.patches, layout.patch_row),
        "debug": binary.debug,
        "blob": blob,
    }
    at = len(_padded(bytes((1 + len(layout.offsets)) * _WORD)))
    offsets, body = [binary.container], b""
    for name in layout.offsets:
        offsets.append(at + len(body) if parts[name] else 0)
        body += _padded(parts[name])
    return _padded(_pack(offsets)) + body


def _table(rows: tuple[Relocation, ...] | tuple[Patch, ...], layout: tuple[str, ...]) -> bytes:
    """Count and rows, then all lists, then all names."""
    if not rows:
        return b""
    lists = (1 + len(rows) * len(layout)) * _WORD
    names = lists + sum(len(row.places) for row in rows) * _WORD
    words, places, text = [len(rows)], list[int](), b""
    for row in rows:
        numbers = {
            "identifier": names + len(text),
            "shift": getattr(row, "shift", 0) & 0xFFFFFFFF,
            "mask": getattr(row, "mask", 0),
            "count": len(row.places),
            "list": lists + len(places) * _WORD,
        }
        words += [numbers[name] for name in layout]
        places += row.places
        text += row.identifier.encode("latin-1") + b"\0"
    return _pack((*words, *places)) + text


def _pack(words: Iterable[int]) -> bytes:
    numbers = tuple(words)
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGN)


# --- A container's code with its relocations applied, as a loader does before a run ---


def relocated(binary: EcBinary, bases: Mapping[str, int]) -> EcBinary:
    """Add a base address to the words that each relocation names.

    Relocations stay in the container; their words count from the base given here from now on.
    """
    unknown = sorted(set(bases) - {row.identifier for row in binary.relocations})
    if unknown:
        names = ", ".join(row.identifier for row in binary.relocations) or "none"
        raise TargetError(f"no relocation '{unknown[0]}'", hint=f"the blob has: {names}")
    words = encode(binary.instructions)
    for row in binary.relocations:
        for place in row.places:
            words[place] = (words[place] + bases.get(row.identifier, 0)) & WORD_MASK
    return replace(binary, instructions=decode(words))


# --- The generated header `<network>_ecblobs.h`: one array of 64-bit literals per blob ---
#
# Each literal holds two 32-bit words, the low one first. Everything else in such a header (section
# macros, two functions that do nothing) is not needed to read it.

_ARRAY = re.compile(r"\buint64_t\s+(\w+)\s*\[\s*(\d{0,9})\s*\]\s*=\s*\{")
_LITERAL = re.compile(r"\s*(0[xX][0-9a-fA-F]{1,16}|\d{1,20})[uUlL]*\s*(?:,|(?=\}))")
_CLOSE = re.compile(r"\s*\}")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_PER_LINE = 4
_DWORD = 8
_LINE = 8  # 64-bit words in a cache line: blobs are cleaned and aligned by whole lines


def read_header(text: str) -> dict[str, bytes]:
    """Blobs by the names of their arrays, in the order of the file."""
    plain = _COMMENT.sub(lambda match: " " * len(match.group()), text)
    blobs: dict[str, bytes] = {}
    for match in _ARRAY.finditer(plain):
        values = _literals(plain, match.end())
        announced = match.group(2)
        # An array may be declared longer, up to a cache line; C fills the rest with zeros.
        if announced and int(announced) < len(values):
            raise FileError(
                f"array '{match.group(1)}' is declared with {announced} entries "
                f"and has {len(values)}",
                where=f"character {match.start()}",
            )
        blobs[match.group(1)] = struct.pack(f"<{len(values)}Q", *values)
    if not blobs:
        raise FileError(
            "no array of 64-bit words in this header", hint="expected a *_ecblobs.h with blobs"
        )
    return blobs


_ENCRYPTED = re.compile(
    r"^\s*#\s*define\s+LL_ATON_EC_MustDecryptBlob_\w*?(_ec_blob_\w+)\s+\(?(?:true|1)\b", re.M
)


def encrypted_blobs(text: str) -> frozenset[str]:
    """Names of the blobs that a header says only the device can read."""
    return frozenset(_ENCRYPTED.findall(text))


def _literals(text: str, at: int) -> list[int]:
    values: list[int] = []
    while not _CLOSE.match(text, at):
        match = _LITERAL.match(text, at)
        value = int(match.group(1), 0) if match and _is_number(match.group(1)) else -1
        if match is None or not 0 <= value < 1 << 64:
            near = safe_terminal(text[at : at + 24].strip())
            raise FileError(f"expected a 64-bit number, found '{near}'", where=f"character {at}")
        values.append(value)
        at = match.end()
    return values


def _is_number(literal: str) -> bool:
    """C reads a leading zero as octal, Python refuses it; no generator writes one."""
    return literal[:2].lower() == "0x" or literal == "0" or not literal.startswith("0")


def blob_name(network: str, index: int) -> str:
    """The array's name as in the vendor's files, valid C for any network name."""
    return array_name(f"{network}_{index}" if network else str(index))


def copy_name(array: str) -> str:
    """The array that a blob with relocations is copied to before it runs."""
    return f"{array}_rt"


def array_name(text: str) -> str:
    """A name for C; the prefix keeps it apart from reserved words."""
    return f"_ec_blob_{re.sub(r'[^A-Za-z0-9_]', '_', text)}"


def write_header(blobs: Mapping[str, bytes]) -> str:
    """A C header with one array per blob, each aligned to a cache line."""
    arrays = [_array(name, data) for name, data in blobs.items()]
    lines = [
        "/* Epoch-controller blobs, written by npuscope. */",
        "#pragma once",
        "",
        "#include <stdint.h>",
        "",
        "#if !defined(ECBLOB_CONST_SECTION)",
        "#define ECBLOB_CONST_SECTION",
        "#endif",
        *(line for array in arrays for line in ("", *array)),
    ]
    return "\n".join(lines) + "\n"


def _array(name: str, data: bytes) -> list[str]:
    if not re.fullmatch(r"[A-Za-z_]\w*", name, flags=re.ASCII):
        raise UsageError(f"'{safe_terminal(name)}' cannot name an array in C")
    padded = data + bytes(-len(data) % _DWORD)
    values = [f"0x{value:016x}UL" for (value,) in struct.iter_unpack("<Q", padded)]
    rows = [values[i : i + _PER_LINE] for i in range(0, len(values), _PER_LINE)]
    return [
        "ECBLOB_CONST_SECTION __attribute__((aligned(64)))",
        f"static const uint64_t {name}[{-(-len(values) // _LINE) * _LINE}] =",
        "{",
        ",\n".join("  " + ", ".join(row) for row in rows),
        "};",
    ]
