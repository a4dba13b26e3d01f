"""Lenient JSON: vendor files that people edited by hand. Every error names the file and the JSON
path."""

from __future__ import annotations

import json
import logging
import math
import re
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from npuscope.bounded_file import VENDOR_JSON, FileKind, parse_json, read_text
from npuscope.errors import FileError
from npuscope.plain_data import Node
from npuscope.records import FOREIGN, decode

log = logging.getLogger(__name__)
Record = TypeVar("Record")

# --- Reading, with the common mistakes of hand-edited files repaired ---
#
# Strict parsing comes first. Where it stops, the three mistakes that occur in real files are
# repaired (a missing quote before a key, a comma before a closing bracket, a // comment) and a note
# says so.

_BARE_KEY = re.compile(r'(\w+)("?)\s*:')
_COMMENT = re.compile(r"//[^\n]*")
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")

# A file that needs more repairs is probably in another format.
_MOST_REPAIRS = 50


class LenientJson(Struct, frozen=True):
    value: Any
    notes: tuple[str, ...]


def read_json(path: str | Path, kind: FileKind = VENDOR_JSON) -> LenientJson:
    """The file's value, and a note for every mistake that was repaired."""
    text = read_text(path, kind, encoding="utf-8-sig")
    notes: list[str] = []
    while True:
        try:
            return LenientJson(parse_json(text), tuple(notes))
        except json.JSONDecodeError as error:
            repaired = _mend(text, error.pos) if len(notes) < _MOST_REPAIRS else None
            if repaired is None:
                raise FileError(
                    f"is not valid JSON: {error.msg} at offset {error.pos}",
                    where=f"{path}:{error.lineno}:{error.colno}",
                    hint="correct the file with a JSON editor, or use the copy that the tool wrote",
                ) from None
            text, what = repaired
            notes.append(f"{path}:{error.lineno}: {what}; repaired while reading")
        except ValueError as error:
            raise FileError(f"is not valid JSON: {error}", where=str(path)) from None


def read_record(path: str | Path, kind: type[Record]) -> Record:
    """The file as a record of `kind`; what was repaired is logged."""
    source = read_json(path)
    try:
        record: Record = decode(source.value, kind, style=FOREIGN)
    except FileError as error:
        raise FileError(f"{error.where}: {error.message}", where=str(path)) from None
    for note in source.notes:
        log.warning(note)
    return record


def _mend(text: str, pos: int) -> tuple[str, str] | None:
    """The text without the mistake at `pos` and a short description of it, or None."""
    comment = _COMMENT.match(text, pos)
    if comment:
        return text[:pos] + text[comment.end() :], "a comment is not JSON"
    comma = _comma_near(text, pos)
    if comma is not None:
        return text[:comma] + text[comma + 1 :], "a comma before a closing bracket"
    key = _BARE_KEY.match(text, pos)
    if key:
        quoted = f'"{key[1]}"' + key[0][len(key[1]) + len(key[2]) :]
        return text[:pos] + quoted + text[key.end() :], f"the key '{key[1]}' lacks a quote"
    return None


def _comma_near(text: str, pos: int) -> int | None:
    """The superfluous comma: parsers stop at it or at the bracket after it."""
    if _TRAILING_COMMA.match(text, pos):
        return pos
    before = len(text[:pos].rstrip()) - 1
    return before if _TRAILING_COMMA.match(text, max(before, 0)) and text[before] == "," else None


# The spellings of foreign JSON.

_MOST_BITS = 70  # the compiler writes 64-bit sizes
_MAGNITUDES = {"BYTES": 1, "KBYTES": 1 << 10, "MBYTES": 1 << 20, "GBYTES": 1 << 30}


class VendorNode(Node, frozen=True):
    """A value in a vendor's file: numbers may be texts, sizes have units, switches have names."""

    def number(self) -> float:
        """A finite number; some files write it as a string."""
        try:
            value = float(self.value)
        except (TypeError, ValueError, OverflowError):
            raise self.error(f"expected a number, found {self.shown()}") from None
        if not math.isfinite(value):
            raise self.error(f"{value} is not a finite number")
        return value

    def whole(self) -> int:
        """An integer: a JSON number, or a decimal or 0x string."""
        value = self.value
        try:
            whole = int(value, 0) if isinstance(value, str) else int(value)
        except (TypeError, ValueError, OverflowError):
            raise self.error(f"expected a whole number, found {self.shown()}") from None
        if whole.bit_length() > _MOST_BITS:
            raise self.error("the number has too many digits")
        if whole != value and not isinstance(value, str):
            raise self.error(f"expected a whole number, found {self.shown()}")
        return whole

    def sized(self) -> int:
        """{value, magnitude} in bytes."""
        magnitude = self.find("magnitude")
        name = magnitude.text() if magnitude else "BYTES"
        if name not in _MAGNITUDES:
            units = ", ".join(_MAGNITUDES)
            raise self.error(f"unknown magnitude '{name}'; known: {units}")
        return self.get("value").whole() * _MAGNITUDES[name]

    def is_on(self) -> bool:
        """true, "true" or an enumerator that ends in _ON."""
        text = str(self.value).lower()
        return text == "true" or text.endswith("_on")
