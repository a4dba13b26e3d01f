"""JSON as found in the wild: vendor description files that people edited by hand.

Strict parsing first. Where it stops, the three slips that occur in real files are mended (a
missing quote before a key, a comma before a closing bracket, a // comment) and noted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npuscope.bounded_file import VENDOR_JSON, Kind, parse_json, read_text
from npuscope.errors import FileError

_BARE_KEY = re.compile(r'(\w+)("?)\s*:')
_COMMENT = re.compile(r"//[^\n]*")
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")

# A file that needs more is not a slip but another format.
_MOST_REPAIRS = 50


@dataclass(frozen=True, slots=True)
class LenientJson:
    value: Any
    notes: tuple[str, ...]


def read_json(path: str | Path, kind: Kind = VENDOR_JSON) -> LenientJson:
    """The file's value, and a note for every slip that was mended."""
    text = read_text(path, kind, encoding="utf-8-sig")
    notes: list[str] = []
    while True:
        try:
            return LenientJson(parse_json(text), tuple(notes))
        except json.JSONDecodeError as error:
            mended = _mend(text, error.pos) if len(notes) < _MOST_REPAIRS else None
            if mended is None:
                raise _broken(path, error) from None
            text, what = mended
            notes.append(f"{path}:{error.lineno}: {what}; read as if mended")
        except ValueError as error:
            raise FileError(f"is not valid JSON: {error}", where=str(path)) from None


def _mend(text: str, pos: int) -> tuple[str, str] | None:
    """The text without the slip at `pos` and a word on it, or None."""
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
    """The useless comma: parsers stop at it or at the bracket behind it."""
    if _TRAILING_COMMA.match(text, pos):
        return pos
    before = len(text[:pos].rstrip()) - 1
    return before if _TRAILING_COMMA.match(text, max(before, 0)) and text[before] == "," else None


def _broken(path: str | Path, error: json.JSONDecodeError) -> FileError:
    return FileError(
        f"is not valid JSON: {error.msg} at offset {error.pos}",
        where=f"{path}:{error.lineno}:{error.colno}",
        hint="write the file again with a JSON editor, or use the tool's own copy",
    )
