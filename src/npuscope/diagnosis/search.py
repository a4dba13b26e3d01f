"""Tries causes one by one against the simulation, and keeps those that reproduce the evidence."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import groupby, islice, pairwise

from msgspec import Struct

from npuscope.diagnosis.causes.registry import Cause, CauseKind, all_causes
from npuscope.diagnosis.evidence import Evidence, Fit
from npuscope.diagnosis.fault import Fault, both
from npuscope.diagnosis.scene import Scene
from npuscope.progress import progress

BUDGET_S = 40.0
_ROUNDS_OF = (1, 3, 44)  # faults of each cause in the first rounds
_BEST = 3  # places on a cause's axis that are looked at more closely
_ROUNDS = 5
_PAIR_FROM = 6  # the nearest single faults, for two at once


class Trial(Struct, frozen=True):
    """A fault with how it fits: `explains` counts pieces of evidence that a right board fails."""

    cause: Cause
    fault: Fault
    fit: Fit
    explains: int
    contradicted: bool

    def reproduces(self, tolerant: bool) -> bool:
        return not self.contradicted and self.explains > 0 and self.fit.holds(tolerant)


class Search:
    """One search: `tolerant` where a step of difference is no evidence."""

    def __init__(
        self, scene: Scene, evidence: Evidence, tolerant: bool, budget_s: float = BUDGET_S
    ) -> None:
        self.scene = scene
        self.evidence = evidence
        self.tolerant = tolerant
        self.right = evidence.fits(scene)
        self.trials: list[Trial] = []
        self.not_tried: list[str] = []
        self._ends = time.process_time() + budget_s

    @property
    def total(self) -> Fit:
        """How a right board fits."""
        return sum((fit for fit in self.right if fit is not None), Fit())

    @property
    def sees_no_fault(self) -> bool:
        known = [fit for fit in self.right if fit is not None]
        return bool(known) and all(fit.holds(self.tolerant) for fit in known)

    def run(self, causes: Iterable[Cause] | None = None) -> list[Trial]:
        """Those that reproduce the evidence, exact ones first."""
        rows = tuple(all_causes() if causes is None else causes)
        rest = [(cause, self._faults(cause)) for cause in rows]
        # What only misreads the outputs needs no run. Then the first of every cause come before the
        # rest of any: a large network has little time.
        for cause, faults in rest:
            if cause.kind is CauseKind.OUTPUT:
                self._try(cause, islice(faults, sum(_ROUNDS_OF)))
        for count in _ROUNDS_OF:
            for cause, faults in rest:
                progress("trying: %s", cause.title)
                self._try(cause, islice(faults, count))
        missed = not self.matches
        for cause, faults in rest:
            if missed:
                self._try(cause, faults)
            if missed or self._promises(cause):
                self._closer(cause)
        if not self.matches:
            self._pairs()
        return self.matches

    def _faults(self, cause: Cause) -> Iterator[Fault]:
        return iter(self.scene.faults(cause.id, lambda: cause.faults(self.scene)))

    @property
    def matches(self) -> list[Trial]:
        found = [trial for trial in self.trials if trial.reproduces(self.tolerant)]
        return sorted(found, key=lambda t: (not t.fit.exact, -t.fit.equal, -t.cause.often))

    def nearest(self) -> list[Trial]:
        """What comes closest, the best of each cause, where it is closer than a right board."""
        best: dict[str, Trial] = {}
        for trial in sorted(self.trials, key=lambda trial: trial.fit.distance):
            if trial.explains >= 0 and trial.fit.compared:
                best.setdefault(trial.cause.id, trial)
        return [trial for trial in best.values() if trial.fit.distance < self.total.distance]

    def _try(self, cause: Cause, faults: Iterable[Fault]) -> None:
        for fault in faults:
            if time.process_time() > self._ends:
                if cause.id not in self.not_tried:
                    self.not_tried.append(cause.id)
                return
            self.trials.append(self.trial(cause, fault))

    def trial(self, cause: Cause, fault: Fault) -> Trial:
        """Stops at the first piece that contradicts it; its distance is of what was compared."""
        total, explains = Fit(), 0
        for one, right in zip(self.evidence.seen, self.right, strict=True):
            fit = one.fit(self.scene, fault)
            if fit is None:
                continue
            total += fit
            if not fit.holds(self.tolerant):
                return Trial(cause, fault, total, explains, contradicted=True)
            if right is not None and not right.holds(self.tolerant):
                explains += 1
        return Trial(cause, fault, total, explains, contradicted=False)

    def _closer(self, cause: Cause) -> None:
        """Along the axis of a cause, around the places that came nearest."""
        if cause.near is None:
            return
        mine = [t for t in self.trials if t.cause is cause and t.fault.parameter is not None]
        places = sorted({t.fault.parameter or 0.0 for t in mine})
        if len(places) < 2:
            return
        width = max(b - a for a, b in pairwise(places))
        best = sorted(mine, key=lambda t: t.fit.distance)[: 2 * _BEST]
        centres = list(dict.fromkeys(t.fault.parameter or 0.0 for t in best))[:_BEST]
        for _ in range(_ROUNDS):
            before = len(self.trials)
            for centre in centres:
                self._try(cause, self._around(cause, centre, width))
            fresh = self.trials[before:]
            done = any(trial.reproduces(self.tolerant) for trial in fresh)
            if not fresh or done or width <= 1:
                return
            best = sorted(fresh, key=lambda t: t.fit.distance)[: 2 * _BEST]
            centres = list(dict.fromkeys(t.fault.parameter or 0.0 for t in best))[:_BEST]
            width = max(1.0, width / 8)

    def _promises(self, cause: Cause) -> bool:
        """A cause with an axis that reproduces nothing yet may do so between two places."""
        if cause.near is None or self.scene.is_slow:
            return False
        mine = (trial for trial in self.trials if trial.cause is cause)
        return not any(trial.reproduces(self.tolerant) for trial in mine)

    def _around(self, cause: Cause, centre: float, width: float) -> tuple[Fault, ...]:
        near = cause.near
        assert near is not None
        key = cause.id, round(centre), round(width)
        return self.scene.faults(key, lambda: near(self.scene, centre, width))

    def _pairs(self) -> None:
        """Two faults at once: what changes only the reading costs no run, so it is tried behind all
        others; of the rest, the nearest single ones with faults of other kinds."""
        singles = [trial for trial in self.trials if trial.fit.compared]
        readings = [t for t in singles if t.cause.kind is CauseKind.OUTPUT]
        few = [t for _, rows in groupby(readings, lambda t: t.cause.id) for t in islice(rows, 6)]
        inner = [t for t in singles if t.cause.kind is not CauseKind.OUTPUT]
        best: dict[str, Trial] = {}
        for trial in sorted(singles, key=lambda trial: trial.fit.distance):
            best.setdefault(trial.cause.id, trial)
        nearest = list(best.values())
        pairs = [(a, b) for a in inner for b in few]
        pairs += [(a, b) for a in nearest[:_PAIR_FROM] for b in nearest]
        for first, second in pairs:
            if time.process_time() > self._ends:
                return
            if first.cause.kind is not second.cause.kind:
                pair = both(first.fault, second.fault)
                self.trials.append(self.trial(paired(first.cause, second.cause), pair))


def paired(first: Cause, second: Cause) -> Cause:
    """Two causes as one."""
    return Cause(
        f"{first.id}+{second.id}",
        first.kind,
        f"Two faults at once: {first.title}. {second.title}",
        f"{first.remedy}; {second.remedy}",
        0,
        lambda scene: iter(()),
    )
