"""Levels, counters and numbers of cores, as a user gives them."""

from __future__ import annotations

import pytest

from npuscope.errors import UsageError
from npuscope.families.many_core.compiler.options import (
    RECIPES,
    CoreCompileOptions,
    pmu_of,
    stats_level,
)
from npuscope.families.many_core.layout import Pmu
from npuscope.families.many_core.machine import load_core_machine


@pytest.mark.parametrize(
    ("asked", "level"), [(0, 0), (39, 0), (40, 40), (49, 40), (50, 50), (70, 70), (1000, 100)]
)
def test_levels_are_additive(asked: int, level: int) -> None:
    found, note = stats_level(asked)
    assert found == level
    assert bool(note) == (asked not in (0, 40, 50, 70, 100))


def test_recipes_are_the_five_of_the_guide() -> None:
    assert set(RECIPES) == {"AxiRd", "AxiWr", "AxiRdWr", "KernelUtil", "HmxMacs"}
    assert all(len(events) <= 8 for events in RECIPES.values())
    assert pmu_of("HmxMacs", None) == Pmu("HmxMacs", RECIPES["HmxMacs"])


def test_events_are_hexadecimal() -> None:
    assert pmu_of(None, "3F,70,200") == Pmu("", (0x3F, 0x70, 0x200))
    assert pmu_of(None, "0x3f") == Pmu("", (0x3F,))
    assert pmu_of(None, None) == Pmu()


@pytest.mark.parametrize(
    ("recipe", "events", "text"),
    [
        ("AxiRd", "3F", "a recipe and single events exclude each other"),
        ("axird", None, "unknown recipe 'axird'"),
        (None, "1,2,3,4,5,6,7,8,9", "9 events: there are 8 counters"),
        (None, "3F,G0", "expected hexadecimal numbers such as 3F,70,200, found 'G0'"),
        (None, "", "expected hexadecimal numbers"),
        (None, "-1", "expected hexadecimal numbers"),
        (None, "400", "event 400 is above 3FF"),
        (None, "3,3", "an event is named twice"),
    ],
)
def test_wrong_counters_are_refused(recipe: str | None, events: str | None, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        pmu_of(recipe, events)
    assert caught.value.message.startswith(text)


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (CoreCompileOptions(cores=0), "-aic-num-cores"),
        (CoreCompileOptions(cores=17), "-aic-num-cores"),
        (CoreCompileOptions(devices=17), "--devices"),
        (CoreCompileOptions(stats_batch=0), "-stats-batchsize"),
        (CoreCompileOptions(stats_level=-1), "-stats-level"),
        (CoreCompileOptions(stats_level=30, ddr_stats=True), "-ddr-stats"),
        (CoreCompileOptions(stats_level=0, pmu=Pmu("", (3,))), "-aic-pmu-events"),
    ],
)
def test_options_are_checked_against_the_machine(options: CoreCompileOptions, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.check(load_core_machine())
    assert caught.value.where == where
