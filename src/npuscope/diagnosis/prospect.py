"""What a look would leave of the causes, and how certain each would be."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.evidence import SeenDigest, SeenMarker, SeenValues, proof_bits
from npuscope.diagnosis.fault import BoardFault
from npuscope.diagnosis.result import MOST_CHANCE
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.search import Search
from npuscope.diagnosis.sights import Array, Sight, SightView
from npuscope.diagnosis.trial import FaultTrial, frees, weighed


class LookOutcome(Struct, frozen=True):
    """Causes that stay together, the bits of each that count and those that are held, and whether
    what it starts from is known to be right."""

    groups: list[list[int]]
    bits: list[int]
    held: list[int]
    free: list[bool]


class Prospect:
    """What an observation would show of each suspect: its bytes, and how much they weigh."""

    def __init__(self, search: Search, scene: BoardScene, trials: Sequence[FaultTrial]) -> None:
        self._search = search
        self._scene = scene
        self._trials = trials
        self._seen = {
            (one.sight.name, np.ascontiguousarray(one.values).tobytes())
            for one in search.evidence.seen
            if isinstance(one, SeenValues)
        }
        self.groups: list[list[int]] = [list(range(len(trials)))]
        self._bits = [trial.bits for trial in trials]
        self._held = [trial.held_bits for trial in trials]
        self._free = [search.is_free(trial.fault) for trial in trials]
        self._tries = [search.tries(trial) for trial in trials]

    @property
    def is_settled(self) -> bool:
        return self.singles(self.groups, self._bits) == len(self._trials)

    def singles(self, groups: list[list[int]], bits: Sequence[int]) -> int:
        """Causes that would be certain: alone, and no match by chance."""
        alone = [group[0] for group in groups if len(group) == 1]
        return sum(self._tries[n] <= MOST_CHANCE * 2.0 ** min(bits[n], 1000) for n in alone)

    def marks(self, sights: Sequence[Sight]) -> tuple[list[bytes], list[int], list[bool]]:
        """Causes with the same bytes are not told apart; what each gains in bits, and whether it
        shows that what it starts from is right."""
        right = [self._scene.predict(sight) for sight in sights]
        marks, gains, shown = [], [], []
        for trial in self._trials:
            values = [self._scene.predict(sight, trial.fault) for sight in sights]
            parts = [b"-" if v is None else np.ascontiguousarray(v).tobytes() for v in values]
            marks.append(b"|".join(parts))
            seen, gain = set(self._seen), 0
            for sight, part, one, other in zip(sights, parts, values, right, strict=True):
                if one is not None and other is not None and (sight.name, part) not in seen:
                    gain += _gain(sight, one, other)
                    seen.add((sight.name, part))
            gains.append(gain)
            shown.append(_shows(trial.fault, sights, values, right))
        return marks, gains, shown

    def after(self, sights: Sequence[Sight]) -> LookOutcome:
        marks, gains, shown = self.marks(sights)
        free = [was or now for was, now in zip(self._free, shown, strict=True)]
        rows = []
        for number, trial in enumerate(self._trials):
            bits, held = self._bits[number] + gains[number], self._held[number]
            if trial.fault.deadens or free[number]:
                bits, held = bits + held, 0
            if trial.fault.deadens:
                bits, held = weighed(trial.fault, bits, 0, free[number])
            rows.append((bits, held))
        return LookOutcome(
            _parted(self.groups, marks), [row[0] for row in rows], [row[1] for row in rows], free
        )

    def take(self, outcome: LookOutcome) -> None:
        self.groups, self._free = outcome.groups, outcome.free
        self._bits, self._held = outcome.bits, outcome.held

    def worth(self, outcome: LookOutcome) -> tuple[int, int, float]:
        """Causes that are certain, groups, and the way of single causes to be certain."""
        alone = [group[0] for group in outcome.groups if len(group) == 1]
        needed = [math.log2(max(1, self._tries[n]) / MOST_CHANCE) for n in alone]
        way = sum(min(outcome.bits[n], most) for n, most in zip(alone, needed, strict=True))
        return self.singles(outcome.groups, outcome.bits), len(outcome.groups), way

    @property
    def state(self) -> LookOutcome:
        return LookOutcome(self.groups, self._bits, self._held, self._free)


def _shows(
    fault: BoardFault,
    sights: Sequence[Sight],
    values: Sequence[Array | None],
    right: Sequence[Array | None],
) -> bool:
    """Would one of these values be right, and free the fault's bits?"""
    return any(
        one is not None and other is not None and np.array_equal(one, other)
        for sight, one, other in zip(sights, values, right, strict=True)
        if one is not None and frees(fault, sight, one)
    )


def _gain(sight: Sight, values: Array, right: Array) -> int:
    """Bits by which the sight would confirm a cause that shows in it."""
    differing = int((values != right).sum()) if values.shape == right.shape else 0
    if not differing or sight.view is SightView.FLASH_WORD:
        return int(differing > 0)
    if sight.view in (SightView.WEIGHTS, SightView.INPUT):  # by a checksum
        return proof_bits(SeenDigest(sight, "00000000"), 1)
    if sight.view is SightView.MARKER:
        return proof_bits(SeenMarker(frozenset()), 1)
    return proof_bits(SeenValues(sight, values), differing)


def _parted(groups: list[list[int]], marks: list[bytes]) -> list[list[int]]:
    result = []
    for group in groups:
        parts: dict[bytes, list[int]] = {}
        for number in group:
            parts.setdefault(marks[number], []).append(number)
        result += list(parts.values())
    return result
