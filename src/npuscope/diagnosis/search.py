"""Tries causes one by one against the simulation, and keeps those that reproduce the evidence."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from itertools import groupby, islice, pairwise

import numpy as np

from npuscope.diagnosis.causes.registry import FaultCause, FaultPlace, all_causes
from npuscope.diagnosis.evidence import (
    BoardEvidence,
    Likeness,
    SeenDigest,
    SeenValues,
    different_bytes,
    proof_bits,
    touches,
)
from npuscope.diagnosis.fault import BoardFault, both
from npuscope.diagnosis.result import MOST_CHANCE
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.sights import SightView
from npuscope.diagnosis.trial import FaultTrial, Joint, frees, paired, weighed
from npuscope.progress import progress
from npuscope.structs import replace

BUDGET_S = 45.0
_ROUNDS_OF = (1, 3, 44)  # faults of each cause in the first rounds
_BEST = 3  # places on a cause's axis that are looked at more closely
_ROUNDS = 5
_HINTS_OF = 12  # causes that are compared with all of the evidence before one is named as a hint
_HINT_SHARE = 0.5  # of the values that differ, which a hint has to set right
_PAIR_FROM = 6  # the nearest single faults, for two at once
_RARE_OF = 48  # rare faults of each cause that are tried beside others that reproduce the evidence
_CLOSER_PAIRS = 6  # pairs of faults that came nearest, whose first one is looked at more closely
_CLOSER_OF = 4  # the nearest distances, whose causes with an axis are looked at more closely


class Search:
    """One search: `tolerant` where a step of difference is no evidence. `budget_s` is of the
    processor, `wall_s` of the clock for somebody who waits."""

    def __init__(
        self,
        scene: BoardScene,
        evidence: BoardEvidence,
        tolerant: bool,
        budget_s: float = BUDGET_S,
        wall_s: float = math.inf,
    ) -> None:
        self.scene = scene
        self.evidence = evidence
        self.tolerant = tolerant
        self._touches = touches(evidence, scene, tolerant)
        self.right = [one.right for one in self._touches]
        self.trials: list[FaultTrial] = []
        self.not_tried: dict[str, int] = {}  # faults by cause, for which there was no time
        self.left_out: dict[str, int] = {}  # the same of rare ones
        self._pairs_tried = 0
        self._joint: dict[tuple[str, int], Joint] = {}  # by the first cause and the second fault
        self._eligible: dict[tuple[str, bool, int], int] = {}  # faults that show as was seen
        self.budget_s, self.wall_s = budget_s, wall_s
        self._ends = time.process_time() + budget_s
        self._wall_ends = time.monotonic() + wall_s

    @property
    def is_over(self) -> bool:
        return self.is_late or time.process_time() > self._ends

    @property
    def is_late(self) -> bool:
        """Has somebody waited as long as they should?"""
        return time.monotonic() > self._wall_ends

    @property
    def untried(self) -> list[str]:
        """Causes of which no fault was tried, for lack of time."""
        tried = {trial.cause.id for trial in self.trials}
        return [id_ for id_ in self.not_tried if id_ not in tried]

    @property
    def total(self) -> Likeness:
        """How a right board fits."""
        return sum((fit for fit in self.right if fit is not None), Likeness())

    @property
    def sees_no_fault(self) -> bool:
        fits = [fit for fit in self.right if fit is not None]
        return bool(fits) and all(fit.holds(self.tolerant) for fit in fits)

    def wrong(self, fit: Likeness) -> int:
        """Values that are not as predicted."""
        return fit.compared - (fit.near if self.tolerant else fit.equal)

    def tries(self, trial: FaultTrial) -> int:
        """Faults that were tried of this cause, those along its axis apart from those that are not;
        pairs of causes are one search. Where few bits speak for it, only those that would show in
        what is wrong and leave what is right: the others could not have matched by chance."""
        if "+" in trial.cause.id:
            return self._pairs_tried
        searched = trial.fault.parameter is not None
        mine = [
            one.fault
            for one in self.trials
            if one.cause.id == trial.cause.id and (one.fault.parameter is not None) is searched
        ]
        if self.scene.is_costly or _chance(len(mine), trial.bits) <= MOST_CHANCE:
            return len(mine)
        key = trial.cause.id, searched, len(mine)
        if key not in self._eligible:
            self._eligible[key] = sum(map(self._shows_as_seen, mine))
        return self._eligible[key]

    def _shows_as_seen(self, fault: BoardFault) -> bool:
        """Does it show in all that is wrong, and leave what is right?"""
        for one in self._touches:
            if one.right is None:
                continue
            if one.right.holds(self.tolerant):
                fit = one.fit(self.scene, fault)
                if fit is not None and not fit.holds(self.tolerant):
                    return False
            elif isinstance(one.one, SeenValues | SeenDigest):
                is_read = one.one.sight.view is SightView.OUTPUT and fault.decode is not None
                if not is_read and self.scene.leaves(one.one.sight, fault):
                    return False
        return True

    def chance(self, trial: FaultTrial) -> float:
        """Faults of this cause that would be expected to give the same without being the one."""
        return _chance(self.tries(trial), trial.bits)

    def run(self, causes: Iterable[FaultCause] | None = None) -> list[FaultTrial]:
        """Those that reproduce the evidence, exact ones first."""
        rows = tuple(all_causes() if causes is None else causes)
        usual = [(cause, self._faults(cause, rare=False)) for cause in rows]
        rare = [(cause, self._faults(cause, rare=True)) for cause in rows]
        # What only misreads the outputs needs no run. Then the first of every cause come before the
        # rest of any: a large network has little time.
        for cause, faults in usual:
            if cause.kind is FaultPlace.OUTPUT:
                self._try(cause, islice(faults, sum(_ROUNDS_OF)))
        for count in _ROUNDS_OF:
            for cause, faults in usual:
                progress("trying: %s", cause.title)
                self._try(cause, islice(faults, count))
        for cause, faults in () if self.scene.is_costly else rare:
            self._try(cause, islice(faults, _RARE_OF))
        missed = not self.matches
        for cause, faults in usual if missed else ():
            self._try(cause, faults)
        for cause in self._axes(rows) if missed else filter(self._promises, rows):
            self._closer(cause)

        def try_rare() -> None:
            for cause, faults in rare:
                self._try(cause, faults, self.left_out)

        # Pairs mostly need runs that are there already.
        for deeper in (self._pairs, try_rare) if self.scene.is_costly else (try_rare, self._pairs):
            if not self.matches:
                deeper()
        return self.matches

    def _faults(self, cause: FaultCause, rare: bool) -> Iterator[BoardFault]:
        faults = self.scene.faults(cause.id, lambda: cause.faults(self.scene))
        return iter([fault for fault in faults if fault.rare is rare])

    def _axes(self, causes: Iterable[FaultCause]) -> list[FaultCause]:
        """Causes with an axis, the nearest first; where runs are long, those among the nearest."""
        nearest: dict[str, float] = {}
        for trial in self.trials:
            if trial.fit.compared and trial.cause.kind is not FaultPlace.OUTPUT:
                before = nearest.get(trial.cause.id, np.inf)
                nearest[trial.cause.id] = min(before, trial.fit.distance)
        order = sorted(causes, key=lambda cause: nearest.get(cause.id, np.inf))
        if self.scene.is_costly:  # those that came equally near mostly share their runs
            distances = sorted({*nearest.values()})[:_CLOSER_OF]
            order = [cause for cause in order if nearest.get(cause.id) in distances]
        return [cause for cause in order if cause.near is not None]

    @property
    def matches(self) -> list[FaultTrial]:
        trials = [t for t in self.trials if t.reproduces(self.tolerant) and not self._is_guess(t)]
        return sorted(trials, key=lambda t: (not t.fit.exact, -t.fit.equal, -t.cause.often))

    def _is_guess(self, trial: FaultTrial) -> bool:
        """Some two of many faults give any value: only what is no chance speaks for a pair."""
        return "+" in trial.cause.id and self.chance(trial) > MOST_CHANCE

    @property
    def pairs_by_chance(self) -> list[FaultTrial]:
        """Pairs of faults that give what was seen, as chance would."""
        return [t for t in self.trials if t.reproduces(self.tolerant) and self._is_guess(t)]

    def nearest(self) -> list[FaultTrial]:
        """The best fault of each cause that sets right at least half of the values that differ."""
        best: dict[str, FaultTrial] = {}
        order = sorted(
            self.trials, key=lambda t: (self.wrong(t.fit) - t.fit.touched, t.fit.distance)
        )
        for trial in order:
            by_chance = not trial.contradicted and self._is_guess(trial)
            if trial.fit.compared and not by_chance:
                best.setdefault(trial.cause.id, trial)
        whole = [self._whole(trial) for trial in list(best.values())[:_HINTS_OF]]
        most = (1 - _HINT_SHARE) * self.wrong(self.total)
        hints = [t for t in whole if t is not None and self.wrong(t.fit) <= most]
        least = min((self.wrong(t.fit) for t in hints if "+" not in t.cause.id), default=most + 1)
        # Two faults at once are worth a word only where they say more than one of them.
        hints = [t for t in hints if "+" not in t.cause.id or self.wrong(t.fit) < least]
        return sorted(hints, key=lambda trial: self.wrong(trial.fit))

    def inner_states(self) -> dict[str, bool]:
        """Buffers inside the network that were looked at: are they as on a right board?"""
        return {
            one.one.sight.name: one.right.holds(self.tolerant)
            for one in self._touches
            if isinstance(one.one, SeenValues | SeenDigest)
            and one.one.sight.view is SightView.BUFFER
            and one.right is not None
        }

    @property
    def wrong_checksums(self) -> tuple[str, ...]:
        """Pools whose weights have another checksum, and of which there is no dump."""
        return tuple(
            one.one.sight.name
            for one in self._touches
            if isinstance(one.one, SeenDigest)
            and one.one.sight.view is SightView.WEIGHTS
            and one.right is not None
            and not one.right.exact
        )

    def _whole(self, trial: FaultTrial) -> FaultTrial | None:
        """With all of the evidence; None where it contradicts what is right or wrong as a whole."""
        total = Likeness()
        for one in self._touches:
            fit = one.fit(self.scene, trial.fault)
            if fit is None:
                return None
            if not isinstance(one.one, SeenValues) and not fit.holds(self.tolerant):
                return None
            total += fit
        return replace(trial, fit=total)

    def _try(
        self,
        cause: FaultCause,
        faults: Iterable[BoardFault],
        late: dict[str, int] | None = None,
    ) -> None:
        """Those for which there is no time are counted in `late`, or in `not_tried`."""
        counts = self.not_tried if late is None else late
        for fault in faults:
            if self.is_over:
                counts[cause.id] = counts.get(cause.id, 0) + 1
            else:
                self.trials.append(self.trial(cause, fault))

    def trial(self, cause: FaultCause, fault: BoardFault) -> FaultTrial:
        """Stops at the first piece that contradicts it; its distance is of what was compared."""
        total, explains, bits, bytes_ = Likeness(), 0, 0, 0
        for one in self._touches:
            fit = one.fit(self.scene, fault)
            if fit is None:
                continue
            total += fit
            if not fit.holds(self.tolerant):
                return FaultTrial(cause, fault, total, explains, contradicted=True)
            if one.right is not None and not one.right.holds(self.tolerant):
                explains += 1
                if not one.is_repeat:
                    bits += proof_bits(one.one, fit.explained)
                    bytes_ += different_bytes(one.one, fit.explained)
        bits, held = weighed(fault, bits, bytes_, self.is_free(fault))
        return FaultTrial(cause, fault, total, explains, False, bits, held)

    def is_free(self, fault: BoardFault) -> bool:
        """Was that which the fault starts from seen to be right?"""
        rows = [
            (one.one, one.right is not None and one.right.exact)
            for one in self._touches
            if isinstance(one.one, SeenValues | SeenDigest)
            and frees(fault, one.one.sight, getattr(one.one, "values", None))
        ]
        first = [right for one, right in rows if one.sight.view is not SightView.BUFFER]
        return all(first) if first else any(right for _, right in rows)

    def _closer(self, cause: FaultCause, second: FaultTrial | None = None) -> None:
        """Along the axis of a cause, around the places that came nearest; with a second fault."""
        if cause.near is None:
            return
        tried = cause if second is None else self._both(cause, second)
        late = self.left_out if second is None else {}
        mine = [t for t in self.trials if t.cause is tried and t.fault.parameter is not None]
        places = sorted({t.fault.parameter or 0.0 for t in mine})
        if len(places) < 2:
            return
        width = max(b - a for a, b in pairwise(places))
        centres = self._centres(mine)
        for _ in range(_ROUNDS):
            before = len(self.trials)
            for centre in centres:
                near = self._around(cause, centre, width)
                if second is not None:
                    near = [both(fault, second.fault) for fault in near]
                    self._pairs_tried += len(near)
                self._try(tried, near, late)
            fresh = self.trials[before:]
            done = any(trial.reproduces(self.tolerant) for trial in fresh)
            if not fresh or done or width <= 1:
                return
            centres = self._centres(fresh)
            width = max(1.0, width / 8)

    def _centres(self, trials: list[FaultTrial]) -> list[BoardFault]:
        """The nearest faults: at different places, or where runs are long the very nearest."""
        best = [trial.fault for trial in sorted(trials, key=lambda t: t.fit.distance)]
        if self.scene.is_costly:
            return best[:1]
        return list({fault.parameter: fault for fault in best[: 2 * _BEST]}.values())[:_BEST]

    def _promises(self, cause: FaultCause) -> bool:
        """A cause with an axis that reproduces nothing yet may do so between two places."""
        if cause.near is None or self.scene.is_slow:
            return False
        mine = (trial for trial in self.trials if trial.cause is cause)
        return not any(trial.reproduces(self.tolerant) for trial in mine)

    def _around(self, cause: FaultCause, centre: BoardFault, width: float) -> list[BoardFault]:
        near, place = cause.near, centre.parameter or 0.0
        assert near is not None
        key = cause.id, round(place), round(width)
        faults = self.scene.faults(key, lambda: near(self.scene, place, width))
        alike = self.scene.is_costly
        return [fault for fault in faults if not alike or fault.variant == centre.variant]

    def _pairs(self) -> None:
        """Two faults at once: what changes only the reading costs no run, so it is tried behind all
        others; of the rest, the nearest single ones with faults of other kinds."""
        singles = [trial for trial in self.trials if trial.fit.compared]
        readings = [t for t in singles if t.cause.kind is FaultPlace.OUTPUT]
        few = [t for _, rows in groupby(readings, lambda t: t.cause.id) for t in islice(rows, 6)]
        inner = [t for t in singles if t.cause.kind is not FaultPlace.OUTPUT]
        best: dict[str, FaultTrial] = {}
        for trial in sorted(singles, key=lambda trial: trial.fit.distance):
            best.setdefault(trial.cause.id, trial)
        nearest = list(best.values())
        pairs = [(a, b) for a in inner for b in few]
        pairs += [(a, b) for a in nearest[:_PAIR_FROM] for b in nearest]
        for first, second in pairs:
            if self.is_over:
                return
            if first.cause.kind is not second.cause.kind:
                self._pairs_tried += 1
                pair = both(first.fault, second.fault)
                self.trials.append(self.trial(self._both(first.cause, second), pair))
        if not self.matches and not self.pairs_by_chance:
            self._closer_pairs()

    def _both(self, first: FaultCause, second: FaultTrial) -> FaultCause:
        """One cause with one fault behind it: its trials lie on the axis of the first."""
        key = first.id, id(second.fault)
        if key not in self._joint:
            self._joint[key] = Joint(paired(first, second.cause), first, second)
        return self._joint[key].cause

    def _closer_pairs(self) -> None:
        """Along the axis of the first of two faults, where both together came nearest."""
        nearest: dict[int, float] = {}
        for trial in self.trials:
            if "+" in trial.cause.id and trial.fault.parameter is not None:
                before = nearest.get(id(trial.cause), np.inf)
                nearest[id(trial.cause)] = min(before, trial.fit.distance)
        joints = [one for one in self._joint.values() if one.first.near is not None]
        joints = [one for one in joints if id(one.cause) in nearest]
        for one in sorted(joints, key=lambda one: nearest[id(one.cause)])[:_CLOSER_PAIRS]:
            self._closer(one.first, one.second)


def _chance(tries: int, bits: int) -> float:
    return tries * 2.0 ** -min(bits, 1000)
