"""Quantizers of training frameworks: read as the integers that they round to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npuscope
from models import OnnxWriter, save
from npuscope.files.load import load_model
from npuscope.graph.model import DType, Graph

WEIGHTS = np.random.default_rng(0).normal(0, 0.4, (6, 4, 3, 3)).astype(np.float32)
THRESHOLDS = np.array([1, 2, 1, 2, 1, 4], np.float32)


def compressed(folder: Path, kind: str, **numbers: object) -> Path:
    """A layer as the Model Compression Toolkit exports it: its own op around every tensor, what
    it takes from constants behind nodes."""
    w = OnnxWriter()
    x = w.node("mct_quantizers.ActivationPOTQuantizer", w.input("x", (1, 4, 8, 8)),
               threshold=4.0, signed=1, num_bits=8)  # fmt: skip
    given = [w.node("Identity", w.constant(values)) for values in parameters(kind)]
    held = w.node(f"mct_quantizers.{kind}", w.constant(WEIGHTS), *given,
                  num_bits=8, per_channel=1, channel_axis=0, signed=1, **numbers)  # fmt: skip
    y = w.node("Relu", w.node("Conv", x, held, pads=[1] * 4))
    w.node("mct_quantizers.ActivationUniformQuantizer", y, output="y",
           min_range=0.0, max_range=6.0, num_bits=8)  # fmt: skip
    return save(folder, "m.onnx", w.finish({"y": (1, 6, 8, 8)}))


def parameters(kind: str) -> list[np.ndarray]:
    if "Uniform" in kind:
        return [-THRESHOLDS, 0.5 * THRESHOLDS]
    return [np.arange(-8, 8, dtype=np.float32), THRESHOLDS] if "LUT" in kind else [THRESHOLDS]


def weights_of(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Real values of the layer's weights, and the step of each channel."""
    conv = next(op for op in graph.ops if op.kind == "Conv2D")
    tensor = graph.tensor(conv.inputs[1])
    assert tensor.quant is not None and tensor.data is not None
    shape = (-1, 1, 1, 1)
    zeros = np.array(tensor.quant.zero_points).reshape(shape)
    scales = np.array(tensor.quant.scales)
    return (tensor.data.astype(int) - zeros) * scales.reshape(shape), scales


@pytest.mark.parametrize(
    "kind", ["WeightsSymmetricQuantizer", "WeightsPOTQuantizer", "WeightsUniformQuantizer"]
)
def test_weights_are_rounded_as_the_quantizer_does(kind: str, tmp_path: Path) -> None:
    real, scales = weights_of(load_model(compressed(tmp_path, kind)))
    width = 1.5 * THRESHOLDS / 255 if "Uniform" in kind else 2 * THRESHOLDS / 256
    assert scales == pytest.approx(width)
    steps = width.reshape(-1, 1, 1, 1)
    low, high = (-128, 127) if "Uniform" not in kind else (-170, 85)
    wanted = np.clip(np.rint(WEIGHTS / steps), low, high) * steps
    assert real == pytest.approx(wanted.transpose(0, 2, 3, 1), abs=1e-6)


def test_weights_from_a_table(tmp_path: Path) -> None:
    path = compressed(tmp_path, "WeightsLUTSymmetricQuantizer", lut_values_bitwidth=4)
    real, scales = weights_of(load_model(path))
    assert scales == pytest.approx(THRESHOLDS / 8)
    steps = (THRESHOLDS / 8).reshape(-1, 1, 1, 1)
    wanted = np.clip(np.rint(WEIGHTS / steps), -8, 7) * steps
    assert real == pytest.approx(wanted.transpose(0, 2, 3, 1), abs=1e-6)


def test_the_network_is_an_int8_one(tmp_path: Path) -> None:
    path = compressed(tmp_path, "WeightsPOTQuantizer")
    graph = load_model(path)
    border = [graph.tensor(name) for name in (*graph.inputs, *graph.outputs)]
    assert [tensor.dtype for tensor in border] == [DType.INT8, DType.UINT8]
    assert [tensor.quant.scale for tensor in border if tensor.quant] == pytest.approx(
        [1 / 32, 6 / 255]
    )
    found = npuscope.estimate(path)
    assert not found.unknown_ops and found.counts["HW"] and found.model.macs == 6 * 4 * 9 * 64


def test_weights_under_a_quantizer_of_qonnx_are_integers(tmp_path: Path) -> None:
    w = OnnxWriter()
    x = w.node("onnx.brevitas.Quant", w.input("x", (1, 4)), *map(w.constant, (0.1, 0.0, 8.0)))
    numbers = w.constant(np.full((6, 1), 0.02, np.float32)), w.constant(0.0), w.constant(4.0)
    held = w.node("onnx.brevitas.Quant", w.constant(WEIGHTS[:, :, 0, 0]), *numbers)
    x = w.node("Gemm", x, held, transB=1)
    w.node("onnx.brevitas.Quant", x, *map(w.constant, (0.1, 0.0, 8.0)), output="y")
    graph = load_model(save(tmp_path, "m.onnx", w.finish({"y": (1, 6)})))
    layer = next(op for op in graph.ops if op.kind == "FullyConnected")
    tensor = graph.tensor(layer.inputs[1])
    assert tensor.dtype is DType.INT8 and tensor.data is not None
    assert np.abs(tensor.data).max() <= 8
