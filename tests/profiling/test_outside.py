"""Several files in one process of an outside runtime: one that ends it takes no other along."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models import TfliteWriter, mobilenet_like, save, to_tflite
from npuscope.files.load import load_model
from npuscope.graph.model import Graph
from npuscope.ops.run import run as execute
from npuscope.profiling.outside import (
    OutsideRun,
    outside_outputs,
    outside_runs,
    runtime_ahead,
)

pytest.importorskip("ai_edge_litert")


@pytest.fixture
def run(tmp_path: Path) -> OutsideRun:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    graph = load_model(model)
    random = np.random.default_rng(1)
    tensors = [graph.tensor(name) for name in graph.inputs]
    samples = [{t.name: random.integers(-128, 128, t.shape).astype(np.int8) for t in tensors}]
    return OutsideRun(model, graph, samples)


def test_a_file_that_fails_takes_no_other_along(
    run: OutsideRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"\0\0\0\0TFL3")
    failing = OutsideRun(broken, run.graph, run.samples)
    first, second, third = outside_runs([run, failing, run])
    assert second is None
    assert [record.getMessage() for record in caplog.records] == [
        "litert failed on this model: its comparison is left out"
    ]
    alone = outside_outputs(run.model, run.graph, run.samples)
    assert alone is not None
    for found in (first, third):
        assert found is not None
        assert np.array_equal(found[0][0], alone[1][0][0])


def test_variables_that_a_runtime_keeps_are_named(
    run: OutsideRun, caplog: pytest.LogCaptureFixture
) -> None:
    """Our network has one more input than the file has for LiteRT."""
    inputs = (*run.graph.inputs, *run.graph.inputs)
    tensors = list(run.graph.tensors.values())
    graph = Graph(run.graph.name, tensors, run.graph.ops, inputs, run.graph.outputs)
    graph.numerics = run.graph.numerics
    assert outside_runs([OutsideRun(run.model, graph, run.samples)]) == [None]
    assert [record.getMessage() for record in caplog.records] == [
        "litert keeps the variables of this network to itself: its comparison is left out"
    ]


def test_sums_are_not_left_to_a_kernel_that_reads_memory_it_never_set(tmp_path: Path) -> None:
    w = TfliteWriter()
    x = w.tensor("x", (1, 1, 7, 16), scale=0.01, zero_point=-1)
    y = w.tensor("y", (1, 16), scale=0.07, zero_point=-1)
    w.op("SUM", [x, w.constant("axes", np.array([1, 2], np.int32))], [y], keepDims=False)
    model = save(tmp_path, "sum.tflite", w.finish([x], [y]))
    graph = load_model(model)
    sample = {"x": np.random.default_rng(3).integers(-128, 128, (1, 1, 7, 16)).astype(np.int8)}
    outside = outside_outputs(model, graph, [sample])
    assert outside is not None
    np.testing.assert_array_equal(outside[1][0][0], execute(graph, sample)["y"])


def test_a_runtime_that_is_started_ahead_gives_the_same(run: OutsideRun) -> None:
    random = np.random.default_rng(2)
    name, shape = run.graph.inputs[0], run.graph.tensor(run.graph.inputs[0]).shape
    samples = [{name: random.integers(-128, 128, shape).astype(np.int8)} for _ in range(3)]
    later = OutsideRun(run.model, run.graph, samples)
    with runtime_ahead("litert") as ahead:
        ahead.add(run)
        ahead.add(later)
        first, second = ahead.results()
    assert first is not None and second is not None
    alone = [outside_runs([OutsideRun(run.model, run.graph, [one])])[0] for one in samples]
    assert [row[0].tolist() for row in second] == [rows[0][0].tolist() for rows in alone if rows]
    assert first[0][0].tolist() == execute(run.graph, run.samples[0])[run.graph.outputs[0]].tolist()


def test_what_a_runtime_ahead_did_not_finish_is_run_again(
    run: OutsideRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"\0\0\0\0TFL3")
    with runtime_ahead("litert") as ahead:
        ahead.add(OutsideRun(broken, run.graph, run.samples))
        ahead._process.wait()
        ahead.add(run)
        first, second = ahead.results()
    assert first is None and second is not None
    assert len(caplog.records) == 1


def test_a_runtime_ahead_that_nobody_asks_ends(run: OutsideRun) -> None:
    with runtime_ahead("litert") as ahead:
        ahead.add(run)
    assert ahead._process.poll() is not None
    assert not ahead.folder.exists()
