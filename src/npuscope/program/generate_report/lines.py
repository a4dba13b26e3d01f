"""Text reports line by line, without what logs and terminals put around the lines.

Reports reach us as files of the tool, as console output that was redirected, and as copies out
of an IDE's log, where a time stamp and the name of a logger stand before every line.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from npuscope.bounded_file import REPORT, read_bytes
from npuscope.errors import FileError
from npuscope.text import safe_terminal

MAX_LINES = 200_000
# Real lines end before 4,000 characters; patterns are only tried on lines of a sane length.
MAX_LINE = 1 << 16
_LOG_PREFIX = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \[[A-Z]{1,9}\] \w{1,60}:\d{1,9} - ?"
    r"|(?:\[[A-Z]\])? *\[TARGET:\d{1,9}\] ?|\[[A-Z]\] ?",
    re.ASCII,
)
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NUMBER = re.compile(r"(?<!\w)[0-9]")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a report: its number in the file, and its text after any prefix."""

    number: int
    text: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the form `key : value`."""

    line: int
    key: str
    value: str


def read_lines(path: str | Path) -> tuple[Line, ...]:
    return split_lines(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """The whole file as text; PowerShell redirects as UTF-16, consoles in old code pages."""
    data = read_bytes(path, REPORT)
    if data.startswith(_UTF16):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data:
        raise FileError(f"is not text: byte {data.index(0)} is zero", where=str(path))
    return data.decode("utf-8-sig", errors="replace")


def split_lines(text: str, where: str) -> tuple[Line, ...]:
    if text.count("\n") > MAX_LINES:
        raise FileError(f"has more than {MAX_LINES:,} lines: this is not a report", where=where)
    parts = text.replace("\r\n", "\n").split("\n")
    for number, part in enumerate(parts, 1):
        if len(part) > MAX_LINE:
            raise FileError(
                f"a line of {len(part):,} characters: this is not a report",
                where=f"{where}:{number}",
            )
    return tuple(_line(number, part) for number, part in enumerate(parts, 1))


def _line(number: int, text: str) -> Line:
    text = _COLOUR.sub("", text)
    found = _LOG_PREFIX.match(text)
    prefix = found[0] if found else ""
    return Line(number, text[len(prefix) :].rstrip(), prefix)


def left_over(lines: tuple[Line, ...], used: Iterable[int]) -> tuple[Line, ...]:
    """Lines with a number in them that are not among the used ones."""
    known = set(used)
    return tuple(line for line in lines if line.number not in known and _has_number(line.text))


def unread(lines: tuple[Line, ...], used: Iterable[int]) -> tuple[str, ...]:
    """One sentence a region that holds numbers and that no rule has read."""
    regions: list[list[Line]] = []
    for line in left_over(lines, used):
        if regions and regions[-1][-1].number == line.number - 1:
            regions[-1].append(line)
        else:
            regions.append([line])
    stamps = sum(_has_number(line.prefix) for line in lines)
    before = (f"time stamps, loggers and targets before {stamps} lines",) if stamps else ()
    return (*before, *(_region(region) for region in regions))


def _has_number(text: str) -> bool:
    """Digits inside a word ("l2r", "stm32n6") are part of a name."""
    return _NUMBER.search(text) is not None


def _region(lines: list[Line]) -> str:
    first, last = lines[0].number, lines[-1].number
    place = f"line {first}" if first == last else f"lines {first}-{last}"
    text = safe_terminal(" ".join(lines[0].text.split()))
    return f"{place}: {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"
