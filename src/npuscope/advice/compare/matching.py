"""Which epochs of two runs belong together: those that share a source op, directly or not.

Epoch numbers mean nothing across builds. An epoch may cover several source ops and a source op
several epochs, so a row is a connected component: the finest partition that both sides keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from npuscope.advice.compare.model import ComparedRow, Move, Side
from npuscope.advice.compare.sides import plain
from npuscope.profiling.model import EpochProfile
from npuscope.program.model import Epoch, EpochKind, Refused

# --- Matching builds of one model that share no names: by their work, in order ---
# Some compilers number the ops of their own graph and forget the model's names. What they state of
# an epoch's operations is the same for the same layers, so these epochs are anchors; what lies
# between two anchors belongs together.

_Work = tuple[str, str]


def places(
    a: Sequence[EpochProfile], b: Sequence[EpochProfile]
) -> tuple[dict[int, str], dict[int, str]]:
    """The place of every epoch of both sides, by its index; the same place is the same row."""
    matcher = SequenceMatcher(None, list(map(_work, a)), list(map(_work, b)), autojunk=False)
    x: dict[int, str] = {}
    y: dict[int, str] = {}
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        between = f"{a_from} {b_from}"
        for step, epoch in enumerate(a[a_from:a_to]):
            x[epoch.index] = f"{between} {step}" if tag == "equal" else between
        for step, epoch in enumerate(b[b_from:b_to]):
            y[epoch.index] = f"{between} {step}" if tag == "equal" else between
    return x, y


def _work(epoch: EpochProfile) -> _Work:
    """Operations where they are stated, else the last operator: the one that gives the result."""
    if epoch.claims.ops:
        return epoch.kind.value, str(epoch.claims.ops)
    return epoch.kind.value, "".join(epoch.operators[-1:])


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
) -> tuple[ComparedRow, ...]:
    """Rows in the order of their first epoch. Builds of one model without a common name are
    matched by the work of their epochs."""
    if same_model and not has_common_name(a, b):
        x, y = places(a, b)
        return _rows([*_placed(a, 0, x), *_placed(b, 1, y)])
    return _rows([*_keyed(a, 0), *_keyed(b, 1)])


def _rows(keyed: list[tuple[_Member, list[_Key]]]) -> tuple[ComparedRow, ...]:
    sets = _Sets()
    for _, keys in keyed:
        sets.join(keys)
    groups: dict[_Key, list[_Member]] = {}
    for member, keys in keyed:
        groups.setdefault(sets.find(keys[0]), []).append(member)
    return tuple(map(_row, groups.values()))


def has_common_op(rows: Iterable[ComparedRow]) -> bool:
    return any(row.a and row.b for row in rows)


def has_common_name(a: Iterable[EpochProfile], b: Iterable[EpochProfile]) -> bool:
    x, y = ({plain(name) for e in run for name in e.origin} for run in (a, b))
    return bool(x & y) or not (x and y)


def _keyed(run: tuple[EpochProfile, ...], side: int) -> Iterator[tuple[_Member, list[_Key]]]:
    """Source ops in plain spelling. An epoch without any is the n-th with its operators: all that
    remains to know it by, and what compilers put in themselves comes in the same order."""
    turns: dict[_Key, int] = {}
    for epoch in run:
        if epoch.origin:
            yield (side, epoch), [("op", plain(name)) for name in epoch.origin]
            continue
        kind = ("operators", *epoch.operators)
        turns[kind] = turns.get(kind, 0) + 1
        yield (side, epoch), [(*kind, str(turns[kind]))]


def _placed(
    run: tuple[EpochProfile, ...], side: int, names: dict[int, str]
) -> Iterator[tuple[_Member, list[_Key]]]:
    """By place; pieces of one op stay together, wherever they lie."""
    for epoch in run:
        own: list[_Key] = [("side", str(side), plain(name)) for name in epoch.origin]
        yield (side, epoch), [("place", names[epoch.index]), *own]


def _row(members: list[_Member]) -> ComparedRow:
    a = tuple(epoch for side, epoch in members if side == 0)
    b = tuple(epoch for side, epoch in members if side == 1)
    spelled: dict[str, str] = {}
    for epoch in (*a, *b):
        for name in epoch.origin:
            spelled.setdefault(plain(name), name)
    operators = dict.fromkeys(name for epoch in (*a, *b) for name in epoch.operators)
    return ComparedRow(tuple(spelled.values()), tuple(operators), a, b)


# --- Source ops that moved between NPU, library call and CPU ---

# An op in several epochs counts as where the least of it is accelerated.
_RANK = {EpochKind.HW: 0, EpochKind.HYBRID: 1, EpochKind.SW: 2, EpochKind.EMPTY: 0}


def moves_between(a: Side, b: Side) -> tuple[Move, ...]:
    """Ops that both sides have, in the order of A."""
    x, y = _places(a), _places(b)
    reasons = _reasons(a) | _reasons(b)
    names = {plain(name): name for epoch in a.profile.epochs for name in epoch.origin}
    moves = []
    for key, kind in x.items():
        if key in y and y[key] is not kind:
            why = reasons.get(key)
            rule, reason = (why.rule, why.reason) if why else ("", "")
            moves.append(Move(names[key], kind, y[key], rule, reason))
    return tuple(moves)


def moves_of(row: ComparedRow, moves: tuple[Move, ...]) -> tuple[Move, ...]:
    names = {plain(name) for name in row.ops}
    return tuple(move for move in moves if plain(move.op) in names)


def _places(side: Side) -> dict[str, EpochKind]:
    kinds: dict[str, EpochKind] = {}
    for epoch in side.profile.epochs:
        for name in map(plain, epoch.origin):
            before = kinds.get(name, EpochKind.HW)
            kinds[name] = max(before, epoch.kind, key=_RANK.__getitem__)
    return kinds


def _reasons(side: Side) -> dict[str, Refused]:
    """Why ops are off the NPU, where the lowering noted it."""
    epochs: tuple[Epoch, ...] = side.program.executed if side.program else ()
    return {plain(name): epoch.trail[0] for epoch in epochs if epoch.trail for name in epoch.origin}
