"""Source ops that run elsewhere: on the NPU, through a library call, on the CPU."""

from __future__ import annotations

from npuscope.advice.compare.model import Move, Row, Side
from npuscope.advice.reasons import plain
from npuscope.program.model import Epoch, EpochKind, Refused

# An op in several epochs counts as where the least of it is accelerated.
_RANK = {EpochKind.HW: 0, EpochKind.HYBRID: 1, EpochKind.SW: 2, EpochKind.EMPTY: 0}


def moves_between(a: Side, b: Side) -> tuple[Move, ...]:
    """Ops that both sides have, in the order of A."""
    x, y = _places(a), _places(b)
    reasons = _reasons(a) | _reasons(b)
    names = {plain(name): name for name in _names(a)}
    found = []
    for key, kind in x.items():
        if key in y and y[key] is not kind:
            why = reasons.get(key)
            rule, reason = (why.rule, why.reason) if why else ("", "")
            found.append(Move(names[key], kind, y[key], rule, reason))
    return tuple(found)


def moves_of(row: Row, moves: tuple[Move, ...]) -> tuple[Move, ...]:
    names = {plain(name) for name in row.ops}
    return tuple(move for move in moves if plain(move.op) in names)


def _names(side: Side) -> list[str]:
    return [name for epoch in side.profile.epochs for name in epoch.origin]


def _places(side: Side) -> dict[str, EpochKind]:
    found: dict[str, EpochKind] = {}
    for epoch in side.profile.epochs:
        for name in map(plain, epoch.origin):
            known = found.get(name, EpochKind.HW)
            found[name] = max(known, epoch.kind, key=_RANK.__getitem__)
    return found


def _reasons(side: Side) -> dict[str, Refused]:
    """Why ops are off the NPU, where the lowering noted it."""
    epochs: tuple[Epoch, ...] = side.program.executed if side.program else ()
    return {plain(name): epoch.trail[0] for epoch in epochs if epoch.trail for name in epoch.origin}
