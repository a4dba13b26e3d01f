"""Text reports line by line: prefixes added by logs are removed, rows are kept as found."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.bounded_file import REPORT, read_bytes
from npuscope.errors import FileError
from npuscope.text import safe_terminal

# --- Lines without the prefixes that logs and terminals add ---
#
# Reports come as files of the tool, as redirected console output, and as copies from an IDE's log,
# where a time stamp and the name of a logger precede every line.

MAX_LINES = 200_000
# Real lines are shorter than 4,000 characters; patterns are only tried on such lines.
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


class ReportLine(Struct, frozen=True):
    """A line of a report: its number in the file, and its text after any prefix."""

    number: int
    text: str
    prefix: str = ""


class KeyValue(Struct, frozen=True):
    """A line of the form `key : value`."""

    line: int
    key: str
    value: str


def read_lines(path: str | Path) -> tuple[ReportLine, ...]:
    return split_lines(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """The whole file as text; PowerShell redirects as UTF-16, consoles in old code pages."""
    data = read_bytes(path, REPORT)
    if data.startswith(_UTF16):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data:
        raise FileError(f"is not text: byte {data.index(0)} is zero", where=str(path))
    return data.decode("utf-8-sig", errors="replace")


def split_lines(text: str, where: str) -> tuple[ReportLine, ...]:
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


def _line(number: int, text: str) -> ReportLine:
    text = _COLOUR.sub("", text)
    match = _LOG_PREFIX.match(text)
    prefix = match[0] if match else ""
    return ReportLine(number, text[len(prefix) :].rstrip(), prefix)


def left_over(lines: tuple[ReportLine, ...], used: Iterable[int]) -> tuple[ReportLine, ...]:
    """Lines with a number in them that are not among the used ones."""
    numbers = set(used)
    return tuple(line for line in lines if line.number not in numbers and _has_number(line.text))


def unread(lines: tuple[ReportLine, ...], used: Iterable[int]) -> tuple[str, ...]:
    """One sentence per region that holds numbers and that no rule has read."""
    regions: list[list[ReportLine]] = []
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


def _region(lines: list[ReportLine]) -> str:
    first, last = lines[0].number, lines[-1].number
    place = f"line {first}" if first == last else f"lines {first}-{last}"
    text = safe_terminal(" ".join(lines[0].text.split()))
    return f"{place}: {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"


# --- Rows of a report as found, each with the line it came from ---

# Longer digit strings are not real counts, and int() is slow on them.
_MOST_DIGITS = 18


class ReportDraft:
    """A report while it is read. A line belongs to the first rule that gives a row for it."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[ReportLine, Any]]] = {}
        self.table = ""  # the table whose rows have no mark of their own
        self.columns: tuple[str, ...] = ()
        self.column = 0  # where the column before the last ends, in a table with open cells

    def add(self, name: str, line: ReportLine, row: object) -> None:
        self.rows.setdefault(name, []).append((line, row))

    def get(self, name: str) -> tuple[Any, ...]:
        return tuple(row for _, row in self.rows.get(name, ()))

    def last(self, name: str) -> Any:
        """The latest row, or None."""
        rows = self.rows.get(name)
        return rows[-1][1] if rows else None

    def replace_last(self, name: str, row: object) -> None:
        line, _ = self.rows[name][-1]
        self.rows[name][-1] = (line, row)

    def restart(self, *names: str) -> None:
        """Of two reports in one log the later one is used; the lines of the earlier stay unread."""
        for name in names:
            self.rows.pop(name, None)

    def used(self) -> set[int]:
        return {line.number for rows in self.rows.values() for line, _ in rows}


LineRule = tuple[str, Callable[[str, ReportDraft], object | None]]


def read_into(
    draft: ReportDraft, lines: tuple[ReportLine, ...], rules: tuple[LineRule, ...]
) -> None:
    for line in lines:
        if not line.text.strip():
            continue
        for name, rule in rules:
            row = rule(line.text, draft)
            if row is not None:
                draft.add(name, line, row)
                break
        else:
            # Whatever has the form `key : value` is kept as that.
            key, colon, value = line.text.partition(":")
            # "C:\\models" and "12:30" are not keys.
            if colon and value[:1] in (" ", "\t") and 0 < len(key.strip()) <= 60 and value.strip():
                draft.add("entries", line, KeyValue(line.number, key.strip(), value.strip()))


def whole(text: str) -> int | None:
    """A count as reports print it, with or without commas."""
    digits = text.replace(",", "")
    return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else None


def number(text: str) -> float | None:
    """A decimal number, a sign allowed; a percent sign behind it is left out."""
    bare = text.removesuffix("%").replace(",", "")
    plain = bare.removeprefix("-").removeprefix("+")
    whole_part, _, fraction = plain.partition(".")
    if not plain or len(plain) > _MOST_DIGITS + 6:
        return None
    if not (whole_part or "0").isdecimal() or not (fraction or "0").isdecimal():
        return None
    return float(bare) if whole_part or fraction else None
