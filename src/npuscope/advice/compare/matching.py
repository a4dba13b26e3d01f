"""Which epochs of two runs belong together: those that share a source op, directly or not.

Epoch numbers mean nothing across builds. An epoch may cover several source ops and a source op
several epochs, so a row is a connected component: the finest partition that both sides keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from npuscope.advice.compare.anchors import places
from npuscope.advice.compare.model import Row
from npuscope.advice.reasons import plain
from npuscope.profile.model import EpochProfile

_Key = tuple[str, ...]
_Member = tuple[int, EpochProfile]  # side, epoch


class _Sets:
    """Disjoint sets of keys (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[_Key, _Key] = {}

    def find(self, key: _Key) -> _Key:
        self._parent.setdefault(key, key)
        while self._parent[key] != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key

    def join(self, keys: Iterable[_Key]) -> None:
        first, *others = (self.find(key) for key in keys)
        for other in others:
            self._parent[self.find(other)] = self.find(first)


def match(
    a: tuple[EpochProfile, ...], b: tuple[EpochProfile, ...], same_model: bool = False
) -> tuple[Row, ...]:
    """Rows in the order of their first epoch. Builds of one model without a common name are
    matched by the work of their epochs."""
    if same_model and not has_common_name(a, b):
        x, y = places(a, b)
        return _rows([*_placed(a, 0, x), *_placed(b, 1, y)])
    return _rows([*_keyed(a, 0), *_keyed(b, 1)])


def _rows(keyed: list[tuple[_Member, list[_Key]]]) -> tuple[Row, ...]:
    sets = _Sets()
    for _, keys in keyed:
        sets.join(keys)
    groups: dict[_Key, list[_Member]] = {}
    for member, keys in keyed:
        groups.setdefault(sets.find(keys[0]), []).append(member)
    return tuple(map(_row, groups.values()))


def has_common_op(rows: Iterable[Row]) -> bool:
    return any(row.a and row.b for row in rows)


def has_common_name(a: Iterable[EpochProfile], b: Iterable[EpochProfile]) -> bool:
    x, y = ({plain(name) for e in run for name in e.origin} for run in (a, b))
    return bool(x & y) or not (x and y)


def _keyed(run: tuple[EpochProfile, ...], side: int) -> Iterator[tuple[_Member, list[_Key]]]:
    """Source ops in plain spelling. An epoch without any is the n-th with its operators: all that
    remains to know it by, and what compilers put in themselves comes in the same order."""
    counted: dict[_Key, int] = {}
    for epoch in run:
        if epoch.origin:
            yield (side, epoch), [("op", plain(name)) for name in epoch.origin]
            continue
        kind = ("operators", *epoch.operators)
        counted[kind] = counted.get(kind, 0) + 1
        yield (side, epoch), [(*kind, str(counted[kind]))]


def _placed(
    run: tuple[EpochProfile, ...], side: int, found: dict[int, str]
) -> Iterator[tuple[_Member, list[_Key]]]:
    """By place; pieces of one op stay together, wherever they lie."""
    for epoch in run:
        own: list[_Key] = [("side", str(side), plain(name)) for name in epoch.origin]
        yield (side, epoch), [("place", found[epoch.index]), *own]


def _row(members: list[_Member]) -> Row:
    a = tuple(epoch for side, epoch in members if side == 0)
    b = tuple(epoch for side, epoch in members if side == 1)
    spelled: dict[str, str] = {}
    for epoch in (*a, *b):
        for name in epoch.origin:
            spelled.setdefault(plain(name), name)
    operators = dict.fromkeys(name for epoch in (*a, *b) for name in epoch.operators)
    return Row(tuple(spelled.values()), tuple(operators), a, b)
