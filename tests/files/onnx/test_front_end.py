"""The vendor front end's ONNX file: its numbers lie in a JSON file beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import OnnxWriter, save
from npuscope.errors import FileError
from npuscope.files.load import load_model
from npuscope.graph.model import DType, Graph
from npuscope.ops.run import run

KERNELS = np.random.default_rng(5).integers(-100, 100, (4, 3, 1, 1)).astype(np.float32)
SCALES = (0.01, 0.02, 0.005, 0.04)


def integer(kind: str, scales: tuple[float, ...], offsets: tuple[int, ...]) -> dict[str, Any]:
    return {"format": {"class": "integer", "type": kind, "params": [list(scales), list(offsets)]}}


def table() -> dict[str, Any]:
    return {
        "w": integer("S8", SCALES, (0,) * 4),
        "hidden": integer("S8", (0.1,), (3,)),
        "y": integer("S8", (0.1,), (3,)),
        "x": {"format": {"class": "float32", "type": "FLOAT32"}},
    }


def written(folder: Path, tensors: dict[str, Any] | None) -> Graph:
    """x -> quantized -> a layer with float weights -> Relu, as the front end writes it."""
    w = OnnxWriter()
    scale, zero = w.constant(np.float32(0.5)), w.constant(np.int8(0))
    whole = w.node("QuantizeLinear", w.input("x", (1, 3, 4, 4)), scale, zero)
    real = w.node("DequantizeLinear", whole, scale, zero)
    steps = np.array(SCALES, np.float32).reshape(4, 1, 1, 1)
    weights = w.constant(KERNELS * steps, name="w")
    w.node("Conv", real, weights, output="hidden")
    w.node("Relu", "hidden", output="y")
    path = save(folder, "net_OE_1.onnx", w.finish({"y": (1, 4, 4, 4)}))
    if tensors is not None:
        (folder / "net_OE_1_Q.json").write_text(json.dumps({"tensors": tensors, "nodes": {}}))
    return load_model(path)


def test_weights_and_results_are_integers(tmp_path: Path) -> None:
    graph = written(tmp_path, table())
    layer = next(op for op in graph.ops if op.kind == "Conv2D")
    weights = graph.tensor(layer.inputs[1])
    assert weights.dtype is DType.INT8
    assert weights.data is not None and np.array_equal(weights.data.ravel(), KERNELS.ravel())
    assert graph.tensor(layer.inputs[0]).dtype is DType.INT8
    assert graph.tensor(layer.outputs[0]).dtype is DType.INT8


def test_without_the_file_it_is_a_float_network(tmp_path: Path) -> None:
    graph = written(tmp_path, None)
    layer = next(op for op in graph.ops if op.kind == "Conv2D")
    assert graph.tensor(layer.inputs[1]).dtype is DType.FLOAT32


def computed(graph: Graph) -> np.ndarray:
    """The result as real numbers, for one input whatever type it has in the graph."""
    whole = np.random.default_rng(6).integers(-40, 40, (1, 3, 4, 4)).astype(np.int8)
    real = graph.tensor("x").dtype is DType.FLOAT32
    (found,) = run(graph, {"x": whole * np.float32(0.5) if real else whole}).values()
    quant = graph.tensor(graph.outputs[0]).quant
    return found if quant is None else (found - np.float32(quant.zero_point)) * quant.scale


def test_it_computes_what_the_floats_would(tmp_path: Path) -> None:
    found = computed(written(tmp_path, table()))
    (tmp_path / "net_OE_1_Q.json").unlink()
    wanted = np.clip(computed(written(tmp_path, None)), -13.1, 12.4)  # the stated scale's range
    assert np.abs(found - wanted).max() <= 0.051


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not JSON"), ("[]", "has no table of tensors")]
)
def test_a_damaged_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    written(tmp_path, table())
    (tmp_path / "net_OE_1_Q.json").write_text(text)
    with pytest.raises(FileError, match=message):
        load_model(tmp_path / "net_OE_1.onnx")


@pytest.mark.parametrize(
    "entry",
    [{}, {"format": 3}, {"format": {"type": "S8"}}, integer("S8", (), ()), integer("S8", (1,), ())],
)
def test_entries_that_say_nothing_are_passed_over(entry: dict[str, Any], tmp_path: Path) -> None:
    graph = written(tmp_path, {**table(), "w": entry})
    layer = next(op for op in graph.ops if op.kind == "Conv2D")
    assert graph.tensor(layer.inputs[1]).dtype is DType.FLOAT32


def test_integers_may_be_moved_before_they_are_read(tmp_path: Path) -> None:
    w = OnnxWriter()
    moved = w.node("Transpose", w.input("x", (1, 4, 4, 3), 3), perm=[0, 3, 1, 2])
    scale, zero = w.constant(np.float32(0.5)), w.constant(np.int8(4))
    w.node("Relu", w.node("DequantizeLinear", moved, scale, zero), output="y")
    graph = load_model(save(tmp_path, "m.onnx", w.finish({"y": (1, 3, 4, 4)})))
    quant = graph.tensor("x").quant
    assert quant is not None and (quant.scale, quant.zero_point) == (0.5, 4)


def test_an_output_may_be_a_constant(tmp_path: Path) -> None:
    w = OnnxWriter()
    w.node("Relu", w.input("x", (1, 4)), output="y")
    w.node("Identity", w.constant(np.ones((1, 2), np.float32)), output="anchors")
    graph = load_model(save(tmp_path, "m.onnx", w.finish({"y": (1, 4), "anchors": (1, 2)})))
    assert graph.outputs == ("y", "anchors")
    assert graph.tensor("anchors").is_constant
    assert graph.notes == ["output 'anchors' is a constant"]
