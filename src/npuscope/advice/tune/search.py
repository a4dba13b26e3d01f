"""Which points are looked at: one step on each axis, then those axes that matter: all of them, or
first what steps lead to expect on the front, what is near it, then by a search for several aims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from npuscope.advice.tune.space import Point, TuneSpace
from npuscope.installed import needs
from npuscope.progress import progress

Aims = tuple[float, ...]  # each the smaller the better
Evaluate = Callable[[Sequence[Point]], Mapping[Point, Aims | None]]  # None: it cannot be built
Propose = Callable[[Mapping[Point, Aims]], Iterable[Point]]  # points to look at, from known ones

_BATCH = 12
_SAME = 1e-9
_MOST_EXPECTED = 10_000  # points of which aims are expected before they are known


def search(space: TuneSpace, evaluate: Evaluate, most: int, seed: int) -> dict[Point, Aims]:
    """Aims of the points that were looked at, at most so many."""
    progress("%d points; one step on each axis first", space.size)
    results: dict[Point, Aims | None] = dict(evaluate(list(space.single_steps())[:most]))
    free = _axes_that_matter(space, results)
    rest = [point for point in space.points(free) if point not in results]
    if len(rest) + len(results) <= most:
        results |= evaluate(rest)
    else:
        _until_nothing_new(_expecting(space, free, results), evaluate, results, most)
        _until_nothing_new(_around(space, free), evaluate, results, most)
        if len(results) < most:
            _by_library(space, free, evaluate, results, most, seed)
    return {point: aims for point, aims in results.items() if aims is not None}


def _axes_that_matter(space: TuneSpace, results: Mapping[Point, Aims | None]) -> list[int]:
    """Those where one step changes an aim. The others are left as they are: what has no effect
    alone has hardly any with others."""
    start = results.get(space.start)
    if start is None:
        return list(range(len(space.axes)))
    changed: set[int] = set()
    for point, aims in results.items():
        differs = aims is not None and any(
            abs(a - b) > _SAME for a, b in zip(aims, start, strict=True)
        )
        if differs:
            changed.update(number for number, place in enumerate(point) if place)
    return sorted(changed)


def _expecting(
    space: TuneSpace, free: Sequence[int], results: Mapping[Point, Aims | None]
) -> Propose:
    """Points that would be on the front if steps on different axes added up, from the nearest
    point that is known."""
    start = results.get(space.start)
    if start is None:
        return lambda known: []
    effects = {
        (number, place): np.subtract(aims, start)
        for point, aims in results.items()
        if aims is not None
        for number, place in enumerate(point)
        if place
    }
    rest = list(islice((p for p in space.points(free) if p not in results), _MOST_EXPECTED))
    none = np.zeros(len(start))

    def added(point: Point) -> Any:
        return sum((effects.get(step, none) for step in enumerate(point)), none)

    total = {point: added(point) for point in rest}

    def propose(known: Mapping[Point, Aims]) -> Iterable[Point]:
        places, aims = np.array(list(known)), np.array(list(known.values()))
        sums = np.array([added(point) for point in known])
        expected = dict(known)
        for point in rest:
            if point not in results:  # it grows; a point that cannot be built is no hope either
                nearest = int((places != np.array(point)).sum(axis=1).argmin())
                expected[point] = tuple(aims[nearest] + total[point] - sums[nearest])
        return front(expected)

    return propose


def _around(space: TuneSpace, free: Sequence[int]) -> Propose:
    """One step on each axis from the points of the front: a level of optimisation may count only
    where the weights are on the chip."""
    return lambda known: (
        (*point[:number], place, *point[number + 1 :])
        for point in front(known)
        for number in free
        for place in range(len(space.axes[number].settings))
    )


def _until_nothing_new(
    propose: Propose, evaluate: Evaluate, results: dict[Point, Aims | None], most: int
) -> None:
    """Looks at what is proposed, again and again, until all of it is known."""
    while len(results) < most:
        known = {point: aims for point, aims in results.items() if aims is not None}
        fresh = [point for point in dict.fromkeys(propose(known)) if point not in results]
        if not fresh:
            return
        results |= evaluate(fresh[: min(_BATCH, most - len(results))])


def _by_library(
    space: TuneSpace,
    free: Sequence[int],
    evaluate: Evaluate,
    results: dict[Point, Aims | None],
    most: int,
    seed: int,
) -> None:
    """Optuna's NSGA-II, by asking and telling in batches; it is told what is known already."""
    needs("optuna", "optuna", "tune")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.NSGAIISampler(seed=seed, population_size=_BATCH)
    count = len(next(aims for aims in results.values() if aims is not None))
    study = optuna.create_study(directions=["minimize"] * count, sampler=sampler)
    kinds: dict[str, Any] = {
        str(number): optuna.distributions.CategoricalDistribution(
            tuple(range(len(space.axes[number].settings)))
        )
        for number in free
    }
    for point, aims in results.items():
        if aims is not None:
            params = {name: point[int(name)] for name in kinds}
            past = optuna.trial.create_trial(params=params, distributions=kinds, values=list(aims))
            study.add_trial(past)
    idle = 0
    while len(results) < most and idle < 20:
        trials = [study.ask(kinds) for _ in range(min(_BATCH, most - len(results)))]
        points = [tuple(t.params.get(str(n), 0) for n in range(len(space.axes))) for t in trials]
        fresh = [point for point in dict.fromkeys(points) if point not in results]
        idle = 0 if fresh else idle + 1
        if fresh:
            results |= evaluate(fresh)
        for trial, point in zip(trials, points, strict=True):
            aims = results[point]
            state = optuna.trial.TrialState.FAIL if aims is None else None
            study.tell(trial, None if aims is None else list(aims), state=state)


def front(aims: Mapping[Point, Aims]) -> list[Point]:
    """Points that no other beats in every aim; of equal ones the first."""
    result: list[Point] = []
    for point, own in sorted(aims.items(), key=lambda item: (item[1], item[0])):
        beaten = any(
            all(b <= a + _SAME for a, b in zip(own, aims[other], strict=True)) for other in result
        )
        if not beaten:
            result.append(point)
    return result
