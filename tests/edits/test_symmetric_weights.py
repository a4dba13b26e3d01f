"""Weights about zero, where they fit."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, graph_of, misfit
from edits.number_case import furthest, input_pair, largest_change
from models import OnnxWriter, TfliteWriter

OUT = 1 / 30


def steps(low: int, high: int, dtype: str = "int8") -> np.ndarray:
    values = np.random.default_rng(1).integers(low, high, (8, 4, 1, 1), endpoint=True)
    values.reshape(-1)[:2] = low, high
    return values.astype(dtype)


def onnx_net(values: np.ndarray, zero: int) -> bytes:
    writer = OnnxWriter()
    x = input_pair(writer, (1, 4, 6, 6))
    constant = writer.constant(values, "w")
    kernel = writer.dequantize(constant, 1 / 128, zero, str(values.dtype))
    return writer.finish({writer.qdq(writer.node("Conv", x, kernel, name="c"), OUT): None})


@pytest.mark.parametrize(("values", "zero"), [(steps(-100, 127), 9), (steps(0, 255, "uint8"), 128)])
def test_onnx(values: np.ndarray, zero: int) -> None:
    before = onnx_net(values, zero)
    data = edited(before, "symmetric-weights", "Conv:c")
    (found,) = [t for t in graph_of(data).tensors.values() if t.shape == (8, 1, 1, 4)]
    assert found.quant is not None
    assert set(found.quant.zero_points) == {0}
    assert largest_change(before, data) == 0
    assert furthest(before, data) == 0


def test_onnx_misfits() -> None:
    sentence = "'w' ranges from -9 to 131, beyond int8"
    net = onnx_net(steps(-13, 127), -4)
    assert misfit(net, "symmetric-weights", "Conv:c") == sentence
    net = onnx_net(steps(-13, 127), 0)
    assert misfit(net, "symmetric-weights", "Conv:c") == "'w' already has zero point 0"


def tflite_net(zero: int) -> bytes:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 6, 6, 4), scale=1 / 64, zero_point=-3)
    kernel = steps(-100, 120).transpose(0, 2, 3, 1).copy()
    w = writer.constant("w", kernel, scale=1 / 128, zero_point=zero)
    b = writer.constant("b", np.arange(8, dtype=np.int32) * 99, scale=1 / 64 / 128)
    y = writer.tensor("y", (1, 6, 6, 8), scale=OUT, zero_point=10)
    writer.op("CONV_2D", [x, w, b], [y])
    return writer.finish([x], [y])


def test_tflite() -> None:
    before = tflite_net(9)
    data = edited(before, "symmetric-weights", "CONV_2D:#0")
    assert graph_of(data).tensor("w_1").quant.zero_points == (0,)
    assert largest_change(before, data) == 0


def test_tflite_misfits() -> None:
    sentence = "'w' ranges from -90 to 130, beyond int8"
    assert misfit(tflite_net(-10), "symmetric-weights", "CONV_2D:#0") == sentence
    sentence = "'w' already has zero point 0"
    assert misfit(tflite_net(0), "symmetric-weights", "CONV_2D:#0") == sentence
