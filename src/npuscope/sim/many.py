"""One law on many machines at once: a machine whose numbers are arrays, one place per machine.

The timing law is written for single numbers, with choices between them. Here it runs as it stands:
an operation works on all machines together, and where a choice comes out differently, the machines
are parted and the law runs once for each part. Results are those of one machine after the other, to
the last bit: the same operations on the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

Array = np.ndarray
T = TypeVar("T")
R = TypeVar("R", bound=tuple[Any, ...])


class PartedError(Exception):
    """The machines do not agree: `mask` are those for which a comparison holds."""

    def __init__(self, mask: Array) -> None:
        self.mask = mask


class Many:
    """A number of each machine. Comparisons give one answer for all, or part them."""

    __slots__ = ("values",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Array) -> None:
        self.values = values

    def __add__(self, other: object) -> Many:
        return Many(self.values + _plain(other))

    def __sub__(self, other: object) -> Many:
        return Many(self.values - _plain(other))

    def __rsub__(self, other: object) -> Many:
        return Many(_plain(other) - self.values)

    def __mul__(self, other: object) -> Many:
        return Many(self.values * _plain(other))

    def __truediv__(self, other: object) -> Many:
        return Many(self.values / _plain(other))

    def __rtruediv__(self, other: object) -> Many:
        return Many(_plain(other) / self.values)

    __radd__ = __add__
    __rmul__ = __mul__

    def __round__(self) -> Many:
        return Many(np.rint(self.values))

    def __lt__(self, other: object) -> bool:
        return _agreed(self.values < _plain(other))

    def __le__(self, other: object) -> bool:
        return _agreed(self.values <= _plain(other))

    def __gt__(self, other: object) -> bool:
        return _agreed(self.values > _plain(other))

    def __ge__(self, other: object) -> bool:
        return _agreed(self.values >= _plain(other))

    def __eq__(self, other: object) -> bool:
        return _agreed(self.values == _plain(other))

    def __bool__(self) -> bool:
        return _agreed(self.values != 0)


def _plain(value: Any) -> Any:
    return value.values if isinstance(value, Many) else value


def _agreed(mask: Array) -> bool:
    if mask.all():
        return True
    if not mask.any():
        return False
    raise PartedError(mask)


class Fleet(Generic[T]):
    """Records of many machines as one, with a number of each machine where they differ."""

    def __init__(self, records: Sequence[T]) -> None:
        self.count = len(records)
        self.part: Array | None = None  # the machines that are looked at, all when None
        self.record: T = self._stacked(records)

    def each(self, law: Callable[[T], R]) -> list[R]:
        """What the law gives, machine by machine."""
        by_member: dict[int, Any] = {}
        waiting = [np.arange(self.count)]
        while waiting:
            part = waiting.pop()
            self.part = part if len(part) < self.count else None
            try:
                results = law(self.record)
            except PartedError as parted:
                waiting += [part[parted.mask], part[~parted.mask]]
                continue
            columns = [_column(result, len(part)) for result in results]
            for machine, row in zip(part.tolist(), zip(*columns, strict=True), strict=True):
                by_member[machine] = row
        self.part = None
        return [by_member[machine] for machine in range(self.count)]

    def _stacked(self, values: Sequence[Any]) -> Any:
        """Equal values as one; numbers that differ become those of the fleet."""
        first = values[0]
        if all(value is first for value in values):
            return first
        if isinstance(first, Struct):
            fields = zip(*map(astuple, values), strict=True)
            return type(first)(*map(self._stacked, fields))
        if isinstance(first, Mapping):
            return {key: self._stacked([value[key] for value in values]) for key in first}
        if isinstance(first, tuple):
            return tuple(map(self._stacked, zip(*values, strict=True)))
        if all(value == first for value in values):
            return first
        return _Own(np.array(values, np.float64), self)


class _Own(Many):
    """A number of the records themselves: of the part that is looked at."""

    __slots__ = ("fleet", "whole")

    def __init__(self, whole: Array, fleet: Fleet[Any]) -> None:
        self.whole = whole
        self.fleet = fleet

    @property
    def values(self) -> Array:  # type: ignore[override]
        part = self.fleet.part
        return self.whole if part is None else self.whole[part]


def _column(value: Any, count: int) -> list[Any]:
    if isinstance(value, Many):
        column: list[Any] = value.values.tolist()
        return column
    return [value] * count


def alike(records: Sequence[Any]) -> list[list[int]]:
    """Places of records that differ in nothing but real numbers."""
    groups: dict[tuple[object, ...], list[int]] = {}
    memo: dict[int, tuple[object, ...]] = {}  # records share most of their parts
    for place, record in enumerate(records):
        groups.setdefault(_words(record, memo), []).append(place)
    return list(groups.values())


def _words(value: Any, memo: dict[int, tuple[object, ...]]) -> tuple[object, ...]:
    """All of a record but its real numbers."""
    if isinstance(value, float):
        return ()
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, Struct):
        words: tuple[object, ...] = tuple(_words(part, memo) for part in astuple(value))
    elif isinstance(value, Mapping):
        words = tuple((key, _words(entry, memo)) for key, entry in value.items())
    elif isinstance(value, tuple):
        words = tuple(_words(entry, memo) for entry in value)
    else:
        return (value,)
    memo[id(value)] = words
    return words
