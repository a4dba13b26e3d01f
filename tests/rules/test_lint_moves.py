"""Lint rules on data movement, element-wise ops, attention and the tail of a network."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import Net, per_tensor
from npuscope.graph.attrs import (
    Attrs,
    BinaryAttrs,
    LayerNormAttrs,
    MatMulAttrs,
    PadAttrs,
    ReduceAttrs,
)
from npuscope.graph.attrs_moves import (
    Coordinates,
    GatherAttrs,
    ResizeAttrs,
    ResizeMode,
    SliceAttrs,
    SplitAttrs,
)
from npuscope.graph.model import DType, Graph
from rules.lint_case import IMAGE, Case, check, conv, image_net


def concat(axis: int) -> Graph:
    net = Net()
    net.concat((net.input(IMAGE), net.input(IMAGE)), axis=axis)
    return net.graph()


def cut(axis: int, size: int, step: int = 1) -> Graph:
    net, x = image_net()
    sizes = tuple(size if place == axis else full for place, full in enumerate(IMAGE))
    steps = tuple(step if place == axis else 1 for place in range(4))
    attrs = SliceAttrs((0, 0, 0, 0), sizes, steps)
    net.op("Slice", (x,), attrs, sizes, net.quant(x))
    return net.graph()


def split(axis: int) -> Graph:
    net, x = image_net()
    half = tuple(size // 2 if place == axis else size for place, size in enumerate(IMAGE))
    net.op("Split", (x,), SplitAttrs(axis, (half[axis],)), half, net.quant(x))
    graph = net.built
    graph.outputs = graph.ops[-1].outputs  # one of two parts: shapes are not verified
    return graph


def pad(channels: int, rows: int) -> Graph:
    net, x = image_net()
    attrs = PadAttrs(((0, 0), (rows, rows), (0, 0), (0, channels)))
    shape = (1, 8 + 2 * rows, 8, 4 + channels)
    net.op("Pad", (x,), attrs, shape, net.quant(x))
    return net.graph()


def gather() -> Graph:
    net, x = image_net()
    places = net.constant(np.array([3, 1], np.int32))
    net.op("Gather", (x, places), GatherAttrs(1), (1, 2, 8, 4), net.quant(x))
    return net.graph()


def permuted(*permutations: tuple[int, ...], shape: tuple[int, ...] = IMAGE) -> Graph:
    """Transposes between two functions, so that none is at the border."""
    net, x = image_net(shape)
    x = net.sigmoid(x)
    for permutation in permutations:
        x = net.transpose(x, permutation)
    net.sigmoid(x)
    return net.graph()


def around_functions(*permutations: tuple[int, ...]) -> Graph:
    """A function between each two Transposes."""
    net, x = image_net()
    x = net.sigmoid(x)
    for permutation in permutations:
        x = net.sigmoid(net.transpose(x, permutation))
    return net.graph()


def reshaped(*shapes: tuple[int, ...], functions: bool = False) -> Graph:
    net, x = image_net()
    x = net.sigmoid(x)
    for shape in shapes:
        x = net.reshape(x, shape)
        x = net.sigmoid(x) if functions else x
    net.sigmoid(x)
    return net.graph()


def nearest(coordinates: Coordinates, size: int = 16) -> Graph:
    net, x = image_net()
    attrs = ResizeAttrs((size, size), (size / 8, size / 8), NEAREST, coordinates)
    net.op("Resize", (x,), attrs, (1, size, size, 4), net.quant(x))
    return net.graph()


def twice(other: tuple[int, ...]) -> Graph:
    """Two transposes of one tensor, added."""
    net, x = image_net((1, 4, 4, 4))
    one, two = net.transpose(x, (0, 3, 1, 2)), net.transpose(x, other)
    net.add(one, two)
    return net.graph()


def root_mean_square() -> Graph:
    """x / sqrt(x * x): a norm in pieces."""
    net, x = image_net()
    quant = per_tensor(0.05, 0)
    root = net.op("Sqrt", (net.add(x, x, "Mul", (0.05, 0)),), Attrs(), IMAGE, quant)
    net.op("Div", (x, root), BinaryAttrs(), IMAGE, quant)
    return net.graph()


def resize(mode: ResizeMode, rows: int = 8, out: int = 16) -> Graph:
    net, x = image_net((1, rows, rows, 4))
    attrs = ResizeAttrs((out, out), (out / rows, out / rows), mode)
    net.op("Resize", (x,), attrs, (1, out, out, 4), net.quant(x))
    return net.graph()


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


LINEAR, NEAREST = ResizeMode.LINEAR, ResizeMode.NEAREST
CASES = [
    Case("LINT-CONCAT-AXIS", "axis 1", lambda: concat(1), lambda: concat(3)),
    Case("LINT-SLICE-AXIS", "axis 2", lambda: cut(2, 3), lambda: cut(3, 3)),
    Case("LINT-SLICE-AXIS", "axis 1", lambda: cut(1, 4), lambda: cut(1, 4, 2)),
    Case("LINT-SLICE-STEP", "step 2", lambda: cut(1, 4, 2), lambda: cut(1, 4)),
    Case("LINT-SPLIT-AXIS", "axis 1", lambda: split(1), lambda: split(3)),
    Case("LINT-PAD-CHANNEL", "4 -> 8 channels", lambda: pad(4, 0), lambda: pad(0, 1)),
    Case("LINT-GATHER", "64 elements", gather, lambda: cut(1, 2)),
    Case(
        "LINT-TRANSPOSE",
        "permutation (0, 2, 1, 3)",
        lambda: permuted((0, 2, 1, 3)),
        lambda: permuted((0, 3, 1, 2)),
    ),
    Case(
        "LINT-TRANSPOSE",
        "permutation (0, 2, 1, 3)",
        lambda: permuted((0, 2, 1, 3)),
        lambda: permuted((0, 2, 1, 3), shape=(1, 1, 8, 4)),
    ),
    Case(
        "LINT-CANCELLING-TRANSPOSES",
        "256 elements moved twice",
        lambda: permuted((0, 3, 1, 2), (0, 2, 3, 1)),
        lambda: permuted((0, 3, 1, 2), (0, 3, 1, 2)),
    ),
    Case(
        "LINT-CANCELLING-TRANSPOSES",
        "256 elements moved twice",
        lambda: around_functions((0, 3, 1, 2), (0, 2, 3, 1)),
        lambda: around_functions((0, 3, 1, 2), (0, 3, 1, 2)),
    ),
    Case(
        "LINT-CANCELLING-TRANSPOSES",
        "256 elements stay in order",
        lambda: permuted((0, 1, 2, 3)),
        lambda: permuted((0, 2, 1, 3)),
    ),
    Case(
        "LINT-DEAD-RESHAPE",
        "1x8x8x4 stays",
        lambda: reshaped(IMAGE),
        lambda: reshaped((1, 256)),
    ),
    Case(
        "LINT-DEAD-RESHAPE",
        "1x8x8x4 -> 1x256 -> 1x64x4",
        lambda: reshaped((1, 256), (1, 64, 4)),
        lambda: reshaped((1, 256), (1, 64, 4), functions=True),
    ),
    Case(
        "LINT-DEAD-RESHAPE",
        "1x8x8x4 -> 1x256 -> 1x8x8x4",
        lambda: reshaped((1, 256), IMAGE, functions=True),
        lambda: reshaped((1, 256), functions=True),
    ),
    Case(
        "LINT-RESIZE-FORM",
        "tf_half_pixel_for_nn, floor",
        lambda: nearest(Coordinates.TF_HALF_PIXEL_FOR_NN),
        lambda: nearest(Coordinates.ASYMMETRIC),
    ),
    Case(
        "LINT-RESIZE-FORM",
        "tf_half_pixel_for_nn, floor",
        lambda: nearest(Coordinates.TF_HALF_PIXEL_FOR_NN),
        lambda: nearest(Coordinates.ALIGN_CORNERS, 24),
    ),
    Case("LINT-RESIZE-LINEAR", "8x8x4 -> 16x16x4", lambda: resize(LINEAR), lambda: resize(NEAREST)),
    Case(
        "LINT-DUPLICATE",
        "Transpose, 64 elements",
        lambda: twice((0, 3, 1, 2)),
        lambda: twice((0, 2, 1, 3)),
    ),
    Case("LINT-LAYERNORM", "Div, 256 elements", root_mean_square, lambda: binary("Div")),
    Case(
        "LINT-RESIZE-LINEAR", "8x8x4 -> 16x16x4", lambda: resize(LINEAR), lambda: resize(LINEAR, 1)
    ),
    Case(
        "LINT-RESIZE-NEAREST", "8x8x4 -> 16x16x4", lambda: resize(NEAREST), lambda: resize(LINEAR)
    ),
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
    Case("LINT-LAYERNORM", "LayerNorm, 256 elements", layer_norm, conv),
    Case(
        "LINT-LAYERNORM", "Rsqrt, 256 elements", lambda: function("Rsqrt"), lambda: function("Sqrt")
    ),
    Case("LINT-ATTENTION", "1x8x8 attention", attention, lambda: attention(False)),
    Case("LINT-SOFTMAX", "1x10", softmax, conv),
    Case(
        "LINT-DECODE-TAIL",
        "2 ops behind the last layer",
        lambda: detector(True),
        lambda: detector(False),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)


def test_a_tail_names_where_to_cut() -> None:
    from compiler.nets import MACHINES
    from npuscope.rules.lint import lints

    (found,) = lints()["LINT-DECODE-TAIL"].findings(detector(True), MACHINES["4.0"])
    assert found.evidence["cut_at"] == ["conv2d"]
