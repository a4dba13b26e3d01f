"""Rows of a report as they are found, each with the line it came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npuscope.program.generate_report.lines import Entry, Line

# Longer digit strings are not counts of anything; int() would take its time with them.
_MOST_DIGITS = 18


class Draft:
    """A report while it is read. A line belongs to the first rule that gives a row for it."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Line, Any]]] = {}
        self.table = ""  # the table whose rows have no mark of their own
        self.columns: tuple[str, ...] = ()
        self.column = 0  # where the column before the last ends, in a table with open cells

    def add(self, name: str, line: Line, row: object) -> None:
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
        """Of two reports in one log the later counts; the earlier one's lines stay unread."""
        for name in names:
            self.rows.pop(name, None)

    def used(self) -> set[int]:
        return {line.number for rows in self.rows.values() for line, _ in rows}


Rule = tuple[str, Callable[[str, Draft], object | None]]


def read_into(draft: Draft, lines: tuple[Line, ...], rules: tuple[Rule, ...]) -> None:
    for line in lines:
        if not line.text.strip():
            continue
        for name, rule in rules:
            row = rule(line.text, draft)
            if row is not None:
                draft.add(name, line, row)
                break
        else:
            _read_entry(draft, line)


def _read_entry(draft: Draft, line: Line) -> None:
    """Whatever has the form `key : value` is kept as that."""
    key, colon, value = line.text.partition(":")
    # "C:\\models" and "12:30" are no keys.
    if colon and value[:1] in (" ", "\t") and 0 < len(key.strip()) <= 60 and value.strip():
        draft.add("entries", line, Entry(line.number, key.strip(), value.strip()))


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
