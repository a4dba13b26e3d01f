"""Random networks with a fixed seed through the judges, and what generator and reducer promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from differential.generate import FORMATS, MAKERS, NO_MAKER, PROFILES, network_of
from differential.judges import JUDGES, Trial, judged, trial_of, trials
from differential.network import Network, pruned
from differential.reduce import reduced
from differential.verdict import Fault, Verdict
from npuscope.compiler.lower import conv
from npuscope.graph.model import Graph, Op
from npuscope.ops.kernels import table
from npuscope.ops.kernels.elementwise import litert_add
from npuscope.ops.kernels.step import Step
from npuscope.ops.kernels.table import Makers
from npuscope.ops.table import ONNX, TFLITE

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


@pytest.mark.parametrize("profile", PROFILES)
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


def test_an_op_that_is_off_is_named(
    large: tuple[Network, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def off(graph: Graph, op: Op) -> Step:
        step = litert_add(graph, op)
        return lambda inputs: np.bitwise_xor(step(inputs), np.int8(4))

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
