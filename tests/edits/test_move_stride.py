"""move-stride in both formats: the same places, with any padding."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, graph_of, misfit
from edits.moves_case import Lite, Qdq, check_same, findings, fixed, nodes
from models import Net, to_onnx, to_tflite
from models_tflite import SAME, VALID
from npuscope.ops.layers import ConvAttrs

RULE, FIX = "LINT-DEPTHWISE-STRIDE", "move-stride"


def strides(data: bytes) -> list[tuple[int, int]]:
    convolutions = [op for op in graph_of(data).ops if op.kind == "Conv2D"]
    return [op.attrs_as(ConvAttrs).strides for op in convolutions]


def net(size: int, kernel: int, stride: int, channels: int = 3) -> Net:
    made = Net((1, size, size, channels), seed=size)
    made.conv(0, kernel, stride, "relu", depthwise=True)
    made.conv(6, 1)
    return made


@pytest.mark.parametrize("size", [7, 8, 9])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (5, 2), (3, 3), (2, 2)])
def test_the_places_stay(size: int, kernel: int, stride: int) -> None:
    for before in (to_tflite(net(size, kernel, stride)), to_onnx(net(size, kernel, stride))):
        named = "DEPTHWISE_CONV_2D:#0"
        if named not in {name for op in graph_of(before).ops for name in op.origin}:
            named = next(node for node in nodes(before) if node.startswith("Conv:"))
        after = edited(before, FIX, named)
        assert strides(after) == [(1, 1), (stride, stride)]
        check_same(before, after)


def lines(padding: int) -> bytes:
    """What the rule is about: one line, stride 2, 256 channels."""
    lite, shape = Lite(), (1, 1, 9, 256)
    out = (1, 1, 5 if padding == SAME else 4, 256)
    rng = np.random.default_rng(1)
    weights = lite.constant(rng.integers(-50, 50, (1, 1, 3, 256)).astype(np.int8), 0.01)
    bias = lite.writer.constant("bias", np.zeros(256, np.int32), scale=0.05 * 0.01)
    x = lite.op(
        "DEPTHWISE_CONV_2D",
        [lite.input(shape), weights, bias],
        out,
        strideH=2,
        strideW=2,
        padding=padding,
    )
    x = lite.op("RELU", [x], out)
    dense = lite.constant(rng.integers(-50, 50, (8, 1, 1, 256)).astype(np.int8), 0.01)
    other = lite.writer.constant("other", np.zeros(8, np.int32), scale=0.05 * 0.01)
    return lite.finish(lite.op("CONV_2D", [x, dense, other], (*out[:3], 8), padding=VALID))


@pytest.mark.parametrize("padding", [SAME, VALID])
def test_the_hazard_goes(padding: int) -> None:
    before = lines(padding)
    after = fixed(before, RULE, FIX)
    assert findings(after, RULE) == []
    check_same(before, after)


def test_qlinear_layers_take_the_stride_too() -> None:
    made = Qdq()
    rng = np.random.default_rng(2)
    x = made.writer.quantize(made.writer.input("x", (1, 3, 8, 8)), 0.05, -3)
    scale, zero = made.writer.constant(0.05), made.writer.constant(np.array(-3, np.int8))
    unit, none = made.writer.constant(0.01), made.writer.constant(np.array(0, np.int8))
    for shape, attrs in (((3, 1, 3, 3), {"group": 3, "strides": [2, 2]}), ((4, 3, 1, 1), {})):
        weights = made.writer.constant(rng.integers(-50, 50, shape).astype(np.int8))
        inputs = (x, scale, zero, weights, unit, none, scale, zero)
        x = made.writer.node("QLinearConv", *inputs, name=f"conv{shape[0]}", **attrs)
    before = made.finish(made.writer.dequantize(x, 0.05, -3))
    after = edited(before, FIX, "QLinearConv:conv3")
    assert strides(after) == [(1, 1), (2, 2)]
    check_same(before, after)


def test_padding_that_depends_on_the_stride_is_stated() -> None:
    made = Qdq()
    weights = made.writer.dequantized_constant(np.ones((3, 1, 3, 3), np.int8), 0.1)
    attrs = {"auto_pad": "SAME_UPPER", "strides": [2, 2], "group": 3}
    x = made.op("Conv", made.input((1, 3, 8, 8)), weights, **attrs)
    dense = made.writer.dequantized_constant(np.ones((4, 3, 1, 1), np.int8), 0.1)
    before = made.finish(made.op("Conv", x, dense))
    named = next(node for node in nodes(before) if node.startswith("Conv:"))
    check_same(before, edited(before, FIX, named))


def test_other_readers_keep_the_stride_where_it_is() -> None:
    made = Net((1, 8, 8, 3))
    made.conv(0, 3, 2, depthwise=True)
    made.conv(4, 3)
    sentence = misfit(to_tflite(made), FIX, "DEPTHWISE_CONV_2D:#0")
    assert sentence == "the result is read by a CONV_2D, not by a 1x1 convolution"
    named = next(node for node in nodes(to_onnx(made)) if node.startswith("Conv:"))
    sentence = misfit(to_onnx(made), FIX, named)
    assert sentence == "the result is read by a Conv, not by a 1x1 convolution"


def test_an_output_and_a_plain_layer_are_no_place() -> None:
    made = Net((1, 8, 8, 3))
    made.conv(0, 3, 2, depthwise=True)
    sentence = misfit(to_tflite(made), FIX, "DEPTHWISE_CONV_2D:#0")
    assert sentence == "'output' is an output of the network"
    made = Net((1, 8, 8, 3))
    made.conv(0, 3, 1, depthwise=True)
    sentence = misfit(to_tflite(made), FIX, "DEPTHWISE_CONV_2D:#0")
    assert sentence == "the convolution has no stride"
