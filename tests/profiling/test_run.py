"""Profiles of whole programs: shares, counts, batches, determinism, and their JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from npuscope.compiler.pipeline import compile_graph
from npuscope.demo_network import demo_graph
from npuscope.graph.model import Quant
from npuscope.machine.load import load_machine
from npuscope.ops.table import total_macs
from npuscope.profiling.facts import program_facts
from npuscope.profiling.interval import COLD_MS, contents, coverage_text, sides
from npuscope.profiling.model import Provenance
from npuscope.profiling.run import estimate, profile
from npuscope.program.model import Epoch, EpochKind
from npuscope.report.json_report import estimate_json, profile_json
from npuscope.structs import replace
from processes import LIMIT_S

GRAPH = demo_graph()


def made(generation="4.0", epoch_controller=True):
    machine = load_machine(generation=generation, epoch_controller=epoch_controller)
    return compile_graph(GRAPH, machine), machine


@pytest.fixture(scope="module")
def demo():
    return made()


@pytest.mark.parametrize("epoch_controller", [True, False])
@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0", "open"])
def test_shares_of_time_add_up(generation, epoch_controller):
    program, machine = made(generation, epoch_controller)
    found = estimate(program, machine, GRAPH)
    shares = found.time
    parts = (shares.npu_core_ms, shares.control_ms, shares.software_ms, shares.hybrid_ms)
    assert sum(parts) == pytest.approx(found.total_ms, rel=1e-9)
    assert sum(epoch.ms for epoch in found.epochs) == pytest.approx(found.total_ms, rel=1e-9)
    assert min(parts) >= 0 and min(parts[:3]) > 0  # a softmax runs on the CPU


def test_an_epochs_time_is_its_three_phases(demo):
    program, machine = demo
    slow = replace(machine, clocks=replace(machine.clocks, mcu_mhz=400, npu_mhz=500))
    for epoch in estimate(program, slow).epochs:
        counted = epoch.counters
        cpu_ms = (counted.pre_cycles + counted.post_cycles) / 400e3
        assert epoch.ms == pytest.approx(cpu_ms + counted.core_cycles / 500e3)


def test_core_time_leaves_out_what_the_controller_adds():
    """The same groups run with and without it: the NPU's own work is equal."""
    with_controller, without = (estimate(*made(epoch_controller=on)) for on in (True, False))
    assert with_controller.time.npu_core_ms == pytest.approx(without.time.npu_core_ms)
    assert with_controller.total_ms < without.total_ms


def test_counts(demo):
    program, machine = demo
    found = estimate(program, machine)
    kinds = [epoch.kind for epoch in found.epochs]
    assert found.counts["HW"] == kinds.count(EpochKind.HW) > 1
    assert found.counts["SW"] == kinds.count(EpochKind.SW) == 1
    assert found.counts["HYBRID"] == 0
    assert found.counts["blobs"] == 1
    assert [epoch.index for epoch in found.epochs] == list(range(len(kinds)))


def test_without_the_controller_there_are_no_blobs():
    assert estimate(*made(epoch_controller=False)).counts["blobs"] == 0


def test_empty_epochs_are_not_counted(demo):
    program, machine = demo
    last = program.epochs[-1].last_number + 1
    longer = replace(program, epochs=(*program.epochs, Epoch(last, last, EpochKind.EMPTY)))
    found = estimate(longer, machine)
    assert found.counts == estimate(program, machine).counts
    assert len(found.epochs) == len(program.executed)


def test_every_epoch_says_where_it_came_from(demo):
    program, machine = demo
    for run, source in ((estimate, Provenance.ESTIMATE), (profile, Provenance.SIMULATION)):
        found = run(program, machine, GRAPH)
        assert [r.source for r in found.runs] == [source]
        assert {epoch.provenance for epoch in found.epochs} == {source}
    origins = {name for epoch in found.epochs for name in epoch.origin}
    assert origins == {op.origin[0] for op in GRAPH.ops}


def test_a_batch_repeats_the_same_inference(demo):
    program, machine = demo
    once, often = profile(program, machine), profile(program, machine, batch=5)
    assert often.runs[0].n == 5
    for epoch in often.epochs:
        assert (epoch.spread.min, epoch.spread.max, epoch.spread.n) == (epoch.ms, epoch.ms, 5)
    assert often.total_ms == once.total_ms


def test_the_interval_holds_the_total(demo):
    program, machine = demo
    found = estimate(program, machine)
    low, high = found.interval_ms
    of = contents(program_facts(program, machine, None), found.epochs, machine, found.total_ms)
    faster, slower = sides(of)
    assert low == pytest.approx(found.total_ms * (1 - faster))
    assert high == pytest.approx(found.total_ms * (1 + slower) + COLD_MS)
    words = f"-{faster:.0%} to +{high / found.total_ms - 1:.0%}"
    assert found.model_error == f"{words}, {coverage_text(of)}"


def test_external_activations_widen_the_interval():
    machine = load_machine()
    outside = [m for m in machine.pools if m.cacheable]
    machine = machine.with_pools(tuple(outside))
    found = estimate(compile_graph(GRAPH, machine), machine)
    assert found.memory.external_ram_bytes > 0 == found.memory.internal_ram_bytes
    assert found.interval_ms[1] > 1.3 * found.total_ms


def test_what_the_model_is(demo):
    program, machine = demo
    named = replace(program, model_file="demo.tflite", model_md5="00ff")
    model = estimate(named, machine, GRAPH).model
    assert (model.file, model.md5) == ("demo.tflite", "00ff")
    assert (model.macs, model.params) == (total_macs(GRAPH), GRAPH.parameters())
    (image,), (scores,) = model.inputs, model.outputs
    assert (image.name, image.shape, image.dtype) == ("image", (1, 96, 96, 3), "int8")
    assert image.size_bytes == 96 * 96 * 3
    assert (scores.scale, scores.zero_point) == (1 / 256, -128)


def test_without_a_graph_buffers_tell_what_goes_in_and_out(demo):
    program, machine = demo
    (image,) = estimate(program, machine).model.inputs
    assert (image.name, image.shape, image.dtype) == ("image", (1, 96, 96, 3), "int8")


# Determinism.


def test_the_same_network_gives_the_same_profile():
    first, second = (profile(*made(), demo_graph()) for _ in range(2))
    assert first == second


def test_another_mapping_has_another_hash(demo):
    program, machine = demo
    assert estimate(program, machine).program_hash != estimate(*made("2.2")).program_hash


_PRINT = """
import json
from npuscope import profile
from npuscope.demo_network import demo_graph
from npuscope.report.json_report import profile_json
found = profile(demo_graph())
print(json.dumps([found.program_hash, profile_json(found)]))
"""


def test_processes_agree():
    """Sets and dictionaries are ordered by other seeds in another process."""
    texts = set()
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, "-c", _PRINT]
        texts.add(
            subprocess.run(
                command, env=environment, capture_output=True, check=True, timeout=LIMIT_S
            ).stdout
        )
    assert len(texts) == 1


# The JSON that other programs rely on.

CONTRACT = {
    "schema", "model", "machine", "total_ms", "interval_ms", "model_error", "inferences_per_s",
    "time", "memory", "fit", "counts", "epochs", "findings", "notes",
}  # fmt: skip
EPOCH = {
    "index", "name", "first", "last", "kind", "blob", "ops", "origin", "compute_cycles",
    "max_cycles", "core_cycles", "pre_cycles", "post_cycles", "ms", "provenance", "bound",
    "units", "pools",
}  # fmt: skip
COUNTERS = {"mcu_cycles", "npu_cycles", "stream_engines", "busif", "npu_cache"}


def test_json_of_an_estimate(demo):
    program, machine = demo
    found = json.loads(json.dumps(estimate_json(estimate(program, machine, GRAPH))))
    assert set(found) >= CONTRACT and found["schema"] == "npuscope/estimate/1"
    assert all(set(epoch) >= EPOCH for epoch in found["epochs"])
    assert set(found["fit"]) >= {"on_chip", "with_flash", "with_external_ram", "reason"}
    assert set(found["counts"]) >= {"HW", "SW", "HYBRID", "blobs"}
    assert sum(found["time"].values()) == pytest.approx(found["total_ms"], abs=4e-6)


def test_json_of_a_profile(demo):
    program, machine = demo
    found = json.loads(json.dumps(profile_json(profile(program, machine, GRAPH, batch=3))))
    assert set(found) >= CONTRACT | {"runs"} and found["schema"] == "npuscope/profile/1"
    assert found["runs"][0]["source"] == "simulation" and found["runs"][0]["n"] == 3
    for epoch in found["epochs"]:
        assert set(epoch) >= EPOCH | {"spread", "counters"}
        assert set(epoch["counters"]) >= COUNTERS


def test_an_input_with_a_scale_for_each_channel_has_no_single_one(demo):
    program, machine = demo
    name = program.inputs[0]
    channels = Quant((0.5, 0.25, 0.125), (0, 0, 0), axis=3)
    buffers = [replace(b, quant=channels) if b.name == name else b for b in program.buffers]
    (found,) = estimate(replace(program, buffers=tuple(buffers)), machine).model.inputs
    assert (found.name, found.scale, found.zero_point) == (name, None, None)
