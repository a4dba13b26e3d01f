"""Weights in 4 bits: half the bytes, near the same results, read back and run outside."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, graph_of, misfit, outside
from edits.number_case import input_pair
from models import OnnxWriter, TfliteWriter
from npuscope.graph.model import DType

RANDOM = np.random.default_rng(2)
KERNELS = RANDOM.integers(-127, 128, (8, 3, 3, 4)).astype(np.int8)
SCALES = tuple(float(scale) for scale in np.geomspace(0.001, 0.1, 8))


def onnx_net(opset: int = 13, mean: bool = False) -> bytes:
    writer = OnnxWriter(opset)
    x = input_pair(writer, (1, 4, 6, 6))
    steps = writer.constant(KERNELS.transpose(0, 3, 1, 2).copy(), "w")
    kernel = writer.dequantize(steps, 1 / 128, 0, "int8")
    bias = writer.constant(np.arange(8, dtype=np.float32) / 8)
    y = writer.node("Conv", x, kernel, bias, name="c")
    if mean:
        y = writer.node("ReduceMean", y, axes=[2, 3])
    return writer.finish({writer.qdq(y, 1 / 4): None})


def tflite_net(depthwise: bool = False) -> bytes:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 6, 6, 4), scale=0.1)
    y = writer.tensor("y", (1, 4, 4, 4 if depthwise else 8), scale=2.0)
    kernels = KERNELS[:4].transpose(3, 1, 2, 0)[:1] if depthwise else KERNELS
    scales = SCALES[:4] if depthwise else SCALES
    w = writer.constant("w", kernels.copy(), scale=scales, axis=3 if depthwise else 0)
    sums = tuple(0.1 * scale for scale in scales)
    values = (np.arange(len(scales)) * 1000).astype(np.int32)
    bias = writer.constant("b", values, scale=sums, axis=0)
    kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    more = {"depthMultiplier": 1} if depthwise else {}
    writer.op(kind, [x, w, bias], [y], padding=1, strideW=1, strideH=1, **more)
    return writer.finish([x], [y])


def near(before: bytes, after: bytes) -> bool:
    """15 steps instead of 255: a small part of the spread."""
    (real,), (other,) = (list(outside(data).values()) for data in (before, after))
    gap = np.abs(real.astype(np.float64) - other)
    return bool(0 < gap.mean() < 0.2 * np.std(real.astype(np.float64)))


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_onnx(opset: int) -> None:
    before = onnx_net(opset)
    data = edited(before, "four-bit-weights", "Conv:c")
    (weights,) = [t for t in graph_of(data).tensors.values() if t.shape == (8, 3, 3, 4)]
    assert weights.dtype is DType.INT4
    assert weights.quant is not None and len(weights.quant.scales) == 8
    assert near(before, data)


@pytest.mark.parametrize("depthwise", [False, True])
def test_tflite(depthwise: bool) -> None:
    before = tflite_net(depthwise)
    name = "DEPTHWISE_CONV_2D:#0" if depthwise else "CONV_2D:#0"
    data = edited(before, "four-bit-weights", name)
    (weights,) = [t for t in graph_of(data).tensors.values() if t.dtype is DType.INT4]
    assert weights.data is not None and weights.data.min() >= -8 and weights.data.max() <= 7
    assert near(before, data)


def test_what_the_new_opset_writes_otherwise() -> None:
    assert "ReduceMean in another way" in misfit(
        onnx_net(13, mean=True), "four-bit-weights", "Conv:c"
    )


def test_weights_that_have_4_bits_already() -> None:
    once = edited(onnx_net(21), "four-bit-weights", "Conv:c")
    assert "constant int8 weights" in misfit(once, "four-bit-weights", "Conv:c")
