"""Zero points that free the fast mode of a layer."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import MACHINES
from edits.border_case import edited, graph_of, misfit
from edits.number_case import conv, furthest, int8, largest_change, least_sqnr
from models import OnnxWriter, TfliteWriter
from models_tflite import SAME
from npuscope.compiler.pipeline import compile_graph
from npuscope.edits import NotFitting
from npuscope.edits.numbers import fast_quant
from npuscope.graph.model import Quant
from npuscope.program.modes import Simd

IN = 1 / 64


@pytest.mark.parametrize(
    ("zero", "offset", "scale", "wanted"),
    [
        (-1, 0, 0.5, (0.5, 0)),
        (4, 0, 0.5, (0.5, 0)),
        (-125, 0, 0.5, (0.5, -128)),
        (127, 128, 0.5, (0.5, 128)),  # uint8
        (2, 128, 0.5, (0.5, 0)),
        (-28, 0, 1.0, (155 / 127, 0)),
        (72, 0, 1.0, (200 / 128, 0)),
        (100, 128, 1.0, (155 / 127, 128)),
    ],
)
def test_the_nearest(zero: int, offset: int, scale: float, wanted: tuple[float, int]) -> None:
    found = fast_quant(Quant((scale,), (zero,)), offset)
    assert (found.scale, found.zero_point) == pytest.approx(wanted)


def test_free_ones() -> None:
    for zero in (0, -128):
        with pytest.raises(NotFitting, match=f"zero point {zero} already costs nothing"):
            fast_quant(Quant((1.0,), (zero,)))


def modes(data: bytes) -> set[Simd]:
    program = compile_graph(graph_of(data), MACHINES["4.0"])
    return {unit.simd for epoch in program.epochs for unit in epoch.units if hasattr(unit, "simd")}


def onnx_net(zero: int, inner: int = 0) -> bytes:
    """Two dense layers; the zero points of both inputs."""
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 4, 6, 6)), IN, zero)
    made = writer.qdq(conv(writer, x, int8((8, 4, 3, 3)), name="first"), 1 / 6, inner)
    last = writer.qdq(conv(writer, made, int8((8, 8, 1, 1)), name="second"), 1 / 4, 3)
    return writer.finish({last: None})


def test_onnx_input_within_a_few_steps() -> None:
    before = onnx_net(-3)
    data = edited(before, "zero-point", "Conv:first")
    graph = graph_of(data)
    assert graph.tensor("x").quant == Quant((IN,), (0,))
    assert Simd.S16X8 in modes(before)
    assert Simd.S16X8 not in modes(data)
    assert least_sqnr(before, data) > 30  # three steps at one end are cut
    assert furthest(before, data) == 0  # inside of it nothing changes


def test_onnx_input_further_away() -> None:
    before = onnx_net(-40)
    data = edited(before, "zero-point", "Conv:first")
    quant = graph_of(data).tensor("x").quant
    assert quant is not None
    assert quant.zero_point == 0
    assert quant.scale == pytest.approx(IN * 167 / 127)
    assert largest_change(before, data) <= 2
    assert furthest(before, data) <= 2 / 4


def test_onnx_between_two_layers() -> None:
    before = onnx_net(0, -20)
    data = edited(before, "zero-point", "Conv:second")
    assert Simd.S16X8 not in modes(data)
    assert largest_change(before, data) <= 2
    assert furthest(before, data) <= 2 / 4


def test_onnx_moves_are_tied() -> None:
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 6, 6, 4)), IN, -3)
    turned = writer.qdq(writer.node("Transpose", x, perm=[0, 3, 1, 2]), IN, -3)
    made = writer.qdq(conv(writer, turned, int8((8, 4, 1, 1)), name="first"), 1 / 16, 3)
    before = writer.finish({made: None})
    data = edited(before, "zero-point", "Conv:first")
    points = {t.quant.zero_point for t in graph_of(data).tensors.values() if t.quant}
    assert -3 not in points
    assert furthest(before, data) == 0


def test_onnx_moves_of_integers_are_tied() -> None:
    writer = OnnxWriter()
    q = writer.quantize(writer.input("x", (1, 6, 6, 4)), IN, -3)
    turned = writer.node("Transpose", q, perm=[0, 3, 1, 2])
    x = writer.dequantize(turned, IN, -3)
    made = writer.qdq(conv(writer, x, int8((8, 4, 1, 1)), name="first"), 1 / 16, 3)
    again = writer.qdq(writer.node("Sigmoid", writer.dequantize(q, IN, -3)), 1 / 256, -128)
    before = writer.finish({made: None, again: None})
    data = edited(before, "zero-point", "Conv:first")
    assert furthest(before, data) == 0


def test_onnx_moves_behind_the_tensor_are_tied() -> None:
    writer = OnnxWriter()
    q = writer.quantize(writer.input("x", (1, 4, 6, 6)), IN, -3)
    x = writer.dequantize(q, IN, -3)
    made = writer.qdq(conv(writer, x, int8((8, 4, 1, 1)), name="first"), 1 / 16, 3)
    turned = writer.dequantize(writer.node("Transpose", q, perm=[0, 2, 3, 1]), IN, -3)
    again = writer.qdq(writer.node("Sigmoid", turned), 1 / 256, -128)
    before = writer.finish({made: None, again: None})
    data = edited(before, "zero-point", "Conv:first")
    assert furthest(before, data) == 0


def integer_net(zero: int) -> bytes:
    """A QLinearConv, whose bias has no scale of its own."""
    writer = OnnxWriter()
    x = writer.quantize(writer.input("x", (1, 4, 6, 6)), IN, zero)
    pairs = [
        [writer.constant(np.array(scale, np.float32)), writer.constant(np.array(point, np.int8))]
        for scale, point in ((IN, zero), (1 / 128, 0), (1 / 16, 3))
    ]
    weights, bias = writer.constant(int8((8, 4, 3, 3))), np.arange(8, dtype=np.int32) * 7000
    inputs = [x, *pairs[0], weights, *pairs[1], *pairs[2], writer.constant(bias)]
    made = writer.node("QLinearConv", *inputs, name="first")
    return writer.finish({writer.dequantize(made, 1 / 16, 3): None})


@pytest.mark.parametrize(("zero", "steps"), [(-3, 0), (-40, 2)])
def test_onnx_integer_form(zero: int, steps: int) -> None:
    before = integer_net(zero)
    data = edited(before, "zero-point", "QLinearConv:first")
    assert Simd.S16X8 not in modes(data)
    assert furthest(before, data) <= steps / 16 + 1e-6


def test_onnx_misfits() -> None:
    assert misfit(onnx_net(0), "zero-point", "Conv:first") == "zero point 0 already costs nothing"
    writer = OnnxWriter()
    x = writer.quantize(writer.input("x", (1, 4, 6, 6)), IN, -3, output="q")
    first = conv(writer, writer.dequantize(x, IN, -3), int8((8, 4, 1, 1)), name="first")
    again = writer.dequantize(writer.node("Concat", x, x, axis=1), IN, -3)
    net = writer.finish({writer.qdq(first, IN): None, again: None})
    assert misfit(net, "zero-point", "Conv:first") == "'q' is also used by Concat"


def tflite_net(zero: int, kind: str = "") -> bytes:
    """A pad and a layer; another reader of the input besides."""
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 6, 6, 4), scale=IN, zero_point=zero)
    pads = writer.constant("pads", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    wide = writer.tensor("wide", (1, 8, 8, 4), scale=IN, zero_point=zero)
    weights = writer.constant("w", int8((8, 3, 3, 4)), scale=1 / 128)
    bias = writer.constant("b", np.arange(8, dtype=np.int32) * 7000, scale=IN / 128)
    y = writer.tensor("y", (1, 8, 8, 8), scale=1 / 16, zero_point=3)
    writer.op("PAD", [x, pads], [wide])
    writer.op("CONV_2D", [wide, weights, bias], [y], padding=SAME)
    if not kind:
        return writer.finish([x], [y])
    z = writer.tensor("z", (1, 6, 6, 4), scale=IN, zero_point=zero)
    writer.op(kind, [x], [z])
    return writer.finish([x], [y, z])


@pytest.mark.parametrize(("zero", "steps"), [(-1, 0), (3, 0), (-40, 8)])
def test_tflite(zero: int, steps: int) -> None:
    before = tflite_net(zero)
    data = edited(before, "zero-point", "CONV_2D:#1")
    graph = graph_of(data)
    for name in ("x", "wide"):
        quant = graph.tensor(name).quant
        assert quant is not None
        assert quant.zero_point == 0
    assert Simd.S16X8 in modes(before)
    assert Simd.S16X8 not in modes(data)
    assert furthest(before, data) <= steps / 16
    assert largest_change(before, data) <= steps + 3


def test_tflite_misfits() -> None:
    sentence = "'x' is also used by CONCATENATION"
    net = tflite_net(-3, "CONCATENATION")
    assert misfit(net, "zero-point", "CONV_2D:#1") == sentence
    net = tflite_net(-3, "RESHAPE")
    assert misfit(net, "zero-point", "CONV_2D:#1") == "'z' is an output of the network"
    assert misfit(tflite_net(0), "zero-point", "CONV_2D:#1") == "zero point 0 already costs nothing"
    sentence = "none of its ops is a CONV_2D or FULLY_CONNECTED or DEPTHWISE_CONV_2D of this file"
    assert misfit(net, "zero-point", "ADD:#7") == sentence
