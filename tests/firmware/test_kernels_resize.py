"""Resize in C against numpy: nearest and linear, all ways to place pixels, both numerics."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from firmware.host_kernels import c_call, check, one_op
from firmware.test_kernels_moves import values
from npuscope.graph.model import DType, Graph, Numerics, Quant, Tensor
from npuscope.ops.images import Coordinates, NearestRounding, ResizeAttrs, ResizeMode
from npuscope.program.kernel_calls.model import NoKernel

Case = tuple[Graph, dict[str, np.ndarray]]
CASES: list[tuple[str, Callable[[], Case]]] = []

_SIZES = (
    ((5, 7), (11, 13)),
    ((7, 6), (3, 4)),
    ((1, 3), (4, 1)),
    ((4, 4), (8, 12)),
    ((3, 2), (1, 1)),
)
_QUANT, _OTHER = Quant((0.11,), (3,)), Quant((0.07,), (-5,))
_UNSIGNED = Quant((0.09,), (131,))


def resized(
    sizes: tuple[tuple[int, int], tuple[int, int]],
    mode: ResizeMode,
    coordinates: Coordinates,
    rounding: NearestRounding = NearestRounding.FLOOR,
    dtype: DType = DType.FLOAT32,
    quants: tuple[Quant | None, Quant | None] = (None, None),
    numerics: Numerics = Numerics.QDQ,
    output_type: DType | None = None,
) -> Case:
    """Two images of three channels; the stated ratio is a little off where sizes are odd."""
    (height, width), (rows, columns) = sizes
    scales = (rows / height, columns / width)
    if rows % 2:
        scales = (scales[0] * 1.01, scales[1])
    attrs = ResizeAttrs((rows, columns), scales, mode, coordinates, rounding)
    shape = (2, height, width, 3)
    x = Tensor("x", shape, dtype, quants[0])
    y = Tensor("y", (2, rows, columns, 3), output_type or dtype, quants[1])
    return one_op("Resize", [x], [y], attrs, numerics), {"x": values(rows, shape, dtype)}


for _sizes, _place in product(_SIZES, Coordinates):
    _end = f"{_sizes[0]} to {_sizes[1]}, {_place.value}"
    _both = (_sizes, ResizeMode.NEAREST, _place)
    _linear = (_sizes, ResizeMode.LINEAR, _place, NearestRounding.FLOOR)
    for _rounding in NearestRounding:
        CASES.append(
            (
                f"nearest {_rounding.value} {_end}",
                lambda b=_both, r=_rounding: resized(*b, r, DType.INT64),
            )
        )
    CASES += [
        (
            f"nearest by table {_end}",
            lambda b=_both: resized(
                *b, NearestRounding.PREFER_CEIL, DType.INT8, quants=(_QUANT, _OTHER)
            ),
        ),
        (
            f"nearest as reals {_end}",
            lambda b=_both: resized(*b, NearestRounding.CEIL, DType.INT16, quants=(_QUANT, _OTHER)),
        ),
        (
            f"nearest of litert {_end}",
            lambda b=_both: resized(
                *b, NearestRounding.FLOOR, DType.UINT8, (_UNSIGNED, _UNSIGNED), Numerics.LITERT
            ),
        ),
        (f"linear float {_end}", lambda b=_linear: resized(*b)),
        (
            f"linear of qdq {_end}",
            lambda b=_linear: resized(*b, DType.INT8, (_QUANT, _OTHER)),
        ),
        (
            f"linear to float {_end}",
            lambda b=_linear: resized(*b, DType.INT8, (_QUANT, None), output_type=DType.FLOAT32),
        ),
        (
            f"linear of litert uint8 {_end}",
            lambda b=_linear: resized(*b, DType.UINT8, (_UNSIGNED,) * 2, Numerics.LITERT),
        ),
        (
            f"linear of litert int8 {_end}",
            lambda b=_linear: resized(*b, DType.INT8, (_QUANT,) * 2, Numerics.LITERT),
        ),
        (
            f"linear of litert int16 {_end}",
            lambda b=_linear: resized(*b, DType.INT16, (_QUANT,) * 2, Numerics.LITERT),
        ),
    ]


@pytest.mark.parametrize("make", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_same_bits(make: Callable[[], Case]) -> None:
    check(*make())


def test_linear_whole_numbers_without_a_scale_are_refused() -> None:
    row = (_SIZES[0], ResizeMode.LINEAR, Coordinates.HALF_PIXEL, NearestRounding.FLOOR)
    graph, _ = resized(*row, DType.INT32, (None, _QUANT), output_type=DType.INT8)
    with pytest.raises(NoKernel, match="Resize between int32 without a scale and other types"):
        c_call(graph)
