"""Ranges, their steps, and which tensors share them."""

from __future__ import annotations

import pytest

from npuscope.quantizing.choices import fast_zero_points, fixed_tails, shared_scales
from npuscope.quantizing.plan import ActivationRange, FloatLayer, RangePlan, tied

LAYERS = (
    FloatLayer("c1", "Conv", ("image",), ("a",), "w1"),
    FloatLayer("pool", "MaxPool", ("a",), ("b",)),
    FloatLayer("c2", "Conv", ("b",), ("c",), "w2"),
    FloatLayer("join", "Concat", ("b", "c"), ("d",)),
    FloatLayer("c3", "Conv", ("d",), ("e",), "w3"),
    FloatLayer("tail", "Sigmoid", ("e",), ("f",)),
)
RANGES = {
    "image": ActivationRange(-1.0, 3.0),
    "a": ActivationRange(0.0, 4.0),
    "b": ActivationRange(0.0, 4.0),
    "c": ActivationRange(-2.0, 2.1),
    "d": ActivationRange(-2.0, 4.0),
    "e": ActivationRange(-5.0, 5.0),
    "f": ActivationRange(0.1, 0.9),
}
PLAN = RangePlan("minmax", RANGES)


@pytest.mark.parametrize(
    ("low", "high", "scale", "zero"),
    [
        (0.0, 255.0, 1.0, -128),
        (-128.0, 127.0, 1.0, 0),
        (-1.0, 3.0, 4 / 255, -64),
        (2.0, 5.1, 0.02, -128),
        (-5.1, -2.0, 0.02, 127),
    ],
)
def test_steps_of_a_range_hold_zero(low: float, high: float, scale: float, zero: int) -> None:
    found = ActivationRange(low, high)
    assert (found.scale, found.zero_point) == (pytest.approx(scale, rel=1e-6), zero)


def test_a_range_of_nothing_has_a_scale() -> None:
    assert ActivationRange(0.0, 0.0).scale > 0
    assert ActivationRange(0.0, 0.0).zero_point == -128


def test_a_centred_range_covers_the_old_one_with_zero_point_0() -> None:
    for old in (
        ActivationRange(-1.0, 3.0),
        ActivationRange(-3.0, 1.0),
        ActivationRange(-0.375, 6.0),
    ):
        new = old.centred()
        assert new.zero_point == 0
        assert new.low <= old.low and new.high >= old.high - 1e-9
        assert max(new.low / old.low, 1) == pytest.approx(max(new.low / old.low, 1))
        assert min(abs(new.low - old.low), abs(new.high - old.high)) < 1e-9  # no wider than needed


def test_lost_bits_run_from_none_to_one() -> None:
    assert ActivationRange(-1.0, 1.0).lost_bits == 0
    assert ActivationRange(0.0, 1.0).lost_bits == 1
    assert 0.5 < ActivationRange(-1.0, 3.0).lost_bits < 0.6


def test_moves_and_choices_tie_tensors() -> None:
    assert tied(LAYERS, PLAN)["a"] == ("a", "b")
    chosen = PLAN.with_ranges({}, (("c", "d"), ("b", "d")))
    assert tied(LAYERS, chosen)["c"] == ("a", "b", "c", "d")
    assert tied(LAYERS, chosen)["e"] == ("e",)


def test_a_join_in_one_range_covers_all_parts() -> None:
    (part,) = shared_scales(PLAN, LAYERS, "Concat")
    found = part(PLAN).ranges
    assert {found[name] for name in "abcd"} == {ActivationRange(-2.0, 4.0)}
    assert found["e"] == RANGES["e"]
    assert shared_scales(part(PLAN), LAYERS, "Concat") == []  # nothing is left to do


def test_the_tail_gets_the_range_it_can_have() -> None:
    (part,) = fixed_tails(PLAN, LAYERS)
    tail = part(PLAN).ranges["f"]
    assert (tail.scale, tail.zero_point) == (1 / 256, -128)
    assert fixed_tails(part(PLAN), LAYERS) == []


def test_zero_points_come_in_the_order_of_what_they_gain_for_what_they_lose() -> None:
    parts = fast_zero_points(PLAN, LAYERS, {"c1": 0.1, "c3": 0.05})
    found = [{n for n, r in part(PLAN).ranges.items() if r != RANGES[n]} for part in parts]
    assert found == [{"image"}, {"d"}]  # a and b start at zero: they are fast already
    assert all(r.is_fast for n, r in parts[0](PLAN).ranges.items() if n == "image")


def test_a_zero_point_moves_for_all_that_are_tied() -> None:
    (join,) = shared_scales(PLAN, LAYERS, "Concat")
    plan = join(PLAN)
    parts = fast_zero_points(plan, LAYERS, {})
    moved = parts[0](plan)
    assert {moved.ranges[name].zero_point for name in "abcd"} == {0}
    assert len({moved.ranges[name] for name in "abcd"}) == 1
