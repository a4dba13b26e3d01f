"""The generated header `<network>_ecblobs.h`: one array of 64-bit literals a blob.

Each literal holds two 32-bit words, the low one first. Everything else in such a header (section
macros, two functions that do nothing) is not needed to read it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from npuscope.errors import FileError, UsageError
from npuscope.text import safe_terminal

_ARRAY = re.compile(r"\buint64_t\s+(\w+)\s*\[\s*(\d{0,9})\s*\]\s*=\s*\{")
_LITERAL = re.compile(r"\s*(0[xX][0-9a-fA-F]{1,16}|\d{1,20})[uUlL]*\s*(?:,|(?=\}))")
_CLOSE = re.compile(r"\s*\}")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_PER_LINE = 4
_DWORD = 8
_LINE = 8  # 64-bit words in a cache line: blobs are cleaned and aligned by whole lines


def read_header(text: str) -> dict[str, bytes]:
    """Blobs by the names of their arrays, in the order of the file."""
    plain = _COMMENT.sub(lambda found: " " * len(found.group()), text)
    blobs: dict[str, bytes] = {}
    for found in _ARRAY.finditer(plain):
        values = _literals(plain, found.end())
        announced = found.group(2)
        # An array may be declared longer, up to a cache line; C fills the rest with zeros.
        if announced and int(announced) < len(values):
            raise FileError(
                f"array '{found.group(1)}' is declared with {announced} entries "
                f"and has {len(values)}",
                where=f"character {found.start()}",
            )
        blobs[found.group(1)] = struct.pack(f"<{len(values)}Q", *values)
    if not blobs:
        raise FileError(
            "no array of 64-bit words in this header", hint="expected a *_ecblobs.h with blobs"
        )
    return blobs


def _literals(text: str, at: int) -> list[int]:
    values: list[int] = []
    while not _CLOSE.match(text, at):
        found = _LITERAL.match(text, at)
        value = int(found.group(1), 0) if found and _is_number(found.group(1)) else -1
        if found is None or not 0 <= value < 1 << 64:
            near = safe_terminal(text[at : at + 24].strip())
            raise FileError(f"expected a 64-bit number, found '{near}'", where=f"character {at}")
        values.append(value)
        at = found.end()
    return values


def _is_number(literal: str) -> bool:
    """C reads a leading zero as octal, Python refuses it; no generator writes one."""
    return literal[:2].lower() == "0x" or literal == "0" or not literal.startswith("0")


def blob_name(network: str, index: int) -> str:
    """The array's name as the vendor's files have it, safe for C whatever the network's name."""
    return array_name(f"{network}_{index}" if network else str(index))


def copy_name(array: str) -> str:
    """The array that a blob with relocations is copied to before it runs."""
    return f"{array}_rt"


def array_name(text: str) -> str:
    """A name for C; the prefix keeps it apart from reserved words."""
    return f"_ec_blob_{re.sub(r'[^A-Za-z0-9_]', '_', text)}"


def write_header(blobs: Mapping[str, bytes]) -> str:
    """A C header with one array a blob, each aligned to a cache line."""
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
