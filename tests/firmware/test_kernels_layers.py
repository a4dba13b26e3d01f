"""Layers on real values in C against numpy: one order of terms, whatever the values are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from firmware.host_kernels import check, one_op
from npuscope.graph.model import Activation, Attrs, DType, Graph, Numerics, Quant, Tensor
from npuscope.ops.kernels.float_ops import ordered_sums
from npuscope.ops.layers import ConvAttrs, DenseAttrs, MatMulAttrs, TransposeConvAttrs
from npuscope.ops.run import run

Case = tuple[Graph, dict[str, np.ndarray]]
CASES: list[tuple[str, Callable[[], Case]]] = []

_SPECIAL = np.array([np.inf, -np.inf, np.nan, -0.0, 1e-42, 3e38, -3e38], np.float32)


def reals(rng: np.random.Generator, shape: tuple[int, ...], special: bool) -> np.ndarray:
    """Over many powers of ten, so that the order of a sum shows."""
    size = rng.normal(0, 2, shape)
    made = (rng.normal(0, 1, shape) * 10**size).astype(np.float32)
    if special and made.size:
        flat = made.reshape(-1)
        flat[rng.integers(0, flat.size, len(_SPECIAL))] = _SPECIAL
    return made


def layer(
    kind: str,
    shapes: tuple[tuple[int, ...], ...],
    attrs: Attrs,
    bias: bool,
    special: bool = False,
    output: Quant | None = None,
) -> Case:
    """`shapes` are those of x, weights, output."""
    rng = np.random.default_rng(len(shapes[0]) + bias)
    tensors = [Tensor("x", shapes[0], DType.FLOAT32), Tensor("w", shapes[1], DType.FLOAT32)]
    feeds = {t.name: reals(rng, t.shape, special) for t in tensors}
    if bias:
        tensors.append(Tensor("b", (shapes[1][0],), DType.FLOAT32))
        feeds["b"] = reals(rng, (shapes[1][0],), False)
    y = Tensor("y", shapes[2], DType.FLOAT32 if output is None else DType.INT8, output)
    return one_op(kind, tensors, [y], attrs, Numerics.QDQ), feeds


_LAYERS: list[tuple[str, str, tuple[tuple[int, ...], ...], Attrs]] = [
    ("1x1", "Conv2D", ((2, 5, 3, 7), (11, 1, 1, 7), (2, 5, 3, 11)), ConvAttrs()),
    (
        "3x3",
        "Conv2D",
        ((1, 7, 5, 3), (5, 3, 3, 3), (1, 7, 5, 5)),
        ConvAttrs(pads=(1,) * 4, activation=Activation.RELU6),
    ),
    (
        "strided, dilated",
        "Conv2D",
        ((1, 13, 11, 2), (3, 3, 2, 2), (1, 6, 4, 3)),
        ConvAttrs((2, 3), (2, 1, 1, 2), (2, 3), activation=Activation.RELU),
    ),
    (
        "cut by negative pads",
        "Conv2D",
        ((1, 9, 8, 2), (3, 2, 2, 2), (1, 6, 7, 3)),
        ConvAttrs(pads=(-1, 1, -1, -1)),
    ),
    (
        "grouped",
        "Conv2D",
        ((2, 5, 6, 6), (9, 2, 3, 2), (2, 4, 4, 9)),
        ConvAttrs(groups=3, activation=Activation.RELU_N1_TO_1),
    ),
    (
        "depthwise",
        "Conv2D",
        ((1, 7, 7, 3), (6, 3, 3, 1), (1, 4, 4, 6)),
        ConvAttrs((2, 2), (1,) * 4, groups=3),
    ),
    (
        "many tiles",
        "Conv2D",
        ((1, 29, 31, 2), (67, 1, 1, 2), (1, 29, 31, 67)),
        ConvAttrs(),
    ),
    (
        "plain",
        "TransposeConv",
        ((1, 3, 5, 2), (3, 2, 2, 2), (1, 6, 10, 3)),
        TransposeConvAttrs((2, 2)),
    ),
    (
        "overlapping",
        "TransposeConv",
        ((2, 4, 3, 3), (2, 3, 3, 3), (2, 7, 6, 2)),
        TransposeConvAttrs((2, 2), (1, 0, 1, 1), activation=Activation.RELU),
    ),
    (
        "room behind",
        "TransposeConv",
        ((1, 3, 3, 2), (2, 2, 2, 2), (1, 8, 7, 2)),
        TransposeConvAttrs((3, 2), (0, 0, 0, 0), (0, 1)),
    ),
    (
        "grouped, dilated",
        "TransposeConv",
        ((1, 3, 3, 4), (6, 2, 3, 2), (1, 9, 8, 6)),
        TransposeConvAttrs((3, 2), (0, 1, 0, 0), (0, 0), (2, 2), 2),
    ),
    ("vector", "FullyConnected", ((1, 17), (13, 17), (1, 13)), DenseAttrs()),
    ("rows", "FullyConnected", ((2, 3, 31), (7, 31), (2, 3, 7)), DenseAttrs(Activation.RELU)),
    ("no terms", "FullyConnected", ((3, 0), (2, 0), (3, 2)), DenseAttrs()),
    ("no rows", "FullyConnected", ((0, 5), (2, 5), (0, 2)), DenseAttrs()),
    ("long", "FullyConnected", ((1, 1500), (3, 1500), (1, 3)), DenseAttrs()),
]
for _name, _kind, _shapes, _attrs in _LAYERS:
    _row = (_kind, _shapes, _attrs)
    CASES += [
        (f"{_kind} {_name}", lambda row=_row: layer(*row, bias=False)),
        (f"{_kind} {_name} bias", lambda row=_row: layer(*row, bias=True)),
        (f"{_kind} {_name} special", lambda row=_row: layer(*row, bias=True, special=True)),
        (
            f"{_kind} {_name} quantized",
            lambda row=_row: layer(*row, bias=True, output=Quant((3.0,), (5,))),
        ),
    ]


def multiplied(shapes: tuple[tuple[int, ...], ...], attrs: MatMulAttrs, special: bool) -> Case:
    rng = np.random.default_rng(len(shapes[0]))
    a, b = (Tensor(name, s, DType.FLOAT32) for name, s in zip("ab", shapes, strict=False))
    y = Tensor("y", shapes[2], DType.FLOAT32)
    feeds = {t.name: reals(rng, t.shape, special) for t in (a, b)}
    return one_op("MatMul", [a, b], [y], attrs), feeds


CASES += [
    (
        f"MatMul {shapes} {special}",
        lambda s=shapes, a=attrs, p=special: multiplied(s, a, p),
    )
    for shapes, attrs in [
        (((3, 5), (5, 7), (3, 7)), MatMulAttrs()),
        (((1, 300), (300, 1), (1, 1)), MatMulAttrs()),
        (((2, 5, 3), (2, 5, 4), (2, 3, 4)), MatMulAttrs(transpose_a=True)),
        (((2, 1, 3, 5), (3, 4, 5), (2, 3, 3, 4)), MatMulAttrs(transpose_b=True)),
        (((1, 2, 5, 3), (7, 1, 4, 5), (7, 2, 3, 4)), MatMulAttrs(True, True)),
        (((2, 3, 0), (2, 0, 4), (2, 3, 4)), MatMulAttrs()),
    ]
    for special in (False, True)
    if np.prod(shapes[0]) or not special
]


@pytest.mark.parametrize("make", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_same_bits(make: Callable[[], Case]) -> None:
    check(*make())


def test_the_order_of_terms_shows() -> None:
    """The cases above would pass with any order if their sums did not round."""
    graph, feeds = layer(*_LAYERS[0][1:], bias=False)
    by_blas = feeds["x"].reshape(-1, 7) @ feeds["w"].reshape(11, 7).T
    assert not np.array_equal(run(graph, feeds)["y"].reshape(-1, 11), by_blas)


def test_sums_take_one_term_after_the_other() -> None:
    rng = np.random.default_rng(5)
    rows, columns = reals(rng, (9, 2, 5), False), reals(rng, (9, 2, 3), False)
    expected = np.zeros((2, 5, 3), np.float32)
    for row, column in zip(rows, columns, strict=True):
        expected += row[:, :, np.newaxis] * column[:, np.newaxis]
    assert np.array_equal(ordered_sums(rows, columns), expected)
    assert np.array_equal(ordered_sums(columns, rows), expected.swapaxes(1, 2))
