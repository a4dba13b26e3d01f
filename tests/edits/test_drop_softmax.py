"""The scores in front of a last Softmax become the output."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from advice.runs import build
from edits.border_case import edited, graph_of, misfit, outside
from models import OnnxWriter, TfliteWriter, mobilenet_like, to_onnx, to_tflite

NET = mobilenet_like()
TFLITE, ONNX = to_tflite(NET), to_onnx(NET)
SCORES = NET.layers[-2]
SOFTMAX = f"SOFTMAX:#{len(NET.layers) - 1}"


def softmax_of(data: bytes) -> str:
    nodes = onnx.load_from_string(data).graph.node
    return next(f"Softmax:#{n}" for n, node in enumerate(nodes) if node.op_type == "Softmax")


def normalised(real: np.ndarray) -> np.ndarray:
    share = np.exp(real - real.max(-1, keepdims=True))
    return share / share.sum(-1, keepdims=True)


def real_scores(steps: np.ndarray) -> np.ndarray:
    return (steps.astype(np.float64) - SCORES.zero_point) * SCORES.scale


def test_tflite() -> None:
    data = edited(TFLITE, "drop-softmax", SOFTMAX)
    (steps,), (shares,) = outside(data).values(), outside(TFLITE).values()
    assert np.abs(normalised(real_scores(steps)) * 256 - 128 - shares).max() <= 1
    assert not any(op.kind == "Softmax" for op in graph_of(data).ops)


def test_onnx_keeps_the_name_and_the_float_type() -> None:
    data = edited(ONNX, "drop-softmax", softmax_of(ONNX))
    real, shares = outside(data)["output"], outside(ONNX)["output"]
    assert real.dtype == np.float32
    assert np.abs(normalised(real) - shares).max() <= 1 / 256
    assert build(graph_of(data)).graph is not None


def behind(conversion: str) -> bytes:
    """A dense layer, a Softmax, and what makes of it an output of another type."""
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 8), scale=0.1)
    weights = np.random.default_rng(0).integers(-99, 99, (5, 8)).astype(np.int8)
    w = writer.constant("w", weights, scale=0.01)
    scores = writer.tensor("scores", (1, 5), scale=0.25, zero_point=7)
    shares = writer.tensor("shares", (1, 5), scale=1 / 256, zero_point=-128)
    writer.op("FULLY_CONNECTED", [x, w], [scores])
    writer.op("SOFTMAX", [scores], [shares])
    if conversion == "DEQUANTIZE":
        y = writer.tensor("y", (1, 5), "float32")
    else:
        y = writer.tensor("y", (1, 5), "uint8", scale=1 / 256)
    writer.op(conversion, [shares], [y])
    return writer.finish([x], [y])


def test_a_dequantize_behind_it_stays() -> None:
    before = behind("DEQUANTIZE")
    data = edited(before, "drop-softmax", "SOFTMAX:#1")
    real = outside(data)["y"]
    assert real.dtype == np.float32
    assert np.abs(normalised(real) - outside(before)["y"]).max() <= 1 / 256


def test_unsigned_outputs_get_the_scale_of_the_scores() -> None:
    before = behind("QUANTIZE")
    data = edited(before, "drop-softmax", "SOFTMAX:#1")
    steps = outside(data)["y"]
    assert steps.dtype == np.uint8
    real = (steps.astype(np.float64) - (7 + 128)) * 0.25
    assert np.abs(normalised(real) - outside(before)["y"] / 256).max() <= 1 / 256


def test_integer_outputs_of_onnx_get_the_scale_of_the_scores() -> None:
    before = onnx_net(lambda w, y: w.quantize(y, 1 / 256, -128, output="y"), onnx.TensorProto.INT8)
    data = edited(before, "drop-softmax", softmax_of(before))
    steps = outside(data)["y"]
    assert steps.dtype == np.int8
    shares = (outside(before)["y"] + 128.0) / 256
    assert np.abs(normalised(steps * 0.25) - shares).max() <= 1 / 256


def test_the_type_of_the_scores_may_be_another_one() -> None:
    before = onnx_net(
        lambda w, y: w.quantize(y, 1 / 256, -128, output="y"), onnx.TensorProto.INT8, "uint8"
    )
    data = edited(before, "drop-softmax", softmax_of(before))
    assert outside(data)["y"].dtype == np.uint8


@pytest.mark.parametrize("kind", ["tflite", "onnx"])
def test_shares_that_are_an_output_and_used_inside(kind: str) -> None:
    sentence = "its result is used inside the network"
    if kind == "onnx":
        writer = OnnxWriter()
        scores = writer.node("Relu", writer.qdq(writer.input("x", (1, 8)), 1 / 64))
        shares = writer.node("Softmax", writer.qdq(scores, 1 / 64), name="it")
        more = writer.node("Relu", shares)
        data = writer.finish({shares: (1, 8), more: (1, 8)})
        assert misfit(data, "drop-softmax", "Softmax:it") == sentence
        return
    other = TfliteWriter()
    x, scores_at = (other.tensor(name, (1, 5), scale=0.25) for name in ("x", "scores"))
    y, z = (other.tensor(name, (1, 5), scale=1 / 256, zero_point=-128) for name in ("y", "z"))
    other.op("RELU", [x], [scores_at])
    other.op("SOFTMAX", [scores_at], [y])
    other.op("RELU", [y], [z])
    assert misfit(other.finish([x], [y, z]), "drop-softmax", "SOFTMAX:#1") == sentence


def onnx_net(end: object, kind: int = onnx.TensorProto.FLOAT, scores: str = "int8") -> bytes:
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 8)), 1 / 64)
    weights = np.random.default_rng(0).integers(-99, 99, (8, 5)).astype(np.int8)
    y = writer.node("MatMul", x, writer.dequantized_constant(weights, 0.01))
    end(writer, writer.node("Softmax", writer.qdq(y, 0.25, dtype=scores)))  # type: ignore[operator]
    return writer.finish({"y": (1, 5)}, kind)


def test_a_softmax_inside_the_network_stays() -> None:
    before = onnx_net(lambda w, y: w.node("Relu", w.qdq(y, 1 / 256, -128), output="y"))
    sentence = "its result is used inside the network"
    assert misfit(before, "drop-softmax", softmax_of(before)) == sentence


def test_a_softmax_on_an_input() -> None:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 5), scale=0.25)
    y = writer.tensor("y", (1, 5), scale=1 / 256, zero_point=-128)
    writer.op("SOFTMAX", [x], [y])
    sentence = "nothing is computed before the Softmax"
    assert misfit(writer.finish([x], [y]), "drop-softmax", "SOFTMAX:#0") == sentence


def test_scores_that_are_an_output_already() -> None:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 5), scale=0.25)
    scores = writer.tensor("scores", (1, 5), scale=0.25)
    y = writer.tensor("y", (1, 5), scale=1 / 256, zero_point=-128)
    writer.op("RELU", [x], [scores])
    writer.op("SOFTMAX", [scores], [y])
    data = writer.finish([x], [scores, y])
    assert misfit(data, "drop-softmax", "SOFTMAX:#1") == "its scores are already an output"


@pytest.mark.parametrize("data", [TFLITE, ONNX], ids=["tflite", "onnx"])
def test_another_op(data: bytes) -> None:
    assert misfit(data, "drop-softmax", "CONV_2D:#0") == "the network has no Softmax"
