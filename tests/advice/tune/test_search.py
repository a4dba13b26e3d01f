"""Points that are looked at: the front of a large space from a tenth of it."""

from __future__ import annotations

from itertools import product

import pytest

from npuscope.advice.tune.run import limits_of
from npuscope.advice.tune.search import front, search
from npuscope.advice.tune.space import Axis, AxisSetting, TuneSpace
from npuscope.errors import UsageError


def space_of(*sizes: int) -> TuneSpace:
    return TuneSpace(
        tuple(
            Axis(f"axis {n}", tuple(AxisSetting(f"{n}.{place}") for place in range(size)))
            for n, size in enumerate(sizes)
        )
    )


SIZES = (3, 5, 2, 3, 2, 2, 2, 2, 2, 2)  # 5,760 points


def aims_of(point: tuple[int, ...]) -> tuple[float, ...]:
    """Time and memory as compilers give them: most axes matter a little, some together, four not
    at all."""
    generation, level, controller, memories, *edits = point
    ms = 10 - generation + 0.3 * abs(level - 1) + 2 * controller
    ram = 500 + 40 * generation + 60 * memories - 30 * edits[1]
    ms -= 1.5 * (memories == 2) + 0.7 * edits[0] + 0.4 * edits[1] * (memories > 0)
    return ms, float(ram)


def test_a_tenth_of_the_points_gives_the_whole_front() -> None:
    space = space_of(*SIZES)
    every = {point: aims_of(point) for point in product(*map(range, SIZES))}
    whole = {every[point] for point in front(every)}
    asked: list[tuple[int, ...]] = []

    def evaluate(points):
        asked.extend(points)
        return {point: aims_of(point) for point in points}

    result = search(space, evaluate, space.size // 10, 0)
    assert len(asked) == len({*asked}) == len(result) <= space.size // 10
    assert {result[point] for point in front(result)} == whole


def test_points_that_single_steps_lead_to_expect_come_first() -> None:
    sizes = (3, 5, 2, 3)  # 90 points
    space = space_of(*sizes)

    def aims(point):
        """Levels help less once the weights are on the chip."""
        generation, level, controller, memories = point
        gain = 0.2 * level * (0.5 if memories == 2 else 1)
        ms = 10 - generation - gain + 2 * controller - 3 * (memories == 2) + 0.5 * memories
        return ms, float(500 + 40 * generation + 7 * level + 90 * memories)

    every = {point: aims(point) for point in product(*map(range, sizes))}
    result = search(space, lambda points: {p: aims(p) for p in points}, 45, 0)
    assert {result[p] for p in front(result)} == {every[p] for p in front(every)}


def test_a_large_space_is_searched_by_the_library_and_repeats_with_its_seed() -> None:
    sizes = (4,) * 6  # 4,096 points, all axes matter
    space = space_of(*sizes)

    def aims(point):
        return float(sum(point)), float(sum((3 - place) ** 2 for place in point))

    def evaluate(points):
        return {point: aims(point) for point in points}

    first, second = (search(space, evaluate, 200, 3) for _ in range(2))
    assert first == second and len(first) <= 200
    assert (0,) * 6 in front(first) and len(front(first)) > 5


def test_points_that_cannot_be_built_are_left_out() -> None:
    space = space_of(2, 2)

    def evaluate(points):
        return {point: None if point[0] else (1.0 + point[1],) for point in points}

    assert set(search(space, evaluate, 10, 0)) == {(0, 0), (0, 1)}


def test_of_equal_points_the_first_is_on_the_front() -> None:
    assert front({(1,): (1.0, 2.0), (0,): (1.0, 2.0), (2,): (2.0, 1.0), (3,): (2.0, 2.0)}) == [
        (0,),
        (2,),
    ]


def test_limits_have_units() -> None:
    limits = limits_of(["ms=20,ram=2MiB", "drop=1%", "flash=512KiB", "external=0"])
    assert limits == {"ms": 20, "ram": 2 << 20, "drop": 0.01, "flash": 512 << 10, "external": 0}
    for words in ("ms", "speed=3", "ms=fast", "drop=2", "drop=x", "ram=1ms"):
        with pytest.raises(UsageError):
            limits_of([words])
