"""Random networks with a fixed seed through the judges, and what generator and reducer promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from differential.generate import FORMATS, MAKERS, NO_MAKER, PROFILES, network_of
from differential.judges import JUDGES, Trial, judged, trial_of, trials
from differential.network import Network, pruned
from differential.probe import _are_many
from differential.reduce import reduced
from differential.verdict import Fault, Verdict
from npuscope.building import build
from npuscope.compiler.lower import conv, pool
from npuscope.compiler.numbers import Affine, LayerScaling
from npuscope.files.load import load_model
from npuscope.graph.model import Graph, Op
from npuscope.ops.kernels import table
from npuscope.ops.kernels.elementwise import litert_add
from npuscope.ops.kernels.step import Step
from npuscope.ops.kernels.table import Makers
from npuscope.ops.table import ONNX, TFLITE
from npuscope.profiling.validate import validate
from npuscope.program.model import Buffer, Call, Epoch
from npuscope.sim import run as sim_run
from npuscope.sim.arithmetic import units
from npuscope.sim.arithmetic.convacc import ClampTally
from npuscope.sim.memory import Memory
from npuscope.structs import replace as replace_fields
from profiling.test_verdict import damaged

pytest.importorskip("ai_edge_litert")
pytest.importorskip("onnxruntime")
# Far from the seeds that long runs begin with.
FIRST, NETWORKS, BATCH = 500_000, 100, 10
QUICK = ("reference", "npu", "readback", "file")
TABLES = {"tflite": TFLITE, "onnx": ONNX}


def told(verdicts: list[Verdict]) -> str:
    rows = [(verdict.seed, fault) for verdict in verdicts for fault in verdict.faults]
    again = "python -m tests.differential -n 1 --seed"
    return "\n".join(f"{again} {seed}: {fault.cause}: {fault.details}" for seed, fault in rows)


@pytest.mark.parametrize("first", range(FIRST, FIRST + NETWORKS, BATCH))
def test_both_ways_to_compute_agree(first: int, tmp_path: Path) -> None:
    faults = told(trials(range(first, first + BATCH), tmp_path, judges=QUICK))
    assert not faults, faults


@pytest.mark.parametrize("profile", ["mixed", "conv"])  # a single op may be a view, of 0 ms
def test_verbs_and_fixes_stand_them_too(profile: str, tmp_path: Path) -> None:
    others = [name for name in JUDGES if name not in QUICK]
    faults = told(trials(range(FIRST, FIRST + 6), tmp_path, profile, others))
    assert not faults, faults


@pytest.mark.parametrize("format", FORMATS)
def test_every_op_of_the_tables_has_a_maker_or_a_reason(format: str) -> None:
    assert set(MAKERS[format]) == set(TABLES[format]) - set(NO_MAKER)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_seed_fixes_the_network(profile: str) -> None:
    for seed in range(4):
        assert network_of(seed, profile).written() == network_of(seed, profile).written()


def test_all_kinds_come_up() -> None:
    kinds = {node.kind for seed in range(600) for node in network_of(seed).nodes}
    assert {kind for format in FORMATS for kind in MAKERS[format]} <= kinds


# The judges and the reducer themselves


@pytest.fixture(scope="module")
def large() -> tuple[Network, str]:
    """A network of many nodes that ends with an int8 ADD, and the name of the sum."""
    for network in map(network_of, range(0, 200, 2)):
        for node in network.nodes:
            ends = pruned(replace(network, outputs=node.outputs[:1]))
            whole = network.values[node.outputs[0]].dtype == "int8"
            if node.kind == "ADD" and whole and len(ends.nodes) > 5:
                return ends, node.outputs[0]
    raise AssertionError("no network has one")


def test_a_network_gets_smaller_and_keeps_its_fault(
    large: tuple[Network, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(trial: Trial, folder: Path) -> None:
        assert trial.network is not None
        if any(node.kind == "ADD" for node in trial.network.nodes):
            trial.verdict.add("npu", "an ADD")

    monkeypatch.setitem(JUDGES, "npu", judge)
    network, name = large
    small = reduced(network, 0, "4.0", Fault("npu", "an ADD", values=(name,)), most_s=60.0)
    assert [node.kind for node in small.nodes] == ["ADD"]


@pytest.mark.parametrize(("bits", "every"), [(4, 1), (1, 3)])
def test_an_op_that_is_off_is_named(
    bits: int,
    every: int,
    large: tuple[Network, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By many steps, or by one step in a third of its elements."""

    def off(graph: Graph, op: Op) -> Step:
        step = litert_add(graph, op)

        def run(inputs: Sequence[np.ndarray]) -> np.ndarray:
            sums = step(inputs)
            some = np.arange(sums.size).reshape(sums.shape) % every == 0
            return np.where(some, np.bitwise_xor(sums, np.int8(bits)), sums)

        return run

    right, wrong = table.makers, Makers(off, None, None)
    monkeypatch.setattr(table, "makers", lambda kind: wrong if kind == "Add" else right(kind))
    verdict = judged([trial_of(large[0], 0, tmp_path)], tmp_path, ["reference"])[0]
    assert [fault.cause for fault in verdict.faults] == ["reference: ADD differs"]


@pytest.mark.parametrize("seed", [1, 308, 389, 408])
def test_sums_that_saturate_and_rounded_weights_excuse_nothing_else(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two saturate, the third does both, the last has rounded weights."""
    assert not trials([seed], tmp_path, "conv", ["npu"])[0].faults
    right = conv.pack_weights
    monkeypatch.setattr(conv, "pack_weights", lambda *given: np.roll(right(*given), 1))
    assert trials([seed], tmp_path, "conv", ["npu"])[0].faults


# Faults that were planted, with a network that shows each: no allowance may hide it.


def zero_point_one_off(monkeypatch: pytest.MonkeyPatch) -> None:
    right = pool.requantize_one_stage

    def wrong(scaling: LayerScaling, *more: Any) -> Affine:
        return right(replace_fields(scaling, output_zero=scaling.output_zero + 1), *more)

    monkeypatch.setattr(pool, "requantize_one_stage", wrong)


def rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "round_shift", units.floor_shift)


def freed_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Buffer.living
    monkeypatch.setattr(
        Buffer, "living", lambda self, first, last: right(self, first, max(first, last - 1))
    )


def one_element(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sim_run.run_epoch

    def wrong(epoch: Epoch, memory: Memory) -> ClampTally:
        tally = right(epoch, memory)
        for name in sim_run.written(epoch):
            values = memory.read(name)
            if epoch.call is None and values.dtype == np.int8 and values.size >= 100:
                values = values.copy()
                values.flat[-1] ^= 64
                memory.write(name, values)
        return tally

    monkeypatch.setattr(sim_run, "run_epoch", wrong)


def less_or_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sim_run.run_call

    def wrong(call: Call, memory: Memory) -> None:
        other = replace_fields(call, kernel="LessEqual") if call.kernel == "Less" else call
        right(other, memory)

    monkeypatch.setattr(sim_run, "run_call", wrong)


@pytest.mark.parametrize(
    ("plant", "seed", "symptom"),
    [
        (zero_point_one_off, 1600008, "units round otherwise"),
        (rounded_down, 1600000, "units round otherwise"),
        (freed_too_early, 1600000, "a buffer is overwritten that is still read"),
        (one_element, 1600000, "units off by more than 8 LSB"),
        (less_or_equal, 1600020, "CPU comparison differs"),
        (rounded_down, 1400806, "units round otherwise"),
    ],
)
def test_planted_faults_are_seen(
    plant: Callable[[pytest.MonkeyPatch], None],
    seed: int,
    symptom: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not trials([seed], tmp_path, judges=["npu"])[0].faults
    plant(monkeypatch)
    assert symptom in {
        fault.symptom for fault in trials([seed], tmp_path, judges=["npu"])[0].faults
    }


def test_a_tie_that_occurs_often_is_one_tie() -> None:
    ours = np.tile(np.array([150, 95, 139, 91, 128, 101, 107]), 6)
    assert not _are_many(ours, ours + (ours == 101), ours == 101)
    off = ours < 130
    assert _are_many(ours, ours + off, off)
    same = np.full(6, 101)
    assert _are_many(same, same + 1, same == 101)


@pytest.mark.parametrize(
    "seed",
    [
        1300480,  # PRELU, and QUANTIZE below: LiteRT rounds twice, units once
        1301428,
        1400622,
        1400806,
        1500088,  # six values of a Sigmoid, by seven constants
        1301530,  # half of a layer starts from the unit's own values
        1401324,  # one tie six times, by LiteRT's faster kernels
        1300692,  # `validate`: comparisons that a step decides
        1501693,  # average pooling: the order of onnxruntime's additions decides many ties
        1700745,
        1701072,  # means of two values, every second of which is a tie
        1601654,  # RESIZE_BILINEAR of unsigned bytes: LiteRT's order of operations
    ],
)
def test_roundings_of_others_are_no_faults(seed: int, tmp_path: Path) -> None:
    assert not trials([seed], tmp_path, judges=["reference", "npu"])[0].faults


@pytest.mark.parametrize(
    "seed",
    [
        1300692,  # comparisons that a step decides
        1600054,  # one tie at the end of a range, for half of the values
        1400386,  # a square, and the largest of its windows, in one epoch
        1400848,  # a unit rounds more of its few values than a tenth, a steep op is behind it
        1501551,
        1600572,
        1601650,
        1700350,
        1701274,
        1600376,  # the same by a kernel on the CPU
        1600348,  # units only gather what a kernel on the CPU compares
    ],
)
def test_validate_knows_them_as_rounding(seed: int, tmp_path: Path) -> None:
    verdict = trials([seed], tmp_path, judges=["npu", "verbs"])[0]
    assert not verdict.faults
    assert verdict.counts["validate, exit code 0"] == 1


@pytest.mark.parametrize(
    ("seed", "share"), [(1900089, 0.02), (1900132, 0.1), (1900356, 0.02), (1900377, 0.02)]
)
def test_damaged_weights_of_a_small_layer_are_not(seed: int, share: float, tmp_path: Path) -> None:
    """Layers of so few values are not judged by themselves: what they are off is no excuse."""
    path = trial_of(network_of(seed, "conv"), seed, tmp_path).path
    made = build(path, {"generation": "4.0"})
    graph = load_model(path)
    found = validate(damaged(made.program, share), graph, made.machine)
    assert validate(made.program, graph, made.machine).passed and not found.passed


def test_a_matrix_beside_a_convolution_takes_another_axis(tmp_path: Path) -> None:
    """`fix` repeats the channels that the convolution reads, for the convolution alone."""
    assert not trials([1400433], tmp_path, judges=["fix"])[0].faults
