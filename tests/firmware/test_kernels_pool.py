"""Pooling in C against numpy: floats, scaled integers and raw maxima."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from firmware.host_kernels import c_call, check, one_op
from firmware.seeded_values import Case, scale_of, seeded, tensor
from npuscope.graph.model import Activation, DType, Numerics
from npuscope.ops.reduce import PoolAttrs
from npuscope.program.kernel_calls.model import NoKernel
from npuscope.structs import replace

CASES: list[tuple[str, Callable[[], Case]]] = []

_POOLS: list[tuple[tuple[int, int, int, int], PoolAttrs]] = [
    ((1, 7, 11, 3), PoolAttrs((2, 2), (2, 2))),
    ((2, 5, 5, 1), PoolAttrs((3, 3), (1, 1), (1, 1, 1, 1))),
    ((1, 13, 4, 5), PoolAttrs((3, 2), (2, 3), (2, 0, 1, 1))),
    ((1, 7, 7, 13), PoolAttrs((7, 7), (1, 1))),
    ((1, 3, 3, 2), PoolAttrs((1, 1), (2, 2))),
    ((1, 5, 3, 2), PoolAttrs((5, 1), (1, 1), (4, 0, 4, 0))),
    ((1, 6, 6, 3), PoolAttrs((3, 3), (2, 2), (0, 1, 1, 0))),
]


def pooled(
    kind: str,
    row: int,
    dtype: DType,
    numerics: Numerics = Numerics.QDQ,
    alike: bool = True,
    special: bool = False,
) -> Case:
    shape, attrs = _POOLS[row]
    attrs = replace(attrs, activation=list(Activation)[row % 4], count_pads=row % 2 == 1)
    quant = scale_of(row, dtype)
    x = tensor("x", shape, dtype, quant)
    y = tensor("y", _made(shape, attrs), dtype, quant if alike else scale_of(row + 1, dtype))
    return one_op(kind, [x], [y], attrs, numerics), {"x": seeded(row, shape, dtype, special)}


def _made(shape: tuple[int, ...], attrs: PoolAttrs) -> tuple[int, ...]:
    top, left, bottom, right = attrs.pads
    rows = (shape[1] + top + bottom - attrs.window[0]) // attrs.strides[0] + 1
    columns = (shape[2] + left + right - attrs.window[1]) // attrs.strides[1] + 1
    return (shape[0], rows, columns, shape[3])


for _row in range(len(_POOLS)):
    for _kind in ("MaxPool", "AveragePool"):
        for _special in (False, True):
            CASES.append(
                (
                    f"{_kind}-float-{_row}-{_special}",
                    lambda k=_kind, r=_row, s=_special: pooled(k, r, DType.FLOAT32, special=s),
                )
            )
        for _dtype in (DType.INT8, DType.INT16):
            for _alike in (True, False):
                CASES.append(
                    (
                        f"{_kind}-{_dtype.value}-{_row}-{_alike}",
                        lambda k=_kind, r=_row, t=_dtype, a=_alike: pooled(k, r, t, alike=a),
                    )
                )
    for _dtype in (DType.INT8, DType.UINT8, DType.INT16):
        CASES.append(
            (
                f"MaxPool-litert-{_dtype.value}-{_row}",
                lambda r=_row, t=_dtype: pooled("MaxPool", r, t, Numerics.LITERT),
            )
        )


def negative_zeros() -> Case:
    """A sum that began with 0 would lose the sign."""
    graph, feeds = pooled("AveragePool", 0, DType.FLOAT32)
    return graph, {"x": np.full_like(feeds["x"], -0.0)}


CASES.append(("AveragePool-negative-zeros", negative_zeros))


@pytest.mark.parametrize("make", [make for _, make in CASES], ids=[name for name, _ in CASES])
def test_pool_gives_the_same_bits(make: Callable[[], Case]) -> None:
    graph, feeds = make()
    with np.errstate(all="ignore"):
        check(graph, feeds)


def test_equal_scales_pool_raw_values() -> None:
    assert c_call(pooled("MaxPool", 0, DType.INT8)[0]).function == "npuscope_max_pool_raw"
    unlike = pooled("MaxPool", 0, DType.INT8, alike=False)[0]
    assert c_call(unlike).function == "npuscope_max_pool"


def test_what_numpy_rounds_in_integers_is_refused() -> None:
    with pytest.raises(NoKernel):
        c_call(pooled("AveragePool", 0, DType.INT8, Numerics.LITERT)[0])
    with pytest.raises(NoKernel, match="MaxPool on int32 has no kernel"):
        c_call(pooled("MaxPool", 0, DType.INT32)[0])
