"""Norms, attention, scores, decoders: lint rules, each with a network and its counterpart."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import Net, per_tensor
from npuscope.graph.model import Attrs, DType, Graph
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.layers import MatMulAttrs
from npuscope.ops.norms import LayerNormAttrs
from rulebook.lint_case import IMAGE, Case, check, conv, found_by, image_net


def root_mean_square() -> Graph:
    """x / sqrt(x * x): a norm in pieces."""
    net, x = image_net()
    quant = per_tensor(0.05, 0)
    root = net.op("Sqrt", (net.add(x, x, "Mul", (0.05, 0)),), Attrs(), IMAGE, quant)
    net.op("Div", (x, root), BinaryAttrs(), IMAGE, quant)
    return net.graph()


def function(kind: str, floats: bool = False) -> Graph:
    net, x = image_net()
    if floats:
        x = net.dequantize(x)
        net.op(kind, (x,), Attrs(), IMAGE, None, DType.FLOAT32)
    else:
        net.op(kind, (x,), Attrs(), IMAGE, per_tensor(0.05, 0))
    return net.graph()


def binary(kind: str, constant_place: int | None = None, floats: bool = False) -> Graph:
    """Two operands; one of them may be constant."""
    net = Net()
    value = net.constant(np.full((1,), 5, np.int8), per_tensor(0.2, 0))
    names = [net.input(IMAGE), net.input(IMAGE)]
    if constant_place is not None:
        net.built.inputs = (names[1 - constant_place],)
        names[constant_place] = value
    if floats:
        names = [n if n == value else net.dequantize(n) for n in names]
        value_float = net.constant(np.ones((1,), np.float32))
        names = [value_float if n == value else n for n in names]
    quant = None if floats else per_tensor(0.05, 0)
    dtype = DType.FLOAT32 if floats else DType.INT8
    net.op(kind, (names[0], names[1]), BinaryAttrs(), IMAGE, quant, dtype)
    return net.graph()


def layer_norm() -> Graph:
    net, x = image_net()
    net.op("LayerNorm", (x,), LayerNormAttrs(3), IMAGE, per_tensor(0.05, 0))
    return net.graph()


def attention(with_softmax: bool = True) -> Graph:
    net = Net()
    query, key, value = (net.input((1, 8, 16)) for _ in range(3))
    quant = per_tensor(0.05, 0)
    scores = net.op("MatMul", (query, key), MatMulAttrs(False, True), (1, 8, 8), quant)
    if with_softmax:
        scores = net.softmax(scores)
    net.op("MatMul", (scores, value), MatMulAttrs(), (1, 8, 16), quant)
    return net.graph()


def softmax() -> Graph:
    net, x = image_net((1, 10))
    net.softmax(x)
    return net.graph()


def detector(decodes: bool) -> Graph:
    """A head of 100 anchors with four values each; boxes may be decoded inside."""
    net, x = image_net((1, 10, 10, 8))
    x = net.reshape(net.conv(x, 4, (1, 1)), (1, 100, 4))
    if decodes:
        sizes = net.constant(np.full((4,), 9, np.int8), per_tensor(0.1, 0))
        scaled = net.op("Mul", (x, sizes), BinaryAttrs(), (1, 100, 4), per_tensor(0.05, 0))
        net.concat((x, scaled), axis=1)
    return net.graph()


CASES = [
    Case("LINT-LAYERNORM", "Div, 256 elements", root_mean_square, lambda: binary("Div")),
    Case("LINT-LAYERNORM", "LayerNorm, 256 elements", layer_norm, conv),
    Case(
        "LINT-LAYERNORM", "Rsqrt, 256 elements", lambda: function("Rsqrt"), lambda: function("Sqrt")
    ),
    Case("LINT-ATTENTION", "1x8x8 attention", attention, lambda: attention(False)),
    Case("LINT-SOFTMAX", "1x10", softmax, conv),
    Case(
        "LINT-DECODE-TAIL",
        "2 ops after the last layer",
        lambda: detector(True),
        lambda: detector(False),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)


def test_a_tail_names_where_to_cut() -> None:
    (found,) = found_by("LINT-DECODE-TAIL", detector(True))
    assert found.evidence["cut_at"] == ["conv2d"]
