"""uint8 tensors become int8, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, graph_of, misfit, outside
from edits.number_case import furthest, largest_change
from models import OnnxWriter, TfliteWriter
from npuscope.graph.model import DType

OUT = 1 / 30


def weights() -> np.ndarray:
    return np.random.default_rng(1).integers(60, 200, (8, 4, 1, 1), np.uint8)


def onnx_net() -> bytes:
    """QDQ and integer ops, a move between them, a zero point left out."""
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 4, 6, 6)), 1 / 64, 125, "uint8")
    kernel = writer.dequantize(writer.constant(weights()), 1 / 128, 130, "uint8")
    made = writer.node("Relu", writer.node("Conv", x, kernel, name="conv"))
    scale = writer.constant(np.array(OUT, np.float32))
    integers = writer.node("QuantizeLinear", made, scale)
    pooled = writer.node("MaxPool", integers, kernel_shape=[2, 2], strides=[2, 2])
    points = writer.constant(np.array(0, np.uint8))
    both = [pooled, scale, points]
    total = writer.node("com.microsoft.QLinearAdd", *both, *both, scale, points)
    return writer.finish({writer.dequantize(total, OUT, 0, "uint8"): None})


def test_onnx() -> None:
    before = onnx_net()
    data = edited(before, "signed-activations")
    assert not [t for t in graph_of(data).tensors.values() if t.dtype is DType.UINT8]
    assert graph_of(data).tensor("x").quant.zero_point == -3
    assert largest_change(before, data) == 0
    assert furthest(before, data) == 0


def test_onnx_misfits() -> None:
    data = edited(onnx_net(), "signed-activations")
    assert misfit(data, "signed-activations") == "no tensor is uint8"
    border = edited(onnx_net(), "integer-input")
    sentence = "the uint8 tensor 'x' is an input or output of the network"
    assert misfit(border, "signed-activations") == sentence
    writer = OnnxWriter()
    q = writer.quantize(writer.input("x", (1, 4, 6, 6)), OUT, 9, "uint8", output="q")
    pads = writer.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    padded = writer.node("Pad", q, pads, writer.constant(np.array(9, np.uint8)), output="p")
    net = writer.finish({writer.dequantize(padded, OUT, 9, "uint8"): None})
    sentence = "a Pad computes on the uint8 tensor 'p'"
    assert misfit(net, "signed-activations") == sentence


def test_joined_tensors() -> None:
    writer = OnnxWriter()
    q = writer.quantize(writer.input("x", (1, 4, 6, 6)), OUT, 9, "uint8")
    turned = writer.node("Transpose", q, perm=[0, 1, 3, 2])
    both = writer.node("Concat", q, turned, axis=1)
    before = writer.finish({writer.dequantize(both, OUT, 9, "uint8"): None})
    data = edited(before, "signed-activations")
    assert not [t for t in graph_of(data).tensors.values() if t.dtype is DType.UINT8]
    assert furthest(before, data) == 0


def tflite_net(zero: int = 128) -> bytes:
    """Float at the border, uint8 inside."""
    writer = TfliteWriter()
    x, z = (
        writer.tensor(name, shape, "float32")
        for name, shape in (("x", (1, 6, 6, 4)), ("z", (1, 6, 6, 8)))
    )
    inner = writer.tensor("inner", (1, 6, 6, 4), "uint8", scale=1 / 64, zero_point=125)
    kernel = weights().transpose(0, 2, 3, 1).copy()
    w = writer.constant("w", kernel, scale=1 / 128, zero_point=zero)
    b = writer.constant("b", np.arange(8, dtype=np.int32) * 99, scale=1 / 64 / 128)
    y = writer.tensor("y", (1, 6, 6, 8), "uint8", scale=OUT, zero_point=100)
    writer.op("QUANTIZE", [x], [inner])
    writer.op("CONV_2D", [inner, w, b], [y])
    writer.op("DEQUANTIZE", [y], [z])
    return writer.finish([x], [z])


def test_tflite() -> None:
    before = tflite_net()
    data = edited(before, "signed-activations")
    assert not [t for t in graph_of(data).tensors.values() if t.dtype is DType.UINT8]
    assert largest_change(before, data) <= 1
    assert furthest(before, data) <= OUT * 1.001


@pytest.mark.parametrize("zero", [20, 0, 255])
def test_tflite_weights_about_another_zero_get_a_scale_per_channel(zero: int) -> None:
    before = tflite_net(zero)
    data = edited(before, "signed-activations")
    quant = graph_of(data).tensor("w").quant
    assert quant is not None and set(quant.zero_points) == {0}
    assert len(quant.scales) == 8
    # Rounded weights, of 4 terms: half a step each, of at most 190 steps of the input.
    assert largest_change(before, data) <= 2


def bytes_at_the_border() -> bytes:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 6, 6, 4), "uint8", scale=1 / 64, zero_point=125)
    kernel = weights().transpose(0, 2, 3, 1).copy()
    w = writer.constant("w", kernel, scale=1 / 128, zero_point=140)
    b = writer.constant("b", np.arange(8, dtype=np.int32) * 99, scale=1 / 64 / 128)
    y = writer.tensor("y", (1, 6, 6, 8), "uint8", scale=OUT, zero_point=100)
    writer.op("CONV_2D", [x, w, b], [y])
    return writer.finish([x], [y])


def test_tflite_keeps_the_type_of_inputs_and_outputs() -> None:
    before = bytes_at_the_border()
    after = graph_of(edited(before, "signed-activations"))
    assert [op.kind for op in after.ops] == ["Quantize", "Conv2D", "Quantize"]
    assert [after.tensor(name).dtype for name in ("x", "y")] == [DType.UINT8, DType.UINT8]
    assert after.inputs == ("x",) and after.outputs == ("y",)
    assert largest_change(before, edited(before, "signed-activations")) <= 1


def test_tflite_misfits() -> None:
    data = edited(tflite_net(), "signed-activations")
    sentence = "no tensor inside the network is uint8"
    assert misfit(data, "signed-activations") == sentence


def test_moves_of_bytes_keep_the_version_that_kernels_have() -> None:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 2, 2, 4), "uint8", scale=1 / 64, zero_point=125)
    flat = writer.tensor("flat", (1, 16), "uint8", scale=1 / 64, zero_point=125)
    y = writer.tensor("y", (1, 16), "uint8", scale=OUT, zero_point=100)
    sizes = writer.constant("sizes", np.array([1, 16], np.int32))
    writer.op("RESHAPE", [x, sizes], [flat], newShape=[1, 16])
    writer.op("QUANTIZE", [flat], [y])
    before = writer.finish([x], [y])
    data = edited(before, "signed-activations")
    assert furthest(before, data) <= OUT * 1.001
    assert len(outside(data)) == 1  # a runtime opens and runs it


def test_a_kernel_with_one_version_keeps_it() -> None:
    """LiteRT's HARD_SWISH takes int8 in its first version, and has no second."""
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 2, 2, 4), "uint8", scale=1 / 16, zero_point=125)
    bent = writer.tensor("bent", (1, 2, 2, 4), "uint8", scale=1 / 16, zero_point=125)
    y = writer.tensor("y", (1, 2, 2, 4), "uint8", scale=OUT, zero_point=100)
    writer.op("HARD_SWISH", [x], [bent])
    writer.op("QUANTIZE", [bent], [y])
    data = edited(writer.finish([x], [y]), "signed-activations")
    assert len(outside(data)) == 1  # a runtime opens and runs it


def layers(shared: bool) -> bytes:
    """Two layers with the same weights, or one whose weights come from outside."""
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 6, 6, 4), "uint8", scale=1 / 64, zero_point=125)
    if shared:
        w = writer.constant("w", weights()[:4].transpose(0, 2, 3, 1).copy(), scale=1 / 128)
    else:
        w = writer.tensor("w", (4, 1, 1, 4), "uint8", scale=1 / 128, zero_point=140)
    b = writer.constant("b", np.zeros(4, np.int32), scale=1 / 64 / 128)
    y = writer.tensor("y", (1, 6, 6, 4), "uint8", scale=1 / 64, zero_point=125)
    writer.op("CONV_2D", [x, w, b], [y])
    z = writer.tensor("z", (1, 6, 6, 4), "uint8", scale=OUT, zero_point=100)
    if shared:
        writer.op("CONV_2D", [y, w, b], [z])
    else:
        writer.op("QUANTIZE", [y], [z])
    return writer.finish([x] if shared else [x, w], [z])


def test_weights_that_are_not_a_layers_own_stay() -> None:
    assert misfit(layers(True), "signed-activations") == "'w' is shared by several layers"
    sentence = "its weights are not constant integers"
    assert misfit(layers(False), "signed-activations") == sentence


def test_no_int8_weights_beside_uint8_activations() -> None:
    sentence = "'x' is not int8 with one scale"
    assert misfit(bytes_at_the_border(), "symmetric-weights", "CONV_2D:#0") == sentence
