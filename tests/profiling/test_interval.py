"""How wide the interval is, and what a prediction warns of."""

from __future__ import annotations

import pytest

from npuscope.compiler.pipeline import compile_graph
from npuscope.demo_network import demo_graph
from npuscope.machine.load import load_machine
from npuscope.profiling.facts import program_facts
from npuscope.profiling.interval import Contents, contents, doubts, half_width, remarks
from npuscope.profiling.run import estimate
from npuscope.sim.counters import Bound, PoolTraffic
from npuscope.structs import replace

MACHINE = load_machine()
NOTHING = Contents(0.0, 0.0, 0.0, 0.0, ())


@pytest.fixture(scope="module")
def demo():
    graph = demo_graph()
    program = compile_graph(graph, MACHINE)
    return program_facts(program, MACHINE, graph), estimate(program, MACHINE, graph)


@pytest.mark.parametrize("part", ["combining", "cpu", "unmeasured", "external"])
def test_every_part_that_is_less_known_widens_the_interval(part):
    assert half_width(replace(NOTHING, **{part: 0.5})) > half_width(NOTHING)


def test_the_interval_never_reaches_nothing():
    assert half_width(Contents(1.0, 1.0, 1.0, 1.0, ())) == half_width(NOTHING, credible=False) < 1


def changed(found, index, **counters):
    """The epochs of a profile, one of them counted otherwise."""
    epochs = list(found.epochs)
    epochs[index] = replace(
        epochs[index], counters=replace(epochs[index].counters, **counters), ms=found.total_ms
    )
    return tuple(epochs)


def test_kernels_without_a_measured_cost_are_named(demo):
    facts, found = demo
    (index,) = [n for n, epoch in enumerate(facts.epochs) if epoch.call]
    call = replace(facts.epochs[index].call, kernel="Cumsum")
    strange = list(facts.epochs)
    strange[index] = replace(strange[index], call=call)
    of = contents(
        replace(facts, epochs=tuple(strange)), changed(found, index), MACHINE, found.total_ms
    )
    assert (of.unmeasured, of.cpu, of.kernels) == (1.0, 0.0, ("Cumsum",))
    assert remarks(of, MACHINE) == (
        "100% of the time is in CPU kernels whose cost was not measured: Cumsum",
    )


def test_epochs_without_registers_widen_the_interval_and_are_told(demo):
    facts, found = demo
    bare = replace(facts, epochs=tuple(replace(e, groups=None) for e in facts.epochs))
    of = contents(bare, found.epochs, MACHINE, found.total_ms)
    assert of.reported > 0.9 and of.combining == 0.0
    assert half_width(of) > half_width(replace(of, reported=0.0))
    assert remarks(of, MACHINE)[0].startswith("timed from the compiler's report")


def test_waiting_for_external_ram_counts_by_time(demo):
    facts, found = demo
    outside = changed(found, 0, bound=Bound.EXTERNAL_RAM)
    of = contents(facts, outside, MACHINE, 2 * found.total_ms)
    assert of.external == 0.5
    assert remarks(of, MACHINE)[0].startswith("50% of the time waits for external RAM; ")


def test_a_usual_prediction_has_no_doubts_and_no_remarks(demo):
    facts, found = demo
    assert doubts(facts, found.epochs, MACHINE, found.total_ms) == ()
    assert remarks(contents(facts, found.epochs, MACHINE, found.total_ms), MACHINE) == ()
    assert found.notes == facts.notes


def plain_epoch(found) -> int:
    """An epoch of the NPU made to have no convolution."""
    return next(n for n, epoch in enumerate(found.epochs) if "CONVACC" in epoch.units)


def test_an_epoch_that_reads_a_thousand_times_what_it_writes_is_doubted(demo):
    facts, found = demo
    index = plain_epoch(found)
    epochs = list(changed(found, index, traffic=(PoolTraffic("npuRAM5", 5000, 5),)))
    assert doubts(facts, tuple(epochs), MACHINE, found.total_ms) == ()  # a layer reduces
    epochs[index] = replace(epochs[index], units={"ARITH": 3, "STRENG": 4})
    (text,) = doubts(facts, tuple(epochs), MACHINE, found.total_ms)
    assert text == (
        f"not credible: epoch {epochs[index].name} reads 1,000 times what it writes "
        "and takes 100% of the time"
    )


def test_an_npu_that_works_far_too_long_is_doubted(demo):
    facts, found = demo
    slow = changed(found, plain_epoch(found), core_cycles=1e12)
    (text,) = doubts(facts, slow, MACHINE, found.total_ms)
    assert text.startswith("not credible: the NPU takes ")
    waiting = changed(found, plain_epoch(found), core_cycles=1e12, bound=Bound.EXTERNAL_RAM)
    assert doubts(facts, waiting, MACHINE, found.total_ms) == ()


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("clocks.npu_mhz", 800, "npu_mhz"),
        ("paths.xspi2.bytes_per_cycle", 0.5, "path xspi2"),
        ("flash", "octo-dtr-50", "path xspi2"),
        ("psram", "hexa-dtr-50", "path xspi1"),
        ("clock_mode", "nominal", "mcu_mhz, npu_mhz, nic_mhz"),
    ],
)
def test_another_set_up_is_remarked(key, value, told):
    (text,) = remarks(NOTHING, load_machine(overrides={key: value}))
    assert text.startswith(f"the constants were measured with another set-up ({told}): ")
