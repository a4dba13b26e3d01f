"""Depthwise kernels of more columns than the unit takes."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import MACHINES
from edits.border_case import edited, graph_of, misfit
from edits.number_case import (
    IN_SCALE,
    IN_ZERO,
    conv,
    furthest,
    input_pair,
    int8,
    largest_change,
    on_cpu,
)
from models import OnnxWriter, TfliteWriter
from models_tflite import NONE, RELU, SAME, VALID
from npuscope.advice.fix.workbench import BenchNetwork
from npuscope.edits.kernels import halves
from npuscope.ops.layers import ConvAttrs

C, OUT = 8, 1 / 8


def onnx_net(size: int, kernel: int, pad: int, relu: bool = False) -> bytes:
    writer = OnnxWriter()
    weights = int8((C, 1, 3, kernel))
    attrs = {"group": C, "pads": [1, pad, 1, pad], "kernel_shape": [3, kernel]}
    made = conv(writer, input_pair(writer, (1, C, size, size)), weights, name="wide", **attrs)
    made = writer.node("Relu", made) if relu else made
    return writer.finish({writer.qdq(made, OUT, -100 if relu else 4): None})


def integer_net(size: int, kernel: int, pad: int, bias_step: int = 4000) -> bytes:
    """The same with a QLinearConv."""
    writer = OnnxWriter()
    x = writer.quantize(writer.input("x", (1, C, size, size)), IN_SCALE, IN_ZERO)
    pairs = [
        [writer.constant(np.array(scale, np.float32)), writer.constant(np.array(zero, np.int8))]
        for scale, zero in ((IN_SCALE, IN_ZERO), (1 / 128, 0), (OUT, 4))
    ]
    weights = writer.constant(int8((C, 1, 3, kernel)))
    bias = writer.constant(np.arange(C, dtype=np.int32) * bias_step)
    inputs = [x, *pairs[0], weights, *pairs[1], *pairs[2], bias]
    made = writer.node("QLinearConv", *inputs, name="wide", group=C, pads=[1, pad, 1, pad])
    return writer.finish({writer.dequantize(made, OUT, 4): None})


@pytest.mark.parametrize("net", [onnx_net, integer_net])
def test_a_single_column_takes_another_stride(net: type) -> None:
    before = net(7, 7, 0)
    node = "Conv:wide" if net is onnx_net else "QLinearConv:wide"
    data = edited(before, "narrower-kernel", node)
    graph = graph_of(data)
    (attrs,) = [op.attrs_as(ConvAttrs) for op in graph.ops if op.kind == "Conv2D"]
    assert attrs.strides == (1, 2)  # seven rows of results: no stride down
    assert on_cpu(before) > 0
    assert on_cpu(data) == 0
    assert on_cpu(data, "4.0") == 0
    assert largest_change(before, data) == 0
    assert furthest(before, data) == 0


@pytest.mark.parametrize("net", [onnx_net, integer_net])
@pytest.mark.parametrize("kernel", [7, 9, 11])
def test_two_halves(net: type, kernel: int) -> None:
    before = net(13, kernel, kernel // 2)
    node = "Conv:wide" if net is onnx_net else "QLinearConv:wide"
    data = edited(before, "narrower-kernel", node)
    kernels = [graph_of(data).tensor(op.inputs[1]).shape[2] for op in layers(data)]
    assert kernels == [kernel // 2 + 1] * 2
    assert on_cpu(before) > 0
    assert on_cpu(data) == 0
    assert on_cpu(data, "4.0") == 0
    assert largest_change(before, data) <= 2
    assert furthest(before, data) <= 2.01 * OUT


def test_the_half_with_the_bias_has_room_for_it() -> None:
    step = 400_000
    graph = graph_of(integer_net(13, 7, 3, step))
    (layer,) = [op for op in graph.ops if op.kind == "Conv2D"]
    first, second = halves(BenchNetwork(graph, MACHINES["2.2"]), layer, 6)
    most = (C - 1) * step * IN_SCALE / 128
    assert first.reach[1] > most
    assert second.reach[1] < most / 2


def layers(data: bytes) -> list:
    return [op for op in graph_of(data).ops if op.kind == "Conv2D"]


def test_a_clamp_stays_behind_the_sum() -> None:
    before = onnx_net(13, 7, 3, relu=True)
    data = edited(before, "narrower-kernel", "Conv:wide")
    assert on_cpu(data) == 0
    assert largest_change(before, data) <= 2


def test_what_does_not_fit() -> None:
    before = onnx_net(13, 7, 0)
    sentence = "7 columns with a padding of 0 and 0 cannot be split into two halves of at most 6"
    assert misfit(before, "narrower-kernel", "Conv:wide") == sentence
    sentence = "none of its ops is a Conv or QLinearConv of this file"
    assert misfit(before, "narrower-kernel", "Relu:x") == sentence
    sentence = "13 columns with a padding of 6 and 6 cannot be split into two halves of at most 6"
    assert misfit(onnx_net(13, 13, 6), "narrower-kernel", "Conv:wide") == sentence


def tflite_net(size: int, kernel: int, padding: int, activation: int = NONE) -> bytes:
    writer = TfliteWriter()
    width = size if padding == SAME else size - kernel + 1
    height = size if padding == SAME else size - 2
    x = writer.tensor("x", (1, size, size, C), scale=IN_SCALE, zero_point=IN_ZERO)
    scales = tuple(np.linspace(0.5, 1, C) / 128)
    weights = writer.constant("w", int8((1, 3, kernel, C)), scale=scales, axis=3)
    biases = tuple(IN_SCALE * scale for scale in scales)
    bias = writer.constant("b", np.arange(C, dtype=np.int32) * 4000, scale=biases, axis=0)
    zero = 4 if activation == NONE else -128
    y = writer.tensor("y", (1, height, width, C), scale=OUT, zero_point=zero)
    options = {"padding": padding, "fusedActivationFunction": activation}
    writer.op("DEPTHWISE_CONV_2D", [x, weights, bias], [y], **options)
    return writer.finish([x], [y])


def test_tflite_single_column() -> None:
    before = tflite_net(7, 7, VALID)
    data = edited(before, "narrower-kernel", "DEPTHWISE_CONV_2D:#0")
    assert on_cpu(before) > 0
    assert on_cpu(data) == 0
    assert largest_change(before, data) == 0
    assert furthest(before, data) == 0


@pytest.mark.parametrize("kernel", [7, 9, 11])
@pytest.mark.parametrize("activation", [NONE, RELU])
def test_tflite_halves(kernel: int, activation: int) -> None:
    before = tflite_net(13, kernel, SAME, activation)
    data = edited(before, "narrower-kernel", "DEPTHWISE_CONV_2D:#0")
    assert on_cpu(before) > 0
    assert on_cpu(data) == 0
    assert on_cpu(data, "4.0") == 0
    assert largest_change(before, data) <= 2
    assert furthest(before, data) <= 2.01 * OUT


def test_tflite_misfits() -> None:
    sentence = "7 columns with a padding of 0 and 0 cannot be split into two halves of at most 6"
    before = tflite_net(13, 7, VALID)
    assert misfit(before, "narrower-kernel", "DEPTHWISE_CONV_2D:#0") == sentence
    sentence = "none of its ops is a DEPTHWISE_CONV_2D of this file"
    assert misfit(before, "narrower-kernel", "ADD:#1") == sentence
