"""Looking things up in foreign JSON: every miss names the file and the JSON path."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from npuscope.errors import FileError

_MOST_BITS = 70  # the compiler writes 64-bit sizes
_MAGNITUDES = {"BYTES": 1, "KBYTES": 1 << 10, "MBYTES": 1 << 20, "GBYTES": 1 << 30}


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a foreign file with the way to it."""

    value: Any
    file: str
    path: str = "$"

    def get(self, *names: str) -> Node:
        """The first of the spellings `names` that is there."""
        node = self.find(*names)
        if node is None:
            raise self.error(f"'{names[0]}' is missing")
        return node

    def find(self, *names: str) -> Node | None:
        table = self._checked(dict, "an object")
        for name in names:
            if name in table:
                return Node(table[name], self.file, f"{self.path}.{name}")
        return None

    def items(self) -> tuple[Node, ...]:
        rows = self._checked(list, "a list")
        return tuple(Node(row, self.file, f"{self.path}[{i}]") for i, row in enumerate(rows))

    def text(self) -> str:
        return str(self._checked(str, "text"))

    def number(self) -> float:
        """A finite number; some files write it as text."""
        try:
            value = float(self.value)
        except (TypeError, ValueError, OverflowError):
            raise self.error(f"expected a number, found {self._shown()}") from None
        if not math.isfinite(value):
            raise self.error(f"{value} is not a finite number")
        return value

    def whole(self) -> int:
        """A whole number, decimal or 0x text."""
        value = self.value
        try:
            whole = int(value, 0) if isinstance(value, str) else int(value)
        except (TypeError, ValueError, OverflowError):
            raise self.error(f"expected a whole number, found {self._shown()}") from None
        if whole.bit_length() > _MOST_BITS:
            raise self.error("the number is too long")
        if whole != value and not isinstance(value, str):
            raise self.error(f"expected a whole number, found {self._shown()}")
        return whole

    def sized(self) -> int:
        """{value, magnitude} in bytes."""
        magnitude = self.find("magnitude")
        name = magnitude.text() if magnitude else "BYTES"
        if name not in _MAGNITUDES:
            known = ", ".join(_MAGNITUDES)
            raise self.error(f"unknown magnitude '{name}'; known: {known}")
        return self.get("value").whole() * _MAGNITUDES[name]

    def flag(self) -> bool:
        """true, "true" or an enumerator that ends in _ON."""
        text = str(self.value).lower()
        return text == "true" or text.endswith("_on")

    def error(self, message: str) -> FileError:
        return FileError(f"{self.path}: {message}", where=self.file)

    def _checked(self, kind: type, name: str) -> Any:
        if not isinstance(self.value, kind):
            raise self.error(f"expected {name}, found {self._shown()}")
        return self.value

    def _shown(self) -> str:
        text = repr(self.value)
        return text if len(text) <= 40 else text[:37] + "..."
