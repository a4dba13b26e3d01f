"""Slopes of a PReLU become int8, exactly where they may have a scale each."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edits.border_case import edited, misfit
from edits.number_case import conv, furthest, input_pair, int8, largest_change, on_cpu
from models import OnnxWriter, TfliteWriter

SLOPES = np.linspace(-0.6, 0.8, 8, dtype=np.float32).reshape(8, 1, 1)
OUT = 1 / 40


def onnx_net(slopes: np.ndarray = SLOPES, opset: int = 17) -> bytes:
    writer = OnnxWriter(opset)
    x = writer.qdq(conv(writer, input_pair(writer, (1, 4, 5, 5)), int8((8, 4, 1, 1))), OUT, 7)
    made = writer.node("PRelu", x, writer.constant(slopes, "slopes"), name="act")
    return writer.finish({writer.qdq(made, OUT, -20): None})


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
@pytest.mark.parametrize("opset", [11, 12, 13, 17])
def test_onnx_keeps_every_slope(generation: str, opset: int) -> None:
    before = onnx_net(opset=opset)
    data = edited(before, "quantize-slope", "PRelu:act")
    assert on_cpu(before, generation) - on_cpu(data, generation) == 3
    assert largest_change(before, data) == 0
    assert furthest(before, data) == 0
    assert onnx.load_from_string(data).opset_import[0].version == max(opset, 13)


def test_an_opset_that_cannot_be_raised_rounds_the_slopes() -> None:
    before = onnx_net(opset=10)
    data = edited(before, "quantize-slope", "PRelu:act")
    assert onnx.load_from_string(data).opset_import[0].version == 10
    assert on_cpu(data) == on_cpu(before) - 3
    assert largest_change(before, data) <= 1
    assert furthest(before, data) <= OUT * 1.001


def test_one_slope_for_all_and_none_at_all() -> None:
    for slopes in (np.array(0.3, np.float32), np.zeros((8, 1, 1), np.float32)):
        before = onnx_net(slopes)
        data = edited(before, "quantize-slope", "PRelu:act")
        assert on_cpu(data) == on_cpu(before) - 3
        assert largest_change(before, data) == 0


def test_attributes_that_became_inputs_follow_the_opset() -> None:
    writer = OnnxWriter(11)
    x = writer.qdq(conv(writer, input_pair(writer, (1, 4, 5, 5)), int8((8, 4, 1, 1))), OUT, 7)
    made = writer.node("PRelu", x, writer.constant(SLOPES), name="act")
    wide = writer.node("Unsqueeze", writer.qdq(made, OUT, -20), axes=[0])
    before = writer.finish({writer.node("Squeeze", wide, axes=[0]): None})
    data = edited(before, "quantize-slope", "PRelu:act")
    assert furthest(before, data) == 0
    assert largest_change(before, data) == 0


def test_a_prelu_at_the_end_is_quantized_behind_too() -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, input_pair(writer, (1, 4, 5, 5)), int8((8, 4, 1, 1))), OUT, 7)
    slopes = writer.constant(SLOPES)
    before = writer.finish({writer.node("PRelu", x, slopes, name="act"): None})
    data = edited(before, "quantize-slope", "PRelu:act")
    assert on_cpu(data) == 0
    assert furthest(before, data) <= 8 / 255  # half a step of what the int8 input can make


def test_what_does_not_fit() -> None:
    before = onnx_net()
    assert misfit(before, "quantize-slope", "Relu:act") == "no PRelu here"
    data = edited(before, "quantize-slope", "PRelu:act")
    sentence = "the slopes 'slopes_dequantized' are already quantized"
    assert misfit(data, "quantize-slope", "PRelu:act") == sentence
    writer = OnnxWriter()
    x, slopes = (writer.qdq(writer.input(name, (1, 4, 5, 5)), OUT) for name in ("x", "s"))
    net = writer.finish({writer.qdq(writer.node("PRelu", x, slopes, name="act"), OUT): None})
    assert misfit(net, "quantize-slope", "PRelu:act").endswith("are already quantized")
    writer = OnnxWriter()
    x, slopes = writer.input("x", (1, 4)), writer.input("s", (1, 4))
    net = writer.finish({writer.node("PRelu", x, slopes, name="act"): None})
    assert misfit(net, "quantize-slope", "PRelu:act") == "the slopes 's' are computed"


def tflite_net() -> bytes:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 5, 5, 8), scale=1 / 50, zero_point=3)
    real = writer.tensor("x_real", (1, 5, 5, 8), "float32")
    slopes = writer.constant("slopes", SLOPES.reshape(1, 1, 8))
    made = writer.tensor("made", (1, 5, 5, 8), "float32")
    y = writer.tensor("y", (1, 5, 5, 8), scale=1 / 50, zero_point=-30)
    writer.op("DEQUANTIZE", [x], [real])
    writer.op("PRELU", [real, slopes], [made])
    writer.op("QUANTIZE", [made], [y])
    return writer.finish([x], [y])


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_tflite(generation: str) -> None:
    before = tflite_net()
    data = edited(before, "quantize-slope", "PRELU:#1")
    assert (on_cpu(before, generation), on_cpu(data, generation)) == (3, 0)
    assert largest_change(before, data) <= 1
    assert furthest(before, data) <= 1.001 / 50
    assert misfit(before, "quantize-slope", "QUANTIZE:#2") == "no PRELU here"
    assert misfit(data, "quantize-slope", "PRELU:#0") == "the op already computes on integers"
