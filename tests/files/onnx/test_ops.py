"""Every ONNX op, in float and in QDQ form, against onnxruntime without optimizations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import models_onnx_moves  # noqa: F401  adds its cases to the table
from models import save
from models_onnx_ops import CASES, X_SCALE, X_ZERO, op_model
from npuscope.files.load import load_model
from npuscope.graph import Graph
from npuscope.ops.run import run
from npuscope.profiling.runtimes import onnxruntime_session

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def wanted(data: bytes, x: np.ndarray) -> np.ndarray:
    session = onnxruntime_session(data)
    return np.asarray(session.run(None, {"x": x})[0])


def grid(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Raw int8 values and the real ones they stand for."""
    raw = np.random.default_rng(5).integers(-128, 128, shape).astype(np.int8)
    return raw, (raw.astype(np.int32) - X_ZERO).astype(np.float32) * np.float32(X_SCALE)


def only_integers(graph: Graph) -> bool:
    return all(graph.tensors[name].quant is not None for op in graph.ops for name in op.outputs)


@pytest.mark.parametrize("name", CASES)
def test_quantized(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    if case.opset < 10:
        pytest.skip("QuantizeLinear came with opset 10")
    data = op_model(case, True)
    graph = load_model(save(tmp_path, "m.onnx", data))
    raw, real = grid(case.shape)
    expected = wanted(data, real)
    found = run(graph, {"x": raw})["y"]
    steps = np.rint(expected / np.float32(case.scale)) + case.zero_point
    assert found.shape == expected.shape
    difference = np.abs(found.astype(int) - steps.astype(int))
    assert difference.max() <= 1 and np.mean(difference > 0) < 0.02
    assert len(np.unique(found)) > 1
    assert only_integers(graph) == case.all_integer


@pytest.mark.parametrize("name", CASES)
def test_float(name: str, tmp_path: Path) -> None:
    """Inner scales of a case stay, so a tie may still go the other way once."""
    case = CASES[name]
    data = op_model(case, False)
    graph = load_model(save(tmp_path, "m.onnx", data))
    _, real = grid(case.shape)
    quant = graph.tensors["x"].quant
    given = real if quant is None else np.rint(real / np.float32(quant.scale)) + quant.zero_point
    given = np.clip(given, -128, 127) if quant else given
    found = run(graph, {"x": given.astype(graph.tensors["x"].dtype.numpy)})["y"]
    expected = wanted(data, real)
    out = graph.tensors["y"].quant
    if out is not None:
        found = (found.astype(np.float32) - out.zero_point) * np.float32(out.scale)
    close = np.isclose(found, expected, rtol=1e-4, atol=1e-4)
    assert found.shape == expected.shape and close.mean() > 0.98
