"""The cores' clock over the common timer."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from npuscope.families.many_core.sim.conditions import CoreClock

STEPS = (960e6, 1152e6, 1344e6)  # 50, 60 and 70 cycles a tick


def clock(seed: int = 1) -> CoreClock:
    return CoreClock(STEPS, 100.0, Random(seed))


def test_one_step_is_a_constant_rate() -> None:
    single = CoreClock((1920e6,), 50.0, Random(0))
    assert single.cycles_at(10.0) == 1000.0
    assert single.after(10.0, 500.0) == 15.0
    assert single.after(40.0, 5000.0) == pytest.approx(90.0)  # over the end of the step


def test_after_is_the_inverse_of_cycles() -> None:
    changing = clock()
    for begin in (0.0, 3.5, 99.9, 100.0, 1234.5):
        for cycles in (0.0, 1.0, 4999.0, 50_000.0, 1e6):
            end = changing.after(begin, cycles)
            passed = changing.cycles_at(end) - changing.cycles_at(begin)
            assert passed == pytest.approx(cycles, abs=1e-6)


def test_the_clock_moves_by_one_step_at_a_time() -> None:
    changing = clock(3)
    rates = [changing.cycles_at(t + 1.0) - changing.cycles_at(t) for t in range(0, 10_000, 100)]
    assert {round(rate) for rate in rates} == {50, 60, 70}
    assert max(abs(b - a) for a, b in pairwise(rates)) < 10.01


def test_the_same_seed_gives_the_same_clock() -> None:
    one, same = clock(5).cycles_at(98_765.0), clock(5).cycles_at(98_765.0)
    assert one == same
    assert one != clock(6).cycles_at(98_765.0)


def test_asking_early_or_late_makes_no_difference() -> None:
    jumped, walked = clock(9), clock(9)
    for tick in range(0, 5000, 7):
        walked.cycles_at(float(tick))
    assert jumped.cycles_at(4999.0) == walked.cycles_at(4999.0)
