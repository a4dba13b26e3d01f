"""Runs on a slow flash, on an emulated processor, and simulated ones: what they say."""

from __future__ import annotations

import pytest

from npuscope.building import build
from npuscope.demo_network import demo_graph
from npuscope.machine.load import load_machine
from npuscope.profiling.run import estimate, profile
from npuscope.profiling.run_notes import flash_warning, left_out, own_kernels
from npuscope.program.model import EpochKind
from npuscope.sim.counters import Bound
from npuscope.structs import replace

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
    assert text.startswith("the run does not match the assumed flash: it took ")
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


def test_an_emulated_run_says_whose_kernels_it_timed():
    """Cycles of our own C on a plain processor are not those of the vendor's library."""
    plain = profile(DEMO.program, USUAL)
    slow = [
        replace(e, predicted_ms=e.ms, ms=e.ms * (1 if e.kind is EpochKind.HW else 50))
        for e in plain.epochs
    ]
    (text,) = own_kernels(replace(plain, epochs=tuple(slow)))
    assert "npuscope's own C kernels and driver on an emulated Cortex-M33" in text
    software = sum(e.ms for e in plain.epochs if e.kind is not EpochKind.HW)
    assert f"library calls {software * 50:.4g} ms here, {software:.4g} ms by board costs" in text
    assert text.endswith(f"the total is {plain.total_ms:.4g} ms")
    same = tuple(replace(e, predicted_ms=e.ms) for e in plain.epochs)
    assert own_kernels(replace(plain, epochs=same)) == ()


def test_a_simulated_run_says_what_it_leaves_out_of_the_processor():
    plain = profile(DEMO.program, USUAL)
    half = replace(plain, time=replace(plain.time, software_ms=plain.total_ms / 2, hybrid_ms=0.0))
    (text,) = left_out(half)
    assert text.startswith("50% of the time is in CPU kernels and library calls, ")
    assert left_out(replace(half, time=replace(half.time, software_ms=0.0))) == ()
