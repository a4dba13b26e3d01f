"""Element-wise ops and products: lint rules, each with a network and its counterpart."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import Net, per_tensor
from npuscope.graph.model import Attrs, DType, Graph
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.layers import MatMulAttrs
from npuscope.ops.reduce import ReduceAttrs
from rulebook.lint_case import IMAGE, Case, check, image_net


def function(kind: str, floats: bool = False) -> Graph:
    net, x = image_net()
    if floats:
        x = net.dequantize(x)
        net.op(kind, (x,), Attrs(), IMAGE, None, DType.FLOAT32)
    else:
        net.op(kind, (x,), Attrs(), IMAGE, per_tensor(0.05, 0))
    return net.graph()


def reduced(kind: str) -> Graph:
    net, x = image_net()
    net.op(kind, (x,), ReduceAttrs((1, 2), False), (1, 4), per_tensor(0.05, 0))
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


def broadcast(shape: tuple[int, ...]) -> Graph:
    net = Net()
    x, y = net.input(IMAGE), net.input(shape)
    out = tuple(np.broadcast_shapes(IMAGE, shape))
    net.op("Mul", (x, y), BinaryAttrs(), out, per_tensor(0.05, 0))
    return net.graph()


def prelu(float_slopes: bool) -> Graph:
    net, x = image_net()
    if float_slopes:
        slopes = net.constant(np.full((4,), 0.25, np.float32))
    else:
        slopes = net.constant(np.full((4,), 32, np.int8), per_tensor(1 / 128))
    net.op("PRelu", (x, slopes), Attrs(), IMAGE, net.quant(x))
    return net.graph()


def matmul(constant: bool) -> Graph:
    net = Net()
    x = net.input((1, 8, 16))
    y = net.constant(net.weights((1, 16, 8)), per_tensor(0.01)) if constant else None
    names = (x, y or net.input((1, 16, 8)))
    net.op("MatMul", names, MatMulAttrs(), (1, 8, 8), per_tensor(0.05, 0))
    return net.graph()


CASES = [
    Case(
        "LINT-SOFTWARE-OP", "Log, 256 elements", lambda: function("Log"), lambda: function("Tanh")
    ),
    Case(
        "LINT-SOFTWARE-OP",
        "ReduceSum, 4 elements",
        lambda: reduced("ReduceSum"),
        lambda: reduced("Mean"),
    ),
    Case("LINT-SOFTWARE-OP", "Div, 256 elements", lambda: binary("Div"), lambda: binary("Div", 1)),
    Case("LINT-SOFTWARE-OP", "Max, 256 elements", lambda: binary("Max"), lambda: binary("Max", 1)),
    Case("LINT-SUB-CONSTANT", "constant 1 - x", lambda: binary("Sub", 0), lambda: binary("Sub", 1)),
    Case(
        "LINT-SUB-CONSTANT",
        "constant 1 - x",
        lambda: binary("Sub", 0),
        lambda: binary("Sub", 0, True),
    ),
    Case("LINT-NEG", "Neg of int8", lambda: function("Neg"), lambda: function("Neg", floats=True)),
    Case("LINT-PRELU", "float32 slopes", lambda: prelu(True), lambda: prelu(False)),
    Case("LINT-MATMUL-DYNAMIC", "1x8x16 x 1x16x8", lambda: matmul(False), lambda: matmul(True)),
    Case(
        "LINT-BROADCAST",
        "1x8x8x4 and 1x1x8x4",
        lambda: broadcast((1, 1, 8, 4)),
        lambda: broadcast((1, 1, 1, 4)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)
