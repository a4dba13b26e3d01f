"""Counter plans: few inferences, never more than 16 counters, the vendor's passes on request."""

from __future__ import annotations

import pytest

from npuscope.boards.device import CounterOption
from npuscope.building import build
from npuscope.demo_network import demo_graph
from npuscope.profiling.passes import CounterMetric, counter_plan, engines_fit
from npuscope.program.units import Streng
from npuscope.structs import replace


def program(epoch_controller):
    return build(demo_graph(), {"epoch_controller": epoch_controller}).program


def options(plan):
    return [int(one.options) for one in plan.passes]


def test_two_passes_with_the_controller_off():
    plan = counter_plan(program=program(False))
    assert options(plan) == [0x13, 0x08]
    assert plan.inferences(batch=3) == 6


def test_three_for_a_blob_that_uses_engines_both_ways():
    """All ten engines in and out need 20 counters."""
    one = program(True)
    crowded = replace(one, epochs=tuple(_both_ways(epoch) for epoch in one.epochs))
    assert not engines_fit(crowded)
    assert options(counter_plan(program=crowded)) == [0x31, 0x41, 0x08]


def _both_ways(epoch):
    if epoch.blob is None:
        return epoch
    group = epoch.groups[0]
    engine = next(unit for unit in group.units if isinstance(unit, Streng))
    more = tuple(replace(engine, id=i, dir=way) for i in range(10) for way in (0, 1))
    return replace(epoch, groups=(replace(group, units=(*group.units, *more)), *epoch.groups[1:]))


def test_without_the_program_engines_are_counted_one_way_at_a_time():
    assert options(counter_plan()) == [0x31, 0x41, 0x08]


def test_the_vendors_own_passes():
    plan = counter_plan([CounterMetric.CYCLES], program(False), vendor_plan=True)
    assert options(plan) == [0x31, 0x51, 0x08] and plan.warm_up
    assert plan.inferences(batch=10) == 31


@pytest.mark.parametrize(
    ("metrics", "passes"),
    [
        ([], [0]),
        ([CounterMetric.CYCLES], [CounterOption.EPOCH_LEN]),
        ([CounterMetric.CACHE], [CounterOption.NPU_CACHE]),
        ([CounterMetric.BURSTS], [CounterOption.BUSIF_RW_DATA]),
        (
            [CounterMetric.BURSTS, CounterMetric.CACHE],
            [CounterOption.BUSIF_RW_DATA | CounterOption.NPU_CACHE],
        ),
        (
            [CounterMetric.CYCLES, CounterMetric.BURSTS],
            [CounterOption.EPOCH_LEN, CounterOption.BUSIF_RW_DATA],
        ),
        ([CounterMetric.ENGINES], [CounterOption.STRG_ACTIVE | CounterOption.EPOCH_LEN]),
    ],
)
def test_only_what_is_wanted_takes_an_inference(metrics, passes):
    assert options(counter_plan(metrics, program(False))) == passes
