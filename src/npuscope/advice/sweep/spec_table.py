"""A table of the sweep file, read key by key; whatever nobody asked for is an error."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from npuscope.errors import FileError
from npuscope.text import safe_terminal

T = TypeVar("T", str, bool, int)
_NAMES = {str: "text", bool: "true or false", int: "a whole number"}


class SpecTable:
    """One table with its place in the file, e.g. `pools[1]`."""

    def __init__(self, rows: object, file: str, known: tuple[str, ...], place: str = "") -> None:
        self.file = file
        self.place = place
        if not isinstance(rows, dict):
            raise self.error("", f"expected a table, found {shown(rows)}")
        self._rows: dict[str, Any] = rows
        for key in rows:
            if key not in known:
                raise self._unknown(key, known)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def get(self, key: str) -> Any:
        return self._rows.get(key)

    def value(self, key: str, kind: type[T]) -> T | None:
        """A single value, None where the file has none."""
        if key not in self._rows:
            return None
        return self._typed(key, self._rows[key], kind)

    def values(self, key: str, kind: type[T]) -> tuple[T, ...]:
        """A list of values, or one value alone; empty where the file has none."""
        if key not in self._rows:
            return ()
        found = self._rows[key]
        listed = found if isinstance(found, list) else [found]
        if not listed:
            raise self.error(key, "the list is empty", "leave the key out for the default")
        typed = tuple(self._typed(key, value, kind) for value in listed)
        return tuple(dict.fromkeys(typed))

    def tables(self, key: str, known: tuple[str, ...]) -> tuple[SpecTable, ...]:
        """The tables [[key]]; empty where the file has none."""
        found = self._rows.get(key, [])
        if not isinstance(found, list):
            raise self.error(key, f"expected tables [[{key}]], found {shown(found)}")
        places = (f"{key}[{index}]" for index in range(len(found)))
        return tuple(
            SpecTable(rows, self.file, known, place)
            for rows, place in zip(found, places, strict=True)
        )

    def overrides(self, key: str) -> dict[str, object]:
        """What-if values by dotted path; `a.b = 1` and `"a.b" = 1` mean the same."""
        found = self._rows.get(key, {})
        if not isinstance(found, dict):
            raise self.error(key, f"expected a table of what-if values, found {shown(found)}")
        return dict(_dotted(found))

    def error(self, key: str, message: str, hint: str = "") -> FileError:
        path = ".".join(part for part in (self.place, key) if part)
        return FileError(message, where=f"{self.file}: {path}" if path else self.file, hint=hint)

    def _typed(self, key: str, value: object, kind: type[T]) -> T:
        if type(value) is not kind:  # a switch is no number
            raise self.error(key, f"expected {_NAMES[kind]}, found {shown(value)}")
        return value

    def _unknown(self, key: str, known: tuple[str, ...]) -> FileError:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        return self.error("", f"unknown key '{safe_terminal(key)}'", hint)


def _dotted(table: Mapping[str, Any], above: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in table.items():
        path = f"{above}{key}"
        found += _dotted(value, f"{path}.") if isinstance(value, dict) else [(path, value)]
    return found


def shown(value: object) -> str:
    text = safe_terminal(str(value).lower() if isinstance(value, bool) else repr(value))
    return text if len(text) <= 40 else f"{text[:37]}..."
