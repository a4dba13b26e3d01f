"""A float network as quantizers take it: what is folded, what is one op, and what stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from models_onnx import OnnxWriter
from npuscope.files.onnx.float_file import folded_file
from npuscope.profiling.runtimes import onnxruntime_session

SHAPE = (1, 4, 5, 5)


def folded(w: OnnxWriter, shape: tuple[int, ...] = SHAPE) -> list[str]:
    """Kinds of the folded network, which computes what the network did."""
    pytest.importorskip("onnxruntime")
    data = w.finish({"y": None})
    proto = folded_file(onnx.load_model_from_string(data), Path("m.onnx"), [])
    image = np.random.default_rng(3).normal(0, 2, shape).astype(np.float32)
    results = []
    for model in (data, proto.SerializeToString()):
        results.append(onnxruntime_session(model).run(None, {"x": image})[0])
    assert np.abs(results[0] - results[1]).max() < 2e-5 * max(np.abs(results[0]).max(), 1)
    return [node.op_type for node in proto.graph.node]


def number(w: OnnxWriter, value: float) -> str:
    return w.constant(np.float32(value))


def row(w: OnnxWriter, *shape: int, seed: int = 0) -> str:
    return w.constant(np.random.default_rng(seed).uniform(0.5, 2, shape).astype(np.float32))


def conv(w: OnnxWriter, x: str) -> str:
    return w.node("Conv", x, row(w, 4, 4, 3, 3), pads=[1] * 4)


def norm(w: OnnxWriter, x: str) -> str:
    return w.node("BatchNormalization", x, *(row(w, 4, seed=n) for n in range(4)))


FOLLOWERS: dict[str, Callable[[OnnxWriter, str], str]] = {
    "norm": norm,
    "two norms": lambda w, x: norm(w, norm(w, x)),
    "product": lambda w, x: w.node("Mul", x, row(w, 4, 1, 1)),
    "product from the left": lambda w, x: w.node("Mul", row(w, 1, 4, 1, 1), x),
    "quotient": lambda w, x: w.node("Div", x, number(w, 3.0)),
    "sum": lambda w, x: w.node("Add", x, row(w, 1, 4, 1, 1)),
    "difference": lambda w, x: w.node("Sub", x, row(w, 4, 1, 1)),
    "difference from the left": lambda w, x: w.node("Sub", number(w, 1.5), x),
    "all of them": lambda w, x: norm(
        w, w.node("Mul", w.node("Add", w.node("Identity", x), row(w, 4, 1, 1)), number(w, 2.0))
    ),
}


@pytest.mark.parametrize("name", FOLLOWERS)
def test_what_scales_and_shifts_channels_is_part_of_the_layer(name: str) -> None:
    w = OnnxWriter()
    x = FOLLOWERS[name](w, conv(w, w.input("x", SHAPE)))
    w.node("Relu", x, output="y")
    assert folded(w) == ["Conv", "Relu"]


@pytest.mark.parametrize(
    "shape", [(1, 4, 5, 5), (5, 5), (5,), (2, 1, 1, 1, 1)], ids=["image", "plane", "line", "batch"]
)
def test_what_differs_within_a_channel_stays(shape: tuple[int, ...]) -> None:
    w = OnnxWriter()
    w.node("Mul", conv(w, w.input("x", SHAPE)), row(w, *shape), output="y")
    assert folded(w) == ["Conv", "Mul"]


def test_a_layer_that_others_read_stays_as_it_is() -> None:
    w = OnnxWriter()
    x = conv(w, w.input("x", SHAPE))
    w.node("Add", w.node("Mul", x, number(w, 2.0)), x, output="y")
    assert folded(w) == ["Conv", "Mul", "Add"]


def test_dense_layers_take_them_too() -> None:
    w = OnnxWriter()
    x = w.node("MatMul", w.input("x", (1, 6)), row(w, 6, 4))
    x = norm(w, w.node("Add", x, row(w, 4)))
    w.node("Relu", x, output="y")
    assert folded(w, (1, 6)) == ["MatMul", "Add", "Relu"]


def test_a_norm_without_a_layer_is_a_depthwise_one() -> None:
    w = OnnxWriter()
    x = w.node("MaxPool", w.input("x", SHAPE), kernel_shape=[2, 2])
    w.node("Relu", norm(w, x), output="y")
    assert folded(w) == ["MaxPool", "Conv", "Relu"]


def gelu(w: OnnxWriter, x: str, order: int) -> str:
    half, one, root = (number(w, value) for value in (0.5, 1.0, 1.41421))
    curve = w.node("Add", w.node("Erf", w.node("Div", x, root)), one)
    if order == 0:
        return w.node("Mul", w.node("Mul", x, curve), half)
    if order == 1:
        return w.node("Mul", w.node("Mul", x, half), curve)
    return w.node("Mul", x, w.node("Mul", half, curve))


def tanh_gelu(w: OnnxWriter, x: str, power: bool) -> str:
    cube = w.node("Pow", x, number(w, 3.0)) if power else w.node("Mul", w.node("Mul", x, x), x)
    inner = w.node("Add", x, w.node("Mul", number(w, 0.044715), cube))
    curve = w.node("Tanh", w.node("Mul", inner, number(w, 0.7978846)))
    half = w.node("Mul", number(w, 0.5), x)
    return w.node("Mul", half, w.node("Add", number(w, 1.0), curve))


def hard_swish(w: OnnxWriter, x: str, form: int) -> str:
    if form == 0:
        return w.node("Mul", x, w.node("HardSigmoid", x, alpha=1 / 6, beta=0.5))
    gate = w.node("Clip", w.node("Add", x, number(w, 3.0)), number(w, 0.0), number(w, 6.0))
    if form == 1:
        return w.node("Div", w.node("Mul", x, gate), number(w, 6.0))
    return w.node("Mul", w.node("Mul", gate, number(w, 1 / 6)), x)


@pytest.mark.parametrize(
    ("chain", "kind"),
    [
        *((lambda w, x, n=n: gelu(w, x, n), "Gelu") for n in range(3)),
        *((lambda w, x, n=n: tanh_gelu(w, x, n), "Gelu") for n in (False, True)),
        *((lambda w, x, n=n: hard_swish(w, x, n), "HardSwish") for n in range(3)),
        (
            lambda w, x: w.node(
                "Div",
                w.node("Clip", w.node("Add", number(w, 3.0), x), number(w, 0.0), number(w, 6.0)),
                number(w, 6.0),
            ),
            "HardSigmoid",
        ),
    ],
)
def test_chains_are_the_op_that_they_are(
    chain: Callable[[OnnxWriter, str], str], kind: str
) -> None:
    w = OnnxWriter()
    x = conv(w, w.input("x", SHAPE))
    w.node("Relu", chain(w, x), output="y")
    assert folded(w) == ["Conv", kind, "Relu"]


def test_a_chain_with_other_numbers_stays() -> None:
    w = OnnxWriter()
    x = conv(w, w.input("x", SHAPE))
    curve = w.node("Add", w.node("Erf", w.node("Div", x, number(w, 1.5))), number(w, 1.0))
    w.node("Mul", w.node("Mul", x, curve), number(w, 0.5), output="y")
    assert "Gelu" not in folded(w)


def layer_norm(w: OnnxWriter, x: str, axis: int, twice: bool = False) -> str:
    mean = w.node("ReduceMean", x, axes=[axis])
    gap = w.node("Sub", x, mean)
    square = w.node("Pow", gap, number(w, 2.0))
    variance = w.node("Add", w.node("ReduceMean", square, axes=[axis]), number(w, 1e-5))
    gap = w.node("Sub", x, mean) if twice else gap
    normal = w.node("Div", gap, w.node("Sqrt", variance))
    return w.node("Add", w.node("Mul", normal, row(w, 5)), row(w, 5, seed=1))


@pytest.mark.parametrize(("axis", "twice"), [(-1, False), (-1, True), (2, False)])
def test_layer_normalization_over_the_last_axis(axis: int, twice: bool) -> None:
    """Old exporters write the difference from the mean twice."""
    w = OnnxWriter()
    w.node("Relu", layer_norm(w, w.input("x", SHAPE), axis, twice), output="y")
    found = folded(w)
    assert (found == ["LayerNormalization", "Relu"]) is (axis == -1)
