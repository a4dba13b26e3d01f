"""JSON of foreign containers, value by value: a wrong value is named by its path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from npuscope.errors import FileError
from npuscope.text import safe_terminal

# JSON has no widths: every number is checked against the type that it is stored in.
U64 = (1 << 64) - 1
I63 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands."""

    value: Any
    path: str

    def key(self, name: str) -> Node:
        if not isinstance(self.value, dict) or name not in self.value:
            raise self.fault(f"has no '{name}'")
        return Node(self.value[name], f"{self.path}.{name}")

    def items(self, most: int | None = None) -> Iterator[Node]:
        if not isinstance(self.value, list):
            raise self.fault("is not a list")
        if most is not None and len(self.value) > most:
            raise self.fault(f"has {len(self.value):,} entries, at most {most:,}")
        return (Node(entry, f"{self.path}[{i}]") for i, entry in enumerate(self.value))

    def number(self, most: int = I63, least: int = 0) -> int:
        if type(self.value) is not int or not least <= self.value <= most:
            raise self.fault(f"is {self.shown()}, expected a number from {least} to {most}")
        return self.value

    def optional(self, most: int = I63) -> int | None:
        return None if self.value is None else self.number(most)

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.fault(f"is {self.shown()}, expected a text")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.fault(f"is {self.shown()}, expected true or false")
        return self.value

    def texts(self) -> tuple[str, ...]:
        return tuple(node.text() for node in self.items())

    def numbers(self, most: int = I63) -> tuple[int, ...]:
        return tuple(node.number(most) for node in self.items())

    def shown(self) -> str:
        return safe_terminal(repr(self.value)[:40])

    def fault(self, what: str) -> FileError:
        return FileError(what, where=self.path)


def parse(data: bytes, segment: str) -> Node:
    """A segment's JSON."""
    try:
        return Node(orjson.loads(data), segment)
    except orjson.JSONDecodeError as error:
        raise FileError(
            f"is not valid JSON: {error.msg}", where=f"{segment}, byte {error.pos}"
        ) from None


def valid_text(text: str) -> str:
    """The text as UTF-8 can hold it: names of models may have half characters in them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
