"""Transfers share roads: nobody gets more than is there, nothing that is there lies idle."""

from __future__ import annotations

import random

import pytest

from npuscope.families.many_core.sim.plan import Fabric, Flow


def ends(capacity: tuple[float, ...], flows: list[tuple[float, float, float, tuple[int, ...]]]):
    """(begin, bytes, cap, roads) of each flow -> when it ended."""
    fabric, found = Fabric(capacity), {}
    arrivals = sorted(enumerate(flows), key=lambda one: one[1][0])
    now = 0.0
    while arrivals or len(found) < len(flows):
        when = fabric.next_end()
        if arrivals and arrivals[0][1][0] <= when:
            number, (now, size, cap, roads) = arrivals.pop(0)
            fabric.add(now, Flow(number, size, cap, roads))
            continue
        now = when
        found.update({flow.task: now for flow in fabric.take_ended(now)})
    return [found[number] for number in range(len(flows))]


def test_alone_a_flow_has_its_own_rate() -> None:
    assert ends((100.0,), [(0, 500, 10, (0,))]) == [50.0]


def test_two_share_what_one_would_have() -> None:
    assert ends((10.0,), [(0, 100, 10, (0,)), (0, 100, 10, (0,))]) == [20.0, 20.0]


def test_who_comes_late_takes_half_from_then_on() -> None:
    # 50 bytes alone, then both at 5: the first ends at 15, the second does its last 50 alone.
    assert ends((10.0,), [(0, 100, 10, (0,)), (5, 100, 10, (0,))]) == [15.0, 20.0]


def test_what_a_slow_one_leaves_the_others_take() -> None:
    # 2 for the slow one, 4 for each of the two others.
    found = ends((10.0,), [(0, 100, 2, (0,)), (0, 80, 9, (0,)), (0, 80, 9, (0,))])
    assert found == [50.0, 20.0, 20.0]


def test_the_narrowest_road_counts() -> None:
    assert ends((10.0, 4.0), [(0, 40, 99, (0, 1)), (0, 60, 99, (0,))]) == [10.0, 10.0]


@pytest.mark.parametrize("seed", range(5))
def test_no_road_is_overfull_and_none_idle_with_work(seed: int) -> None:
    dice = random.Random(seed)
    capacity = (7.0, 11.0, 5.0)
    fabric = Fabric(capacity)
    flows = []
    for number in range(12):
        roads = tuple(sorted(dice.sample(range(3), dice.randint(1, 2))))
        flows.append(Flow(number, dice.uniform(10, 100), dice.uniform(0.5, 6), roads))
        fabric.add(float(number) / 10, flows[-1])
        used = [sum(f.rate for f in flows if road in f.resources) for road in range(3)]
        assert all(u <= c * (1 + 1e-6) for u, c in zip(used, capacity, strict=True))
        for flow in flows:
            full = any(used[road] >= capacity[road] * (1 - 1e-6) for road in flow.resources)
            assert full or flow.rate == pytest.approx(flow.cap)
