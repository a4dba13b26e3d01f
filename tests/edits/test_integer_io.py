"""Integers at the border: the conversions go, names stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edits.border_case import edited, graph_of, misfit
from edits.number_case import conv, furthest, input_pair, int8, largest_change, on_cpu
from models import OnnxWriter, TfliteWriter
from npuscope.compiler.passes.numbers import with_io_types
from npuscope.graph.model import DType
from npuscope.rulebook.finding import Value

OUT = 1 / 30


def onnx_net() -> bytes:
    writer = OnnxWriter()
    made = conv(writer, input_pair(writer, (1, 4, 6, 6)), int8((8, 4, 1, 1)))
    y = writer.dequantize(writer.quantize(made, OUT, 9), OUT, 9, output="y")
    return writer.finish({y: (1, 8, 6, 6)})


def border(data: bytes) -> list[tuple[str, int]]:
    graph = onnx.load_from_string(data).graph
    return [(e.name, e.type.tensor_type.elem_type) for e in (*graph.input, *graph.output)]


FLOAT, INT8, UINT8 = 1, 3, 2


def test_onnx_input() -> None:
    before = onnx_net()
    data = edited(before, "integer-input")
    assert border(data) == [("x", INT8), ("y", FLOAT)]
    assert not any(
        n.op_type == "QuantizeLinear" for n in onnx.load_from_string(data).graph.node[:1]
    )
    assert largest_change(before, data) == 0
    assert furthest(before, data) == 0


def test_onnx_input_unsigned() -> None:
    before = onnx_net()
    data = edited(before, "integer-input", type="uint8")
    assert border(data) == [("x", UINT8), ("y", FLOAT)]
    quant = graph_of(data).tensor("x").quant
    assert quant is not None
    assert quant.zero_point == 125
    assert largest_change(before, data) == 0


def test_onnx_output() -> None:
    before = onnx_net()
    data = edited(before, "integer-output")
    assert border(data) == [("x", FLOAT), ("y", INT8)]
    assert largest_change(before, data) == 0
    assert furthest(before, data) < 1e-6


def test_onnx_output_that_is_also_read() -> None:
    writer = OnnxWriter()
    made = conv(writer, input_pair(writer, (1, 4, 6, 6)), int8((8, 4, 1, 1)))
    y = writer.dequantize(writer.quantize(made, OUT, 9), OUT, 9, output="y")
    z = writer.qdq(writer.node("Sigmoid", y), 1 / 256, -128)
    before = writer.finish({y: None, z: None})
    data = edited(before, "integer-output")
    assert [kind for _, kind in border(data)] == [FLOAT, INT8, INT8]
    assert furthest(before, data) < 1e-6


def test_onnx_misfits() -> None:
    writer = OnnxWriter()
    relu = writer.node("Relu", writer.input("x", (1, 4)))
    net = writer.finish({writer.node("Relu", writer.qdq(relu, OUT), output="y"): None})
    sentence = "input 'x' is read by Relu, not by QuantizeLinear alone"
    assert misfit(net, "integer-input") == sentence
    sentence = "output 'y' comes from Relu, not from DequantizeLinear"
    assert misfit(net, "integer-output") == sentence
    done = edited(edited(onnx_net(), "integer-input"), "integer-output")
    for fix in ("integer-input", "integer-output"):
        assert misfit(done, fix) == "nothing is converted at this input or output"
    writer = OnnxWriter()
    x = writer.input("x", (1, 4))
    net = writer.finish({writer.node("Add", writer.qdq(x, OUT), writer.qdq(x, OUT * 2)): None})
    sentence = "input 'x' is quantized in more than one way"
    assert misfit(net, "integer-input") == sentence


def tflite_net(outer: str = "float32", outputs: int = 1) -> bytes:
    writer = TfliteWriter()
    quant = {} if outer == "float32" else {"scale": 1 / 50, "zero_point": 131}
    x = writer.tensor("x", (1, 5, 5, 8), outer, **quant)
    inner = writer.tensor("inner", (1, 5, 5, 8), scale=1 / 50, zero_point=3)
    writer.op("QUANTIZE", [x], [inner])
    ends = []
    for number in range(outputs):
        made = writer.tensor(f"made{number}", (1, 5, 5, 8), scale=1 / 50, zero_point=3)
        ends.append(writer.tensor(f"y{number}", (1, 5, 5, 8), outer, **quant))
        writer.op("RELU", [inner], [made])
        kind = "DEQUANTIZE" if outer == "float32" else "QUANTIZE"
        writer.op(kind, [made], [ends[-1]])
    return writer.finish([x], ends)


@pytest.mark.parametrize("outer", ["float32", "uint8"])
def test_tflite(outer: str) -> None:
    before = tflite_net(outer)
    data = edited(edited(before, "integer-input"), "integer-output")
    graph = graph_of(data)
    assert (graph.inputs, graph.outputs) == (("x",), ("y0",))
    assert [op.kind for op in graph.ops] == ["Clip"]
    assert graph.tensor("x").dtype is graph.tensor("y0").dtype is DType.INT8
    assert largest_change(before, data) == 0
    assert furthest(before, data) < 1e-6


def test_tflite_unsigned_input() -> None:
    before = tflite_net()
    data = edited(before, "integer-input", type="uint8")
    assert graph_of(data).tensor("x").dtype is DType.UINT8
    assert largest_change(before, data) == 0
    assert on_cpu(data) < on_cpu(before)
    sentence = "input 'x' is already uint8"
    assert misfit(data, "integer-input", type="uint8") == sentence


def test_a_finding_names_one_of_several_outputs() -> None:
    before = tflite_net(outputs=2)
    data = edited(before, "integer-output", "DEQUANTIZE:#4")
    types = [graph_of(data).tensor(name).dtype for name in ("y0", "y1")]
    assert types == [DType.FLOAT32, DType.INT8]


def test_tflite_misfits() -> None:
    writer = TfliteWriter()
    x, y = (writer.tensor(name, (1, 8), "float32") for name in "xy")
    writer.op("RELU", [x], [y])
    net = writer.finish([x], [y])
    sentence = "input 'x' is read by RELU, not by QUANTIZE alone"
    assert misfit(net, "integer-input") == sentence
    assert misfit(net, "integer-output") == "output 'y' comes from RELU, not from DEQUANTIZE"


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_like_the_option(kind: Value) -> None:
    """The file takes what --input-data-type would make of it."""
    before = tflite_net()
    data = edited(before, "integer-input", type=kind)
    wanted = with_io_types(graph_of(before), str(kind), None)
    found = graph_of(data)
    a, b = (graph.tensor(graph.inputs[0]) for graph in (wanted, found))
    assert a.dtype is b.dtype
    assert np.isclose(a.quant.scale, b.quant.scale)
    assert a.quant.zero_point == b.quant.zero_point
