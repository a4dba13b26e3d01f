"""Single values of plain data (JSON, TOML): the range that each may have, how messages show them,
and Node, a value that knows its place, for files of odd shape that are read value by value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.text import safe_terminal

U64 = (1 << 64) - 1
I63 = (1 << 63) - 1
WORDS = {int: "a whole number", str: "text", bool: "true or false", float: "a number"}
_MOST_SHOWN = 40


class Range(Struct, frozen=True):
    """Values from `low` to `high`. The high ends are far beyond any hardware, and low enough that
    nothing computed from several of them overflows or takes for ever."""

    low: float
    high: float

    def fault(self, value: float) -> str:
        """What is wrong with a value; "" where nothing is."""
        if self.low <= value <= self.high:
            return ""
        if value <= 0 < self.low:
            return f"must be above 0, found {_grouped(value)}"
        if value < 0 == self.low:
            return f"must not be negative, found {_grouped(value)}"
        word, limit = ("least", self.low) if value < self.low else ("most", self.high)
        return f"must be at {word} {_grouped(limit)}, found {_grouped(value)}"


def _grouped(value: float) -> str:
    try:
        return f"{value:,}" if isinstance(value, int) and abs(value) < 1 << 64 else f"{value:g}"
    except OverflowError:
        return "a number of more than 300 digits"


def shown(value: object, table: str = "an object") -> str:
    """A foreign value in a message, short: it may be half the file."""
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else table
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    try:
        text = safe_terminal(repr(value))
    except ValueError:  # of int, which writes no more than some thousand digits
        return "a number with too many digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


def step(key: str) -> str:
    """A key in a path; quoted where a foreign name would be mistaken for more of the path."""
    return f".{key}" if key.isascii() and key.isidentifier() else f".{key!a}"


class Node(Struct, frozen=True):
    """A value and where it stands; `file` is "" where the path begins with its name."""

    value: Any
    path: str = "$"
    file: str = ""

    def get(self, *names: str) -> Self:
        """The first of the spellings `names` that is there."""
        node = self.find(*names)
        if node is None:
            raise self._at(None, step(names[0])).error("this key is missing")
        return node

    def find(self, *names: str) -> Self | None:
        table = self._checked(dict, "an object")
        for name in names:
            if name in table:
                return self._at(table[name], f".{name}")
        return None

    def items(self, most: int | None = None) -> Iterator[Self]:
        rows = self._checked(list, "a list")
        if most is not None and len(rows) > most:
            raise self.error(f"has {len(rows):,} entries, at most {most:,}")
        return (self._at(row, f"[{index}]") for index, row in enumerate(rows))

    def exactly(self, count: int) -> tuple[Self, ...]:
        length = len(self._checked(list, "a list"))
        if length != count:
            raise self.error(f"expected {count} entries, found {length}")
        return tuple(self.items())

    def integer(self, most: int = I63, least: int = 0) -> int:
        if type(self.value) is not int or not least <= self.value <= most:
            raise self.error(f"expected a number from {least} to {most}, found {self.shown()}")
        return self.value

    def optional(self, most: int = I63) -> int | None:
        return None if self.value is None else self.integer(most)

    def integers(self, most: int = I63) -> tuple[int, ...]:
        return tuple(node.integer(most) for node in self.items())

    def text(self) -> str:
        return str(self._checked(str, WORDS[str]))

    def texts(self) -> tuple[str, ...]:
        return tuple(node.text() for node in self.items())

    def flag(self) -> bool:
        return bool(self._checked(bool, WORDS[bool]))

    def shown(self) -> str:
        return shown(self.value)

    def error(self, message: str) -> FileError:
        if not self.file:
            return FileError(message, where=self.path)
        return FileError(f"{self.path}: {message}", where=self.file)

    def _at(self, value: Any, way: str) -> Self:
        return type(self)(value, self.path + way, self.file)

    def _checked(self, kind: type, name: str) -> Any:
        if not isinstance(self.value, kind):
            raise self.error(f"expected {name}, found {self.shown()}")
        return self.value
