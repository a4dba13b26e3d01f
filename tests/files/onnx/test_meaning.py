"""Graphs read from ONNX compute what onnxruntime computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models import save
from models_onnx_cases import CASES
from npuscope.files.load import load_model
from npuscope.graph import DType, Graph, Tensor
from npuscope.ops.run import run
from npuscope.profiling.runtimes import onnxruntime_session

pytest.importorskip("onnxruntime")


def quantized(x: np.ndarray, tensor: Tensor) -> np.ndarray:
    if tensor.quant is None or x.dtype != np.float32:
        return x
    low, high = tensor.dtype.limits
    steps = np.rint(x / np.float32(tensor.quant.scale)) + tensor.quant.zero_point
    return np.clip(steps, low, high).astype(tensor.dtype.numpy)


def in_steps(y: np.ndarray, tensor: Tensor) -> np.ndarray:
    """A float output of onnxruntime in the steps of our integer output."""
    return quantized(y, tensor).astype(np.int64)


@pytest.mark.parametrize("name", CASES)
def test_case(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, "model.onnx", CASES[name]())
    graph: Graph = load_model(path)
    session = onnxruntime_session(str(path))
    (entry,) = session.get_inputs()
    source = graph.tensor(graph.inputs[0])
    x = np.random.default_rng(3).normal(0, 1, source.shape).astype(np.float32)
    x = x if entry.type == "tensor(float)" else (x * 40).astype(source.dtype.numpy)
    (wanted,) = session.run(None, {entry.name: x})
    found = run(graph, {source.name: quantized(x, source)})["y"]
    # sums in another order may round a tie the other way, once per layer
    assert np.abs(found - in_steps(wanted, graph.tensor("y"))).max() <= 2
    assert wanted.max() > wanted.min()


def test_four_bit_weights_are_signed(tmp_path: Path) -> None:
    graph = load_model(save(tmp_path, "model.onnx", CASES["four_bit_weights"]()))
    weights = [t for t in graph.tensors.values() if t.dtype is DType.INT4]
    assert len(weights) == 2
    assert {t.quant.zero_points[0] for t in weights if t.quant} == {0, -1}
    assert all(t.data is not None and -8 <= t.data.min() < 0 <= t.data.max() <= 7 for t in weights)
