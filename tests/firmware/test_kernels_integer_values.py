"""Softmax, Div and Quantize on integers in C against numpy; what LiteRT rounds in integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from firmware.host_kernels import check, one_op
from firmware.test_kernels_integer import quant, raw, refusal
from npuscope.graph.model import Activation, Attrs, DType, Graph, Quant, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import LeakyReluAttrs
from npuscope.ops.norms import SoftmaxAttrs

Case = tuple[Graph, dict[str, np.ndarray]]
CASES: list[tuple[str, Callable[[], Case]]] = []


def softmax(seed: int, shape: tuple[int, ...], axis: int, dtype: DType, scale: float) -> Case:
    rng = np.random.default_rng(seed)
    x = Tensor("x", shape, dtype, Quant((scale,), (5,)))
    y = Tensor("y", shape, dtype, Quant((1 / 256,), (dtype.limits[0],)))
    graph = one_op("Softmax", [x], [y], SoftmaxAttrs(axis, 1.0 if seed % 2 else 0.7))
    return graph, {"x": raw(rng, shape, dtype)}


CASES += [
    (
        f"Softmax {shape} along {axis} {dtype.value} of {scale}",
        lambda n=number, s=shape, a=axis, d=dtype, c=scale: softmax(n, s, a, d, c),
    )
    for number, (shape, axis) in enumerate(
        [
            ((2, 7), 1),
            ((1, 1), 1),
            ((3, 5, 2), 1),
            ((4, 3), -1),
            ((1, 1001), 1),
            ((0, 3), 1),
            ((9000, 5), 1),
        ]
    )
    for dtype in (DType.INT8, DType.UINT8)
    for scale in (0.003, 0.11, 3.0)
]


def quotient(seed: int, shapes: tuple[tuple[int, ...], ...], dtype: DType, unit: float) -> Case:
    rng = np.random.default_rng(seed)
    a, b = (Tensor(n, s, dtype, quant(rng, dtype)) for n, s in zip("ab", shapes, strict=False))
    y = Tensor("y", shapes[2], dtype, quant(rng, dtype, unit))
    activation = list(Activation)[seed % 4]
    feeds = {t.name: raw(rng, t.shape, dtype) for t in (a, b)}
    feeds["b"].reshape(-1)[:1] = b.quant.zero_point if b.quant else 0  # a divisor of 0
    return one_op("Div", [a, b], [y], BinaryAttrs(activation)), feeds


CASES += [
    (
        f"Div {shapes} {dtype.value} by {unit}",
        lambda n=number, s=shapes, d=dtype, u=unit: quotient(n, s, d, u),
    )
    for number, shapes in enumerate(
        [
            ((256,), (256, 1), (256, 256)),
            ((7, 11), (7, 11), (7, 11)),
            ((3, 1, 5), (4, 1), (3, 4, 5)),
            ((), (13,), (13,)),
        ]
    )
    for dtype in (DType.INT8, DType.UINT8)
    for unit in (0.02, 1.0, 1e-6)
]


def requantized(seed: int, source: DType, target: DType, ratio: float) -> Case:
    rng = np.random.default_rng(seed)
    unit = float(np.float32(0.013))
    x = Tensor("x", (3, 101), source, Quant((unit,), (0 if source.bits > 8 else 7,)))
    scale = float(np.float32(unit * ratio))
    y = Tensor("y", (3, 101), target, Quant((scale,), (-3 if target is not DType.UINT8 else 9,)))
    return one_op("Quantize", [x], [y], Attrs()), {"x": raw(rng, (3, 101), source)}


CASES += [
    (
        f"Quantize {source.value} to {target.value} by {ratio}",
        lambda s=source, t=target, r=ratio: requantized(3, s, t, r),
    )
    for source in (DType.INT16, DType.INT32, DType.INT8)
    for target in (DType.INT8, DType.UINT8, DType.INT16)
    for ratio in (1.0, 257.3, 0.31, 3e7)
]


@pytest.mark.parametrize("make", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_same_bits(make: Callable[[], Case]) -> None:
    check(*make())


@pytest.mark.parametrize("kind, attrs", [("Add", BinaryAttrs()), ("Mul", BinaryAttrs())])
def test_litert_rounding_without_a_kernel_is_refused(kind: str, attrs: Attrs) -> None:
    tensors = [Tensor(name, (3,), DType.INT8, Quant((0.5,), (0,))) for name in "aby"]
    assert refusal(one_op(kind, tensors[:2], tensors[2:], attrs)) == (
        f"{kind} on these integers has no kernel with LiteRT's rounding"
    )


def test_litert_functions_of_16_bits_are_refused() -> None:
    x, y = (Tensor(name, (3,), DType.INT16, Quant((0.5,), (0,))) for name in "xy")
    assert "no kernel with LiteRT's rounding" in refusal(
        one_op("LeakyRelu", [x], [y], LeakyReluAttrs(0.1))
    )


def test_long_softmax_is_refused() -> None:
    graph, _ = softmax(0, (1, 8192), 1, DType.INT8, 0.1)
    assert refusal(graph) == "Softmax over 8192 values: the integer kernel takes at most 8191"
