"""Comparisons of small networks: planted changes are found first, and rows add up."""

from __future__ import annotations

from math import fsum
from pathlib import Path

import pytest

from advice.compared import graph_of, kept, measured, network, side, slower, with_epochs
from models import Net
from npuscope.advice.compare.model import CauseKind, ComparedRow, Comparison, Side
from npuscope.advice.compare.run import compare
from npuscope.graph.model import Graph
from npuscope.profiling.run import estimate
from npuscope.program.model import Buffer, EpochKind
from npuscope.program.units import Streng
from npuscope.structs import replace

GENERATIONS = ("2.2", "3.0", "4.0", "open")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return network()


@pytest.fixture(scope="module")
def latest(graph: Graph) -> Side:
    return side(graph)


def first(found: Comparison) -> tuple[ComparedRow, CauseKind]:
    row = found.rows[0]
    assert row.cause is not None
    return row, row.cause.kind


def retimed(found: Side, **changes: object) -> Side:
    """Another program of the same machine."""
    assert found.program is not None and found.machine is not None
    program = replace(found.program, **changes)  # type: ignore[arg-type]
    return replace(found, program=program, profile=estimate(program, found.machine))


@pytest.mark.parametrize("old", GENERATIONS)
@pytest.mark.parametrize("new", GENERATIONS)
def test_rows_and_causes_add_up(graph: Graph, old: str, new: str) -> None:
    a, b = side(graph, generation=old), side(graph, generation=new)
    found = compare(a, b)
    assert fsum(row.delta_ms for row in found.rows) == pytest.approx(found.delta_ms, abs=1e-9)
    assert fsum(ms for _, ms, _ in found.by_cause) == pytest.approx(found.delta_ms, abs=1e-5)
    for row in found.changed:
        assert fsum(cause.ms for cause in row.causes) == pytest.approx(row.delta_ms, abs=1e-5)
    assert found.unexplained_ms <= found.changed_ms
    assert found.explained_share >= 0.9


@pytest.mark.parametrize(
    "options",
    [
        {"epoch_controller": False},
        {"overrides": {"units.ARITH": 1}},
        {"overrides": {"units.CONVACC": 1}},
        {"overrides": {f"pools.npuRAM{n}.size_kib": 0 for n in (3, 4, 5, 6)}},
    ],
)
def test_options_are_told_apart(options: dict[str, object]) -> None:
    graph = network(size=96, width=32)
    found = compare(side(graph), side(graph, **options))
    assert found.delta_ms > 0.05
    assert found.explained_share >= 0.9


def test_a_run_does_not_differ_from_itself(latest: Side) -> None:
    found = compare(latest, latest)
    assert (found.changed, found.moves, found.explained_share) == ((), (), 1.0)
    assert found.notes == ("both ran the same program",)
    assert [row.causes for row in found.rows] == [()] * len(found.rows)


def test_a_buffer_in_another_pool(latest: Side) -> None:
    """The planted change is the first row, and its cause names the buffer's way."""
    assert latest.program is not None
    moved = _output_of(latest, "CONV_2D:#1")
    buffers = tuple(
        b.placed("hyperRAM", 0) if b.name == moved.name else b for b in latest.program.buffers
    )
    found = compare(latest, retimed(latest, buffers=buffers))
    row, kind = first(found)
    assert kind is CauseKind.POOL
    assert row.delta_ms > 0
    assert row.cause is not None
    assert row.cause.text == f"{moved.pool} -> hyperRAM: {moved.name}"
    assert "CONV_2D:#1" in {op for changed in found.changed for op in changed.ops}
    assert found.explained_share > 0.99


def _output_of(found: Side, op: str) -> Buffer:
    """The buffer that the epoch of an op writes."""
    assert found.program is not None
    (epoch,) = (e for e in found.program.executed if op in e.origin)
    (engine,) = (unit for unit in epoch.units if isinstance(unit, Streng) and unit.dir)
    return found.program.buffer_map()[engine.addr_base.buffer]


def test_other_clocks(graph: Graph, latest: Side) -> None:
    found = compare(latest, side(graph, overrides={"clocks.npu_mhz": 500}))
    assert {kind for kind, _, _ in found.by_cause} == {CauseKind.CLOCK}
    row, _ = first(found)
    assert row.cause is not None and row.cause.text == "NPU 1000 -> 500 MHz"


def test_a_kernel_that_costs_more(graph: Graph, latest: Side) -> None:
    found = compare(latest, side(graph, overrides={"software.Softmax.fixed": 90000}))
    (row,) = found.changed
    assert row.ops == ("SOFTMAX:#10",)
    assert row.cause is not None
    assert (row.cause.kind, row.cause.text) == (CauseKind.TIMING, "cost of Softmax")


def test_who_starts_the_epochs(graph: Graph, latest: Side) -> None:
    found = compare(latest, side(graph, epoch_controller=False))
    row, kind = first(found)
    assert kind is CauseKind.CONTROL
    assert row.cause is not None
    assert row.cause.text == "epochs started by the epoch controller -> by the CPU"
    assert found.unexplained_ms == 0


def test_what_starting_an_epoch_costs(graph: Graph, latest: Side) -> None:
    changed = {"generation.control.controller_cycles": 9000}
    found = compare(latest, side(graph, overrides=changed))
    assert {kind for kind, _, _ in found.by_cause} == {CauseKind.START_COST}
    text = "starting an epoch takes 4,200 -> 9,000 NPU cycles in generation 4.0"
    assert {row.cause.text for row in found.changed if row.cause} == {text}


def test_an_op_that_left_the_npu() -> None:
    """257 inputs are prime: the vendor's compilers leave the layer to the CPU."""
    net = Net((1, 257))
    net.dense(16)
    net.dense(32)
    graph = graph_of(net)
    found = compare(side(graph, generation="open"), side(graph))
    (move,) = found.moves
    assert (move.op, move.a, move.b) == ("FULLY_CONNECTED:#0", EpochKind.HW, EpochKind.SW)
    assert move.rule == "NA-CONV-PRIME"
    row, kind = first(found)
    assert (row.ops, kind) == (("FULLY_CONNECTED:#0",), CauseKind.MOVED)
    assert row.cause is not None
    assert row.cause.text.startswith("FULLY_CONNECTED:#0: NPU -> CPU (NA-CONV-PRIME: ")
    # The work that the NPU no longer does is part of the move.
    assert {cause.kind for cause in row.causes} <= {CauseKind.MOVED, CauseKind.START_COST}


def test_a_pool_that_leaves_its_convolution(graph: Graph) -> None:
    found = compare(side(graph, generation="2.2"), side(graph))
    (row,) = (row for row in found.rows if any(op.startswith("MEAN") for op in row.ops))
    assert row.cause is not None and row.cause.kind is CauseKind.FUSION
    assert "-> " in row.cause.text
    assert "generation 2.2 runs a pool in the epoch of its convolution" in row.cause.text


def test_a_larger_input_is_another_shape() -> None:
    small, large = side(network(size=24)), side(network(size=48))
    named = replace(large.profile, model=replace(large.profile.model, md5="another"))
    found = compare(small, replace(large, profile=named))
    _, kind = first(found)
    assert kind is CauseKind.SHAPE
    assert found.explained_share >= 0.9


def test_more_work_in_less_time_is_the_tile() -> None:
    """64 channels are more than 61, and are cut better."""
    sides = []
    for channels in (61, 64):
        net = Net((1, 24, 24, 16), input_zero_point=0)
        net.conv(channels)
        found = side(graph_of(net))
        model = replace(found.profile.model, md5=str(channels))
        sides.append(replace(found, profile=replace(found.profile, model=model)))
    row, kind = first(compare(*sides))
    assert row.delta_ms < 0
    assert kind is CauseKind.TILE


def test_time_that_nothing_accounts_for_is_said_to_be(latest: Side) -> None:
    planted = slower(latest.profile, 2, 0.5)
    found = compare(kept(latest), Side("slow.json", replace(planted, program_hash="")))
    (row,) = found.changed
    assert (row.a[0].index, row.cause and row.cause.kind) == (2, CauseKind.UNEXPLAINED)
    assert found.unexplained_ms == pytest.approx(0.5)
    assert found.explained_share == pytest.approx(0.0)


@pytest.mark.parametrize(("old", "new"), [("2.2", "4.0"), ("4.0", "2.2")])
def test_a_setting_is_not_blamed_for_time_that_it_does_not_account_for(
    graph: Graph, old: str, new: str
) -> None:
    """The depthwise layer computes less in 4.0: no reason to take longer; and so much more in 2.2
    is it not, either."""
    before, after = (side(graph, generation=name).profile for name in (old, new))
    (index,) = (e.index for e in after.epochs if e.origin == ("DEPTHWISE_CONV_2D:#6",))
    longer = tuple(
        replace(e, ms=9.0, counters=replace(e.counters, core_cycles=9e6)) if e.index == index else e
        for e in after.epochs
    )
    found = compare(Side("a", before), Side("b", with_epochs(after, longer)))
    row, kind = first(found)
    assert (row.ops, kind) == (("DEPTHWISE_CONV_2D:#6",), CauseKind.UNEXPLAINED)


def test_two_networks_without_a_common_op(latest: Side) -> None:
    renamed = tuple(replace(epoch, origin=("other",)) for epoch in latest.profile.epochs)
    other = Side("other", replace(latest.profile, epochs=renamed, program_hash="1"))
    found = compare(latest, other)
    assert {kind for kind, _, _ in found.by_cause} == {CauseKind.UNEXPLAINED}
    assert found.explained_share == pytest.approx(0.0)
    assert found.notes[0] == "the two sides have no source op in common: are they the same network?"


def test_an_op_that_only_one_side_has(latest: Side) -> None:
    last = latest.profile.epochs[-1]
    shorter = with_epochs(latest.profile, latest.profile.epochs[:-1])
    found = compare(latest, Side("cut", replace(shorter, program_hash="1")))
    (row,) = found.changed
    assert (row.ops, row.b, row.delta_ms) == (last.origin, (), -last.ms)
    assert row.cause is not None
    assert (row.cause.kind, row.cause.text) == (CauseKind.REMOVED, "only A has epochs for it")


def of_model(found: Side, md5: str) -> Side:
    return replace(
        found, profile=replace(found.profile, model=replace(found.profile.model, md5=md5))
    )


def renamed(found: Side) -> Side:
    """The run as a compiler tells it that has its own names for ops."""
    epochs = tuple(
        replace(epoch, origin=tuple(f"Node_{epoch.index}_{n}" for n in range(2)))
        for epoch in found.profile.epochs
    )
    return Side("vendor", with_epochs(replace(found.profile, program_hash="1"), epochs))


def test_builds_of_one_model_without_a_common_name_are_matched_by_their_work(latest: Side) -> None:
    ours, theirs = of_model(latest, "1"), of_model(renamed(latest), "1")
    found = compare(theirs, ours)
    assert found.changed == ()
    assert len(found.rows) == len(latest.profile.epochs)
    assert found.notes == (
        "the sides name ops differently: epochs that do the same work are matched, in order",
    )


def test_work_between_two_anchors_is_one_row(latest: Side) -> None:
    epochs = renamed(latest).profile.epochs
    other = replace(epochs[3], claims=replace(epochs[3].claims, ops=7), ms=epochs[3].ms + 1)
    cut = with_epochs(latest.profile, (*epochs[:3], other, *epochs[4:]))
    theirs = of_model(Side("vendor", replace(cut, program_hash="1")), "1")
    (row,) = compare(of_model(latest, "1"), theirs).changed
    assert ([e.index for e in row.a], [e.index for e in row.b]) == ([3], [3])
    assert row.delta_ms == pytest.approx(1.0)


def test_an_epoch_that_is_missing_does_not_shift_the_others(latest: Side) -> None:
    epochs = renamed(latest).profile.epochs
    cut = with_epochs(latest.profile, (*epochs[:1], *epochs[2:]))
    theirs = of_model(Side("vendor", replace(cut, program_hash="1")), "1")
    (row,) = compare(of_model(latest, "1"), theirs).changed
    assert ([e.index for e in row.a], row.b) == ([1], ())


# Measured runs.


def test_within_the_spread_is_noise(latest: Side) -> None:
    found = compare(measured(latest, factor=1.005, spread=0.02), latest)
    kinds = {row.cause.kind for row in found.rows if row.cause}
    assert kinds == {CauseKind.NOISE}
    assert (found.unexplained_ms, found.explained_share) == (0, 1)


def test_outside_the_spread_but_within_the_known_error(latest: Side) -> None:
    found = compare(latest, measured(latest, factor=1.05, spread=0.001))
    row, kind = first(found)
    assert kind is CauseKind.PREDICTION
    assert row.cause is not None
    assert row.cause.text.startswith("measured against predicted, within the known error of ")


def test_far_from_the_prediction_is_not_explained(latest: Side) -> None:
    found = compare(latest, measured(latest, factor=1.6, spread=0.001))
    row, kind = first(found)
    assert kind is CauseKind.UNEXPLAINED
    assert row.cause is not None
    assert row.cause.text.startswith("measured against predicted, beyond the known error of ")
    assert found.explained_share < 0.1


def test_the_least_noise_may_be_set(latest: Side) -> None:
    board = measured(latest, factor=1.6, spread=0.001)
    found = compare(latest, board, noise_share=0.5)
    assert {kind for kind, _, _ in found.by_cause} == {CauseKind.NOISE}


def test_a_board_at_another_clock(latest: Side, graph: Graph) -> None:
    fast = side(graph, overrides={"clocks.mcu_mhz": 400, "clocks.npu_mhz": 500})
    found = compare(latest, measured(fast, spread=0.0001))
    row, kind = first(found)
    assert kind is CauseKind.CLOCK
    assert row.cause is not None
    assert row.cause.text == "MCU 800 -> 400 MHz, NPU 1000 -> 500 MHz"


def test_a_single_measurement_has_no_noise(latest: Side) -> None:
    board = measured(latest, spread=0.0)
    once = tuple(replace(e, spread=replace(e.spread, n=1)) for e in board.profile.epochs)
    found = compare(replace(board, profile=replace(board.profile, epochs=once)), latest)
    assert "A was measured once: its noise is unknown" in found.notes


# Real networks.


@pytest.mark.parametrize(
    "name",
    [
        "mobilenet_v1_0.25_96_tfs_int8.tflite",
        "mobilenet_v2_0.35_128_fft_int8.tflite",
        "st_yolo_lc_v1_192_int8.tflite",
        "st_ssd_mobilenet_v1_025_256_int8.tflite",
        "shufflenetv2_x050_pt_224_rand_qdq_int8.onnx",
    ],
)
def test_generations_of_real_networks_differ_by_causes(shared_models: Path, name: str) -> None:
    import npuscope

    found = npuscope.compare(
        shared_models / name, a_options={"generation": "2.2"}, b_options={"generation": "4.0"}
    )
    assert found.changed
    assert found.explained_share >= 0.9
    assert fsum(row.delta_ms for row in found.rows) == pytest.approx(found.delta_ms, abs=1e-9)
