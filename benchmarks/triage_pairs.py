"""Two faults at once, for the judge of `triage`: what its answers say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from triage_board import Board, Kind

from npuscope.diagnosis.result import Triage, TriageVerdict

LOOKS = 2
NAMED, ONE, UNEXPLAINED = "named", "one of the two", "not one cause"


def pairs_of(kinds: list[Kind], seed: int) -> Iterator[Kind]:
    """Two kinds of different places, installed one after the other."""
    random = np.random.default_rng(seed)
    inner = [kind for kind in kinds if kind.where in ("input", "weights", "memory")]
    outer = [kind for kind in kinds if kind.where == "output"]
    for first in inner:
        second = outer[int(random.integers(len(outer)))]

        def install(
            board: Board, random: np.random.Generator, a: Kind = first, b: Kind = second
        ) -> str:
            return f"{a.install(board, random)}; {b.install(board, random)}"

        name = f"{first.name} + {second.name}"
        yield Kind(name, first.where, install, first.causes, (first, second))


def told_of_two(
    shown: Sequence[Kind], result: Triage, look: Callable[[str], Triage | None]
) -> tuple[str, ...]:
    """What the first answer says, and those after a look each."""
    told = [_told(shown, result)]
    while len(told) <= LOOKS and told[-1] != NAMED and result.next_looks:
        after = look(result.next_looks[0].id)
        if after is None:
            break
        result = after
        told.append(_told(shown, result))
    return tuple(told)


def _told(shown: Sequence[Kind], result: Triage) -> str:
    """Does the first class name all of the faults that show, in one suspect?"""
    suspects = result.classes[0].suspects if result.classes else ()
    hits = [sum(bool({*one.id.split("+")} & {*part.causes}) for part in shown) for one in suspects]
    if result.verdict is TriageVerdict.NO_FAULT:
        return "no fault visible"
    if hits and max(hits):
        return NAMED if max(hits) == len(shown) else ONE
    if not hits:
        return UNEXPLAINED
    return "wrong, certain" if result.verdict is TriageVerdict.REPRODUCED else "wrong, perhaps"


def two_lines(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Of what was told, after each look."""
    for looks in range(LOOKS + 1) if rows else ():
        counts = Counter(told[: looks + 1][-1] for told in rows)
        yield f"  two faults, {looks} looks: {dict(counts.most_common())}"
