"""Reductions, places of extremes, softmax and normalizations in C against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from firmware.host_kernels import c_call, check, one_op
from firmware.seeded_values import BOTH, Case, scale_of, seeded, tensor
from npuscope.graph.model import Activation, Attrs, DType, Numerics
from npuscope.ops.norms import (
    BatchNormAttrs,
    GroupNormAttrs,
    InstanceNormAttrs,
    L2NormAttrs,
    LayerNormAttrs,
    SoftmaxAttrs,
)
from npuscope.ops.reduce import ArgAttrs, ReduceAttrs
from npuscope.program.kernel_calls.model import NoKernel

CASES: list[tuple[str, Callable[[], Case]]] = []

Shape = tuple[int, ...]
_REDUCTIONS = ("Mean", "ReduceSum", "ReduceProd", "ReduceL2", "ReduceMax", "ReduceMin")
_REDUCED: list[tuple[Shape, tuple[int, ...], bool]] = [
    ((1, 5, 7, 3), (1, 2), True),
    ((2, 3, 5, 7), (0, 3), False),
    ((3, 1, 13), (1,), False),
    ((2, 2, 150), (0, 1), False),
    ((17,), (0,), False),
    ((2, 3), (), True),
    ((2, 3, 4), (0, 1, 2), True),
]


def one_input(
    kind: str,
    shape: Shape,
    made: Shape,
    attrs: Attrs,
    types: tuple[DType, DType] = (DType.FLOAT32, DType.FLOAT32),
    numerics: Numerics = Numerics.QDQ,
    seed: int = 0,
    special: bool = False,
    scaled: bool = True,
) -> Case:
    quants = [
        scale_of(seed + place, dtype) if scaled else None for place, dtype in enumerate(types)
    ]
    x = tensor("x", shape, types[0], quants[0])
    y = tensor("y", made, types[1], quants[1])
    return one_op(kind, [x], [y], attrs, numerics), {"x": seeded(seed, shape, types[0], special)}


def add(name: str, make: Callable[[], Case]) -> None:
    CASES.append((name, make))


def without(shape: Shape, axes: tuple[int, ...], keep: bool) -> Shape:
    if keep:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def reduction(kind: str, row: int, seed: int, dtype: DType, **more: object) -> Case:
    shape, axes, keep = _REDUCED[row]
    attrs = ReduceAttrs(axes, keep)
    made = without(shape, axes, keep)
    return one_input(kind, shape, made, attrs, (dtype, dtype), seed=seed, **more)  # type: ignore[arg-type]


for _kind in _REDUCTIONS:
    for _row in range(len(_REDUCED)):
        for _special in (False, True):
            add(
                f"{_kind}-{_row}-{'special' if _special else 'plain'}",
                lambda k=_kind, r=_row, s=_special: reduction(k, r, r, DType.FLOAT32, special=s),
            )
        for _dtype in (DType.INT8, DType.INT16):
            add(
                f"{_kind}-{_row}-{_dtype.value}",
                lambda k=_kind, r=_row, t=_dtype: reduction(k, r, r, t),
            )
for _kind in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"):
    for _row in range(len(_REDUCED)):
        for _dtype in (DType.INT32, DType.INT64):
            add(
                f"{_kind}-{_row}-{_dtype.value}",
                lambda k=_kind, r=_row, t=_dtype: reduction(k, r, r, t),
            )
for _kind in ("ReduceMax", "ReduceMin"):
    add(
        f"{_kind}-raw",
        lambda k=_kind: reduction(k, 1, 5, DType.UINT8, numerics=Numerics.LITERT),
    )
for _kind in ("ReduceProd", "ReduceL2"):
    add(
        f"{_kind}-litert",
        lambda k=_kind: reduction(k, 1, 5, DType.INT8, numerics=Numerics.LITERT),
    )


def place(kind: str, axis: int, last: bool, dtype: DType, numerics: Numerics) -> Case:
    """Small numbers, so that there are equals."""
    shape = (3, 11, 5)
    made = without(shape, (axis,), False)
    types = (dtype, DType.INT64 if last else DType.INT32)
    attrs = ArgAttrs(axis, False, last)
    graph, _ = one_input(kind, shape, made, attrs, types, numerics)
    few = np.random.default_rng(axis).integers(0, 4, shape).astype(dtype.numpy)
    if dtype.is_float:
        few[0, 3, :2] = np.nan
        few[1, 4:6] = -0.0
    return graph, {"x": few}


for _kind in ("ArgMax", "ArgMin"):
    for _axis in range(3):
        for _last in (False, True):
            for _dtype in (DType.FLOAT32, DType.INT8, DType.INT32):
                add(
                    f"{_kind}-{_axis}-{_last}-{_dtype.value}",
                    lambda k=_kind, a=_axis, b=_last, t=_dtype: place(
                        k, a, b, t, Numerics.QDQ if a else Numerics.LITERT
                    ),
                )


def along(
    kind: str, axis: int, attrs: Attrs, dtype: DType, special: bool, numerics: Numerics
) -> Case:
    shape = (2, 7, 3, 5)
    return one_input(kind, shape, shape, attrs, (dtype, dtype), numerics, axis, special)


for _axis in range(4):
    for _special in (False, True):
        for _kind, _attrs in (
            ("Softmax", SoftmaxAttrs(_axis)),
            ("Softmax", SoftmaxAttrs(_axis, 0.3)),
            ("LogSoftmax", SoftmaxAttrs(_axis)),
            ("L2Normalization", L2NormAttrs(_axis, 0.01)),
            ("L2Normalization", L2NormAttrs(_axis)),
        ):
            add(
                f"{_kind}-{_attrs}-{_special}",
                lambda k=_kind, i=_axis, a=_attrs, s=_special: along(
                    k, i, a, DType.FLOAT32, s, Numerics.QDQ
                ),
            )
for _kind, _attrs in (("Softmax", SoftmaxAttrs(3)), ("L2Normalization", L2NormAttrs(2, 0.1))):
    for _dtype in (DType.INT8, DType.INT16):
        add(
            f"{_kind}-{_dtype.value}",
            lambda k=_kind, a=_attrs, t=_dtype: along(k, 3, a, t, False, Numerics.QDQ),
        )
for _numerics in BOTH:
    add(
        f"LogSoftmax-int8-{_numerics.value}",
        lambda n=_numerics: along("LogSoftmax", 3, SoftmaxAttrs(3), DType.INT8, False, n),
    )
add("Softmax-one", lambda: one_input("Softmax", (3, 1), (3, 1), SoftmaxAttrs(1), special=True))
add("Softmax-long", lambda: one_input("Softmax", (2, 997), (2, 997), SoftmaxAttrs(1)))


def normalized(
    kind: str, shape: Shape, parameters: list[Shape], attrs: Attrs, seed: int, dtype: DType
) -> Case:
    """Parameters are constants; variances are not negative."""
    x = tensor("x", shape, dtype, scale_of(seed, dtype))
    y = tensor("y", shape, dtype, scale_of(seed + 1, dtype))
    feeds = {"x": seeded(seed, shape, dtype, special=seed % 2 == 1)}
    for index, size in enumerate(parameters):
        values = seeded(seed + 7 + index, size, DType.FLOAT32, special=False)
        feeds[f"p{index}"] = np.abs(values) if index == 3 else values
    operands = [tensor(f"p{i}", size, DType.FLOAT32) for i, size in enumerate(parameters)]
    return one_op(kind, [x, *operands], [y], attrs, Numerics.QDQ), feeds


_NORMS: list[tuple[str, Shape, list[Shape], Attrs]] = [
    ("BatchNorm", (2, 5, 3, 7), [(7,)] * 4, BatchNormAttrs()),
    ("BatchNorm", (3, 11), [(11,)] * 4, BatchNormAttrs(0.01, Activation.RELU6)),
    ("BatchNorm", (1, 2, 3, 1), [(1,)] * 4, BatchNormAttrs(1e-3, Activation.RELU)),
    ("LayerNorm", (2, 5, 3, 7), [], LayerNormAttrs(3)),
    ("LayerNorm", (2, 5, 3, 7), [(3, 7)], LayerNormAttrs(2)),
    ("LayerNorm", (2, 5, 3, 7), [(7,), (3, 1)], LayerNormAttrs(2, 1e-3)),
    ("LayerNorm", (150, 13), [(13,), (13,)], LayerNormAttrs(1)),
    ("LayerNorm", (4, 301), [(301,), (301,)], LayerNormAttrs(1)),
    ("InstanceNorm", (2, 5, 3, 7), [(7,), (7,)], InstanceNormAttrs()),
    ("InstanceNorm", (2, 13, 1), [(1,), (1,)], InstanceNormAttrs(1e-2)),
    ("GroupNorm", (2, 5, 3, 8), [(8,), (8,)], GroupNormAttrs(2)),
    ("GroupNorm", (2, 5, 9), [(9,), (9,)], GroupNormAttrs(9)),
    ("GroupNorm", (1, 2, 5, 6), [(6,), (6,)], GroupNormAttrs(1, 1e-3)),
]
for _index, _norm in enumerate(_NORMS):
    for _seed in (0, 1):
        for _dtype in (DType.FLOAT32, DType.INT8, DType.INT16):
            add(
                f"{_norm[0]}-{_index}-{_seed}-{_dtype.value}",
                lambda n=_norm, s=_seed, t=_dtype: normalized(*n, s, t),
            )


@pytest.mark.parametrize("make", [make for _, make in CASES], ids=[name for name, _ in CASES])
def test_results_have_the_same_bits(make: Callable[[], Case]) -> None:
    graph, feeds = make()
    with np.errstate(all="ignore"):
        check(graph, feeds)


def test_whole_means_and_litert_means_are_refused() -> None:
    whole, _ = reduction("Mean", 0, 0, DType.INT32)
    with pytest.raises(NoKernel, match="Mean on int32 has no kernel"):
        c_call(whole)
    litert, _ = reduction("Mean", 0, 0, DType.INT8, numerics=Numerics.LITERT)
    with pytest.raises(NoKernel):
        c_call(litert)
