"""Layers on integers in C against numpy, in both numerics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from firmware.host_kernels import c_call, check, one_op
from npuscope.graph.model import Activation, Attrs, DType, Graph, Numerics, Quant, Tensor
from npuscope.ops.layers import ConvAttrs, DenseAttrs, MatMulAttrs, TransposeConvAttrs
from npuscope.ops.run import run
from npuscope.program.kernel_calls.model import NoKernel
from npuscope.structs import replace

Case = tuple[Graph, dict[str, np.ndarray]]
CASES: list[tuple[str, Callable[[], Case]]] = []


def raw(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    low, high = dtype.limits
    return rng.integers(low, high, shape, dtype.numpy, endpoint=True)


def quant(rng: np.random.Generator, dtype: DType, scale: float = 0.05) -> Quant:
    """A scale with all its bits and, but for int16, a zero point off the middle."""
    low, high = dtype.limits
    zero = 0 if dtype is DType.INT16 else int(rng.integers(low, high, endpoint=True))
    return Quant((float(np.float32(scale * rng.uniform(0.5, 2))),), (zero,))


def channel_quant(rng: np.random.Generator, count: int, zeros: bool, dtype: DType) -> Quant:
    scales = tuple(float(np.float32(s)) for s in rng.uniform(0.001, 0.02, count))
    low, high = dtype.limits
    points = tuple(int(z) for z in rng.integers(low, high, count)) if zeros else (0,) * count
    return Quant(scales, points, 0)


@dataclass(frozen=True)
class Types:
    """Element types of a layer; no output type is float32."""

    numerics: Numerics
    x: DType = DType.INT8
    w: DType = DType.INT8
    y: DType | None = DType.INT8
    bias: DType | None = DType.INT32
    by_channel: bool = True
    zeros: bool = False  # zero points of weights

    @property
    def name(self) -> str:
        parts = [self.numerics.value, self.x.value, self.w.value]
        parts += [self.y.value if self.y else "float", self.bias.value if self.bias else "no bias"]
        return " ".join([*parts, "channels" if self.by_channel else "tensor"])


def layer(
    kind: str,
    seed: int,
    types: Types,
    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    attrs: Attrs,
) -> Case:
    """`shapes` are those of x, weights, output. The output's scale makes use of all its range."""
    rng = np.random.default_rng(seed)
    outputs, depth = shapes[1][0], int(np.prod(shapes[1][1:]))
    x = Tensor("x", shapes[0], types.x, quant(rng, types.x, 0.05 if types.x.bits == 8 else 2e-4))
    weights = raw(rng, shapes[1], types.w)
    if types.by_channel:
        weight_quant = channel_quant(rng, outputs, types.zeros, types.w)
    else:
        weight_quant = quant(rng, types.w, 0.01)
    w = Tensor("w", shapes[1], types.w, weight_quant, weights)
    tensors = [x, w, *_bias(rng, types, outputs)]
    reach = 0.05 * 70 * 0.01 * 60 * depth**0.5 * (1 if types.w.bits == 8 else 300)
    y = Tensor("y", shapes[2], types.y or DType.FLOAT32, _output_quant(rng, types, reach))
    return one_op(kind, tensors, [y], attrs, types.numerics), {"x": raw(rng, shapes[0], types.x)}


def _output_quant(rng: np.random.Generator, types: Types, reach: float) -> Quant | None:
    if types.y is None:
        return None
    return quant(rng, types.y, reach / 2 ** (types.y.bits - 2))


def _bias(rng: np.random.Generator, types: Types, outputs: int) -> list[Tensor]:
    if types.bias is None:
        return []
    if types.bias is DType.FLOAT32:
        data = rng.normal(0, 3, outputs).astype(np.float32)
        return [Tensor("b", (outputs,), types.bias, None, data)]
    data = rng.integers(-5000, 5000, outputs).astype(types.bias.numpy)
    scales = tuple(float(np.float32(s)) for s in rng.uniform(1e-4, 1e-3, outputs))
    return [Tensor("b", (outputs,), types.bias, Quant(scales, (0,) * outputs, 0), data)]


_LITERT = [
    Types(Numerics.LITERT),
    Types(Numerics.LITERT, bias=None, by_channel=False, zeros=True),
    Types(Numerics.LITERT, DType.UINT8, DType.UINT8, DType.UINT8, by_channel=False),
    Types(Numerics.LITERT, DType.UINT8, DType.INT8, DType.INT8, zeros=True),
    Types(Numerics.LITERT, DType.INT8, DType.UINT8, DType.INT16, zeros=True),
    Types(Numerics.LITERT, DType.INT16, DType.INT8, DType.INT16, DType.INT64),
    Types(Numerics.LITERT, DType.INT16, DType.INT8, DType.INT16, DType.INT32),
    Types(Numerics.LITERT, DType.INT16, DType.INT8, DType.INT8, None),
    Types(Numerics.LITERT, DType.INT16, DType.INT16, DType.INT16, DType.INT64),
]
_QDQ = [
    Types(Numerics.QDQ),
    Types(Numerics.QDQ, bias=None, by_channel=False, zeros=True),
    Types(Numerics.QDQ, DType.UINT8, DType.UINT8, DType.UINT8, zeros=True),
    Types(Numerics.QDQ, DType.UINT8, DType.INT8, DType.INT8, DType.FLOAT32),
    Types(Numerics.QDQ, DType.INT8, DType.INT8, None, DType.FLOAT32),
    Types(Numerics.QDQ, DType.INT16, DType.INT8, DType.INT16, zeros=True),
    Types(Numerics.QDQ, DType.UINT16, DType.UINT8, DType.UINT16, None),
    Types(Numerics.QDQ, DType.INT16, DType.INT16, None),
]

_SAME = ConvAttrs(pads=(1, 1, 1, 1), activation=Activation.RELU6)
# (name, shapes, attributes)
_CONVS = [
    ("1x1", ((2, 5, 3, 7), (11, 1, 1, 7), (2, 5, 3, 11)), ConvAttrs()),
    ("3x3", ((1, 7, 5, 3), (5, 3, 3, 3), (1, 7, 5, 5)), _SAME),
    (
        "strided, dilated",
        ((1, 13, 11, 2), (3, 3, 2, 2), (1, 6, 4, 3)),
        ConvAttrs((2, 3), (2, 1, 1, 2), (2, 3), activation=Activation.RELU),
    ),
    (
        "grouped",
        ((1, 5, 6, 6), (9, 2, 3, 2), (1, 4, 4, 9)),
        ConvAttrs(groups=3, activation=Activation.RELU_N1_TO_1),
    ),
    ("depthwise", ((1, 6, 5, 5), (5, 3, 3, 1), (1, 6, 5, 5)), ConvAttrs(pads=(1,) * 4, groups=5)),
    (
        "depthwise, two outputs a channel",
        ((1, 7, 7, 3), (6, 3, 3, 1), (1, 4, 4, 6)),
        ConvAttrs((2, 2), (1,) * 4, groups=3),
    ),
]
_TRANSPOSED = [
    ("plain", ((1, 3, 5, 2), (3, 2, 2, 2), (1, 6, 10, 3)), TransposeConvAttrs((2, 2))),
    (
        "overlapping",
        ((2, 4, 3, 3), (2, 3, 3, 3), (2, 7, 6, 2)),
        TransposeConvAttrs((2, 2), (1, 0, 1, 1), activation=Activation.RELU),
    ),
    (
        "grouped, dilated, padded",
        ((1, 3, 3, 4), (6, 2, 3, 2), (1, 9, 8, 6)),
        TransposeConvAttrs((3, 2), (0, 1, 0, 0), (0, 0), (2, 2), 2),
    ),
]
_DENSE = [
    ("vector", ((1, 17), (13, 17), (1, 13)), DenseAttrs()),
    ("rows", ((2, 3, 31), (7, 31), (2, 3, 7)), DenseAttrs(Activation.RELU)),
    ("one", ((1, 1), (1, 1), (1, 1)), DenseAttrs(Activation.RELU6)),
    ("long", ((1, 1500), (3, 1500), (1, 3)), DenseAttrs()),
]
for _kind, _rows in (
    ("Conv2D", _CONVS),
    ("TransposeConv", _TRANSPOSED),
    ("FullyConnected", _DENSE),
):
    for _number, (_name, _shapes, _attrs) in enumerate(_rows):
        for _types in (*_LITERT, *_QDQ):
            CASES.append(
                (
                    f"{_kind} {_name} {_types.name}",
                    lambda k=_kind, s=_shapes, a=_attrs, t=_types, n=_number: layer(k, n, t, s, a),
                )
            )


def extreme(zero: int, numerics: Numerics) -> Case:
    """All products as large as they get, more of them than one 32-bit sum holds."""
    depth = 100000
    x = Tensor("x", (1, depth), DType.UINT8, Quant((0.5,), (zero,)))
    weights = np.full((1, depth), -128, np.int8)
    w = Tensor("w", weights.shape, DType.INT8, Quant((0.5,), (0,)), weights)
    y = Tensor("y", (1, 1), DType.INT16, Quant((60000.0,), (0,)))
    feeds = {"x": np.full((1, depth), 255, np.uint8)}
    return one_op("FullyConnected", [x, w], [y], DenseAttrs(), numerics), feeds


def on_ties(kind: str, numerics: Numerics, bits: int) -> Case:
    """Scales are powers of two, so that every other sum lies between two outputs."""
    rng = np.random.default_rng(bits)
    weights = rng.integers(-3, 4, (5, 1, 1, 3) if kind == "Conv2D" else (5, 3)).astype(np.int8)
    x = Tensor(
        "x", (1, 40, 20, 3) if kind == "Conv2D" else (800, 3), DType.INT8, Quant((1.0,), (1,))
    )
    w = Tensor("w", weights.shape, DType.INT8, Quant((0.5,), (0,)), weights)
    shape = (*x.shape[:-1], 5)
    y = Tensor("y", shape, DType.INT8, Quant((2.0**bits,), (-2,)))
    attrs = ConvAttrs() if kind == "Conv2D" else DenseAttrs()
    return one_op(kind, [x, w], [y], attrs, numerics), {"x": raw(rng, x.shape, DType.INT8)}


CASES += [
    (f"{kind} on ties {n.value} {bits}", lambda k=kind, n=n, b=bits: on_ties(k, n, b))
    for kind in ("Conv2D", "FullyConnected")
    for n in Numerics
    for bits in (0, 1, 3)
]

CASES += [
    (f"long extreme sum from {z} {n.value}", lambda z=z, n=n: extreme(z, n))
    for z in (0, 200)
    for n in Numerics
]


def multiplied(
    seed: int,
    shapes: tuple[tuple[int, ...], ...],
    attrs: MatMulAttrs,
    types: tuple[DType, DType, DType],
    numerics: Numerics,
) -> Case:
    rng = np.random.default_rng(seed)
    a = Tensor("a", shapes[0], types[0], quant(rng, types[0]))
    b = Tensor("b", shapes[1], types[1], quant(rng, types[1]))
    y = Tensor("y", shapes[2], types[2], quant(rng, types[2], 3.0))
    feeds = {"a": raw(rng, shapes[0], types[0]), "b": raw(rng, shapes[1], types[1])}
    return one_op("MatMul", [a, b], [y], attrs, numerics), feeds


_PRODUCTS = [
    (((3, 5), (5, 7), (3, 7)), MatMulAttrs()),
    (((2, 5, 3), (2, 5, 4), (2, 3, 4)), MatMulAttrs(transpose_a=True)),
    (((2, 1, 3, 5), (3, 4, 5), (2, 3, 3, 4)), MatMulAttrs(transpose_b=True)),
    (((1, 2, 5, 3), (7, 1, 4, 5), (7, 2, 3, 4)), MatMulAttrs(True, True)),
]
_KINDS = [
    (DType.INT8, DType.INT8, DType.INT8),
    (DType.UINT8, DType.INT8, DType.INT16),
    (DType.INT16, DType.INT16, DType.INT16),
]
CASES += [
    (
        f"MatMul {shapes} {types[0].value} {types[1].value} {numerics.value}",
        lambda s=shapes, a=attrs, t=types, n=numerics: multiplied(len(s[0]), s, a, t, n),
    )
    for shapes, attrs in _PRODUCTS
    for types in _KINDS
    for numerics in Numerics
]


@pytest.mark.parametrize("make", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_same_bits(make: Callable[[], Case]) -> None:
    check(*make())


def test_outputs_use_their_range() -> None:
    """Saturated everywhere, the cases above would show nothing."""
    for types in (*_LITERT, *_QDQ):
        graph, feeds = layer("Conv2D", 3, types, *_CONVS[0][1:])
        found = run(graph, feeds)["y"]
        assert len(np.unique(found)) > 20, types.name


def refusal(graph: Graph) -> str:
    with pytest.raises(NoKernel) as caught:
        c_call(graph)
    return caught.value.message


def test_layers_without_a_kernel_are_refused() -> None:
    x = Tensor("x", (1, 3), DType.FLOAT32)
    w = Tensor("w", (2, 3), DType.INT8, Quant((0.5,), (0,)), np.ones((2, 3), np.int8))
    y = Tensor("y", (1, 2), DType.FLOAT32)
    assert refusal(one_op("FullyConnected", [x, w], [y], DenseAttrs())) == (
        "FullyConnected on integers needs 8-bit or 16-bit tensors with one scale each, not float32"
    )


def test_weights_that_come_late_are_refused_in_litert() -> None:
    graph, _ = layer("Conv2D", 0, _LITERT[0], *_CONVS[0][1:])
    graph.tensors["w"] = replace(graph.tensors["w"], data=None)
    assert refusal(graph) == "Conv2D on integers needs constant weights of 8 or 16 bits"


def test_weights_that_come_late_are_reals_in_qdq() -> None:
    graph, feeds = layer("FullyConnected", 0, _QDQ[0], *_DENSE[1][1:])
    op, tensors = graph.ops[0], dict(graph.tensors)
    given = tensors["w"]
    tensors["w"] = replace(given, data=None)
    late = Graph("late", tensors.values(), [op], ("x", "w"), ("y",), Numerics.QDQ)
    assert c_call(late).function == "npuscope_fully_connected"
    check(late, {**feeds, "w": np.asarray(given.data)})


def test_scales_too_far_apart_are_refused() -> None:
    """The short multipliers of 64-bit sums only shift to the right."""
    graph, _ = layer("Conv2D", 0, _LITERT[5], *_CONVS[0][1:])
    graph.tensors["y"] = replace(graph.tensors["y"], quant=Quant((1e-12,), (0,)))
    assert refusal(graph) == "the scales of a layer are too far apart for its multipliers"
