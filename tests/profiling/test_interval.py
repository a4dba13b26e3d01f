"""How wide the interval is, and what a prediction warns of."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.nets import Net
from npuscope.compiler.pipeline import compile_graph
from npuscope.demo_network import demo_graph
from npuscope.machine.load import load_machine
from npuscope.profiling.facts import program_facts
from npuscope.profiling.interval import (
    COLD_MS,
    KINDS,
    LARGEST,
    ON_CHIP,
    PARTS,
    STATED,
    Contents,
    bounds_ms,
    cold_ms,
    contents,
    coverage_text,
    doubts,
    kind_of,
    remarks,
    sides,
)
from npuscope.profiling.model import Profile
from npuscope.profiling.ranges import OtherExport, ranges
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


@pytest.mark.parametrize("part", PARTS)
def test_every_part_that_is_less_known_widens_the_range(part):
    wider, plain = sides(replace(NOTHING, **{part: 0.5})), sides(NOTHING)
    assert wider.faster >= plain.faster and wider.slower >= plain.slower
    if part in STATED:
        assert wider.faster > plain.faster and wider.slower > plain.slower


def test_the_interval_never_reaches_nothing():
    everything = replace(NOTHING, **dict.fromkeys(PARTS, 1.0))
    assert sides(everything).faster == LARGEST
    assert sides(NOTHING, credible=False) == (LARGEST, LARGEST)


def test_the_coverage_in_an_answer_is_that_of_its_kind():
    for kind, part, least in KINDS:
        of = replace(NOTHING, **{part: least + 0.01})
        assert kind_of(of) == kind
        if held := ranges().kinds.get(kind):
            assert coverage_text(of) == (
                f"held for {held.held} of {held.rows} left-out measurements {kind}"
            )
    assert kind_of(NOTHING) == ON_CHIP
    assert coverage_text(replace(NOTHING, unlike=0.5)) == "partly without measurements"
    for part in ("unmeasured", "reported", "unnamed"):
        assert coverage_text(replace(NOTHING, **{part: 0.5})) == "partly without measurements"
    assert coverage_text(NOTHING, credible=False) == "partly without measurements"


def test_the_page_has_the_coverage_that_answers_print():
    page = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text(encoding="utf-8")
    table = page.partition("## What the ranges hold")[2].partition("## The interval")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    cells = {row[0]: row for row in rows if row}
    for kind, held in ranges().kinds.items():
        assert cells[kind][1:3] == [str(held.held), str(held.rows)]
    for name, size in ranges().sizes.items():
        assert cells[name][2:4] == [str(size.held.held), str(size.held.rows)]


def many_convs(channels: int) -> tuple[Contents, Profile]:
    net = Net()
    features = net.input((1, 64, 64, channels), (0.02, -1))
    for _ in range(6):
        features = net.conv(features, channels, (3, 3))
    graph = net.graph()
    program = compile_graph(graph, MACHINE)
    found = estimate(program, MACHINE, graph)
    facts = program_facts(program, MACHINE, graph)
    return contents(facts, found.epochs, MACHINE, found.total_ms), found


def test_layers_cut_as_no_measured_one_widen_the_range_and_are_noted():
    """A 3x3 layer of 31 channels is cut into single channels: no measurement shows such a layer."""
    usual, prime = many_convs(32), many_convs(31)
    assert usual[0].unlike < 0.05 and not any("layers cut as" in n for n in usual[1].notes)
    assert prime[0].unlike > 0.5
    assert any("layers cut as in no network that was measured" in n for n in prime[1].notes)
    widths = [(high - low) / found.total_ms for _, found in (usual, prime)
              for low, high in [found.interval_ms]]  # fmt: skip
    assert widths[1] > 2 * widths[0]
    # What it takes if the vendor's compiler adds a channel is inside.
    assert prime[1].interval_ms[0] < usual[1].total_ms
    assert "partly without measurements" in prime[1].model_error


def test_a_file_whose_published_latency_is_of_another_export_is_noted(monkeypatch):
    graph = demo_graph()
    program = compile_graph(graph, MACHINE)
    md5 = program_facts(program, MACHINE, graph).model.md5
    known = replace(ranges(), other_exports=(OtherExport(md5, "4.0.0", 21.3),))
    monkeypatch.setattr("npuscope.profiling.interval.ranges", lambda: known)
    assert any(
        "was measured on another export" in n for n in estimate(program, MACHINE, graph).notes
    )
    older = load_machine(generation="2.2")
    program = compile_graph(graph, older)
    assert not any("another export" in note for note in estimate(program, older, graph).notes)


def test_a_tiny_network_may_take_some_microseconds_more():
    low, high = bounds_ms(0.02, sides(NOTHING))
    assert low == pytest.approx(0.02 * (1 - sides(NOTHING).faster))
    assert high == pytest.approx(0.02 * (1 + sides(NOTHING).slower) + COLD_MS)


def test_a_cold_start_takes_longer_with_a_slower_flash():
    """AI Studio's means of ten runs on a Nucleo hold one cold run: 21 to 26 us more a run."""
    slow = load_machine(overrides={"flash": "octo-dtr-50", "clock_mode": "nominal"})
    assert cold_ms(MACHINE) == COLD_MS
    assert cold_ms(slow) == pytest.approx(4 * COLD_MS)
    assert cold_ms(replace(MACHINE, name="another")) == COLD_MS
    low, high = bounds_ms(0.030, sides(NOTHING), cold_ms(slow))
    assert low < 0.053 < high


def test_sums_of_a_part_of_a_kernel_are_pieces():
    net = Net()
    net.conv(net.input((1, 32, 32, 3), (0.02, -1)), 16, (7, 7))
    graph = net.graph()
    program = compile_graph(graph, MACHINE)
    found = estimate(program, MACHINE, graph)
    of = contents(program_facts(program, MACHINE, graph), found.epochs, MACHINE, found.total_ms)
    assert 0.3 < of.pieces < 1
    assert any("cut into pieces" in note for note in found.notes)


def test_what_the_cpu_does_around_epochs_is_a_part_of_its_own(demo):
    by_cpu = load_machine(epoch_controller=False)
    graph = demo_graph()
    program = compile_graph(graph, by_cpu)
    found = estimate(program, by_cpu, graph)
    of = contents(program_facts(program, by_cpu, graph), found.epochs, by_cpu, found.total_ms)
    facts, usual = demo
    assert of.started == pytest.approx(found.time.control_ms / found.total_ms)
    assert contents(facts, usual.epochs, MACHINE, usual.total_ms).started == 0.0


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
    assert sides(of).slower > sides(replace(of, reported=0.0)).slower
    assert "in epochs of which the compiler's report does not say enough" in remarks(of, MACHINE)[0]
    # What is described whole is timed as with registers.
    numbers = frozenset(epoch.number for epoch in facts.epochs)
    whole = contents(replace(bare, described=numbers), found.epochs, MACHINE, found.total_ms)
    assert (whole.reported, remarks(whole, MACHINE)) == (0.0, ())


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
