"""Runs on a slow flash: which set-up explains them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from npuscope.api import build
from npuscope.demo_network import demo_graph
from npuscope.machine.load import load_machine
from npuscope.profiling.run import estimate
from npuscope.profiling.set_up_check import flash_warning
from npuscope.program.model import EpochKind
from npuscope.sim.counters import Bound

DEMO = build(demo_graph(), {})
USUAL = DEMO.machine


def run(flash: str, by: float = 1.0):
    """What a board with that flash would measure."""
    board = load_machine(overrides={"flash": flash, "mcu.clock_mhz": USUAL.clocks.mcu_mhz})
    epochs = estimate(DEMO.program, board).epochs
    return tuple(replace(epoch, ms=epoch.ms * by) for epoch in epochs)


def test_the_flash_that_was_assumed_is_not_remarked():
    assert flash_warning(DEMO.program, USUAL, run("octo-dtr-200")) == ()


def test_a_run_with_a_slower_flash_names_it():
    measured = run("octo-dtr-50")
    assert any(epoch.counters.bound is Bound.FLASH for epoch in measured)
    (text,) = flash_warning(DEMO.program, USUAL, measured)
    assert text.startswith("the run contradicts the flash that was assumed: it took ")
    assert "; --flash octo-dtr-50 gives " in text


def test_a_slow_flash_that_was_named_is_not_remarked():
    told = load_machine(overrides={"flash": "octo-dtr-50"})
    assert flash_warning(DEMO.program, told, run("octo-dtr-50")) == ()


def test_a_run_that_no_flash_explains_is_not_blamed_on_it():
    assert flash_warning(DEMO.program, USUAL, run("octo-dtr-200", by=40)) == ()


def test_totals_are_compared_where_the_device_ran_another_build():
    """Kinds of blocks that differ: their numbers say nothing."""
    measured = run("octo-dtr-50")
    index = next(i for i, epoch in enumerate(measured) if epoch.kind is EpochKind.HW)
    other = [replace(e, kind=EpochKind.SW) if i == index else e for i, e in enumerate(measured)]
    (text,) = flash_warning(DEMO.program, USUAL, other)
    assert f"it took {sum(epoch.ms for epoch in measured):.4g} ms, " in text


@pytest.mark.parametrize("name", ["mine"])
def test_machines_of_ones_own_have_no_named_set_ups(name):
    assert flash_warning(DEMO.program, replace(USUAL, name=name), run("octo-dtr-50")) == ()
