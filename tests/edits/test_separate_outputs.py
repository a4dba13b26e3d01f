"""Parts of a last Concat become outputs of their own."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from advice.runs import build
from compiler.nets import MACHINES
from edits.border_case import edited, graph_of, misfit, outside
from models import OnnxWriter, TfliteWriter
from npuscope.rulebook.registry import lint_graph

RULE = "LINT-CONCAT-AXIS"


def rules(data: bytes) -> set[str]:
    return {finding.rule for finding in lint_graph(graph_of(data), MACHINES["4.0"])}


def tflite(*behind: str, activation: int = 0, twice: bool = False, constant: bool = False) -> bytes:
    """Two ops side by side, joined along the rows."""
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 4, 8), scale=0.1)
    parts = [writer.tensor(name, (1, 4, 8), scale=0.1) for name in ("a", "b")]
    writer.op("RELU", [x], [parts[0]])
    writer.op("RELU6", [x], [parts[1]])
    if twice:
        parts[1] = parts[0]
    if constant:
        parts[1] = writer.constant("c", np.ones((1, 4, 8), np.int8), scale=0.1)
    y = writer.tensor("joined", (1, 8, 8), scale=0.1)
    writer.op("CONCATENATION", parts, [y], axis=1, fusedActivationFunction=activation)
    for kind in behind:
        real = {"dtype": "float32"} if kind == "DEQUANTIZE" else {"scale": 0.1}
        new = writer.tensor(f"y_{kind}", (1, 8, 8), **real)  # type: ignore[arg-type]
        writer.op(kind, [y], [new])
        y = new
    return writer.finish([x], [y])


def test_tflite_gives_the_parts() -> None:
    before = tflite()
    data = edited(before, "separate-outputs", "CONCATENATION:#2")
    parts = outside(data)
    assert list(parts) == ["a", "b"]
    assert np.array_equal(np.concatenate([*parts.values()], 1), outside(before)["joined"])
    assert RULE in rules(before)
    assert RULE not in rules(data)
    build(graph_of(data))


def test_tflite_keeps_the_conversion_for_each_part() -> None:
    before = tflite("DEQUANTIZE")
    data = edited(before, "separate-outputs", "CONCATENATION:#2")
    parts = outside(data)
    assert list(parts) == ["a_out", "b_out"]
    assert np.array_equal(np.concatenate([*parts.values()], 1), outside(before)["y_DEQUANTIZE"])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (tflite("RELU"), "its result is used inside the network"),
        (tflite(activation=1), "the Concat has an activation of its own"),
        (
            tflite(twice=True),
            "a part of the Concat occurs twice, or is already an output",
        ),
        (
            tflite(constant=True),
            "a part of the Concat is not computed: it is an input or a constant",
        ),
    ],
)
def test_where_it_cannot_be_done(data: bytes, sentence: str) -> None:
    assert misfit(data, "separate-outputs", "CONCATENATION:#2") == sentence


def test_another_op() -> None:
    assert misfit(tflite(), "separate-outputs", "RELU:#0") == "the network has no Concat"


def onnx_net(kind: str) -> bytes:
    """Heads of two scales, joined along the anchors."""
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 4, 8)), 1 / 64)
    a = writer.qdq(writer.node("Relu", x), 1 / 64)
    b = writer.qdq(writer.node("Sigmoid", x), 1 / 256, -128)
    if kind == "operator":
        return _operator(writer, a, b)
    y = writer.quantize(writer.node("Concat", a, b, name="join", axis=1), 1 / 64, output="q")
    if kind == "float":
        y = writer.dequantize(y, 1 / 64, output="y")
    types = {"integer": onnx.TensorProto.INT8}
    return writer.finish({y: (1, 8, 8)}, types.get(kind, onnx.TensorProto.FLOAT))


def _operator(writer: OnnxWriter, a: str, b: str) -> bytes:
    rows = []
    for part in (a, b):
        scale, zero = writer.constant(1 / 64), writer.constant(np.array(0, np.int8))
        rows += [writer.quantize(part, 1 / 64), scale, zero]
    scale, zero = writer.constant(1 / 64), writer.constant(np.array(0, np.int8))
    node = writer.node("com.microsoft.QLinearConcat", scale, zero, *rows, name="join", axis=1)
    writer.dequantize(node, 1 / 64, output="y")
    return writer.finish({"y": (1, 8, 8)})


@pytest.mark.parametrize(
    ("kind", "join", "name", "scales"),
    [
        ("float", "Concat:join", "y", (1, 1)),
        ("integer", "Concat:join", "q", (1 / 64, 1 / 256)),
        ("operator", "QLinearConcat:join", "y", (1, 1)),
    ],
)
def test_onnx_gives_the_parts_in_the_type_of_the_output(
    kind: str, join: str, name: str, scales: tuple[float, float]
) -> None:
    before = onnx_net(kind)
    data = edited(before, "separate-outputs", join)
    first, second = outside(data).values()
    whole = outside(before)[name]
    assert first.dtype == second.dtype == whole.dtype
    if kind == "integer":
        assert np.array_equal(first, whole[:, :4])
        second = np.rint((second + 128.0) * scales[1] * 64)
    # The second part had its own, finer scale before it was joined.
    assert np.abs(np.rint(second * (1 if kind == "integer" else 64)) - _steps(whole)).max() <= 1
    build(graph_of(data))


def _steps(whole: np.ndarray) -> np.ndarray:
    scale = 1 if whole.dtype == np.int8 else 64
    return np.rint(whole[:, 4:].astype(np.float64) * scale)


def test_an_input_is_no_part() -> None:
    writer = OnnxWriter()
    x = writer.input("x", (1, 4, 8))
    y = writer.node("Concat", writer.node("Relu", x), x, name="join", axis=1)
    data = writer.finish({y: (1, 8, 8)})
    sentence = "a part of the Concat is not computed: it is an input or a constant"
    assert misfit(data, "separate-outputs", "Concat:join") == sentence
