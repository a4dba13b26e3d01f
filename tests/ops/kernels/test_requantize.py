"""The rounding rules by themselves, against slow and obvious versions in Python integers."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from npuscope.errors import ModelError
from npuscope.graph.model import DType
from npuscope.ops.kernels.conv import ConvSums, FloatRescale, float_rescale, rescale_twice
from npuscope.ops.kernels.requantize import (
    ExactRescale,
    Multipliers,
    Target,
    quantized_multipliers,
    round_half_away,
    rounding_shift,
    scale_reduced,
    scale_twice,
)
from npuscope.ops.kernels.windows import exact_panels

HALF = Fraction(1, 2)


def slow_double_rounding(value: int, mantissa: int, shift: int) -> int:
    """gemmlowp in rational numbers."""
    high = floor(Fraction(value * 2 ** max(shift, 0) * mantissa, 2**31) + HALF)
    part = Fraction(abs(high), 2 ** max(-shift, 0))
    return floor(part + HALF) * (1 if high >= 0 else -1)


def rescale(sums: np.ndarray, emit: object, dtype: type = np.int8) -> np.ndarray:
    out = np.empty(sums.shape, dtype)
    emit(sums, out)  # type: ignore[operator]
    return out


@pytest.mark.parametrize("shift", [-20, -9, -8, -1, 0, 1, 3])
@pytest.mark.parametrize("mantissa", [2**30, 2**30 + 1, 3 * 2**29, 2**31 - 1, 1518500250])
def test_scale_twice(shift: int, mantissa: int) -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate((np.arange(-600, 600), rng.integers(-(2**24), 2**24, 500)))
    factors = Multipliers(np.array([mantissa]), np.array([shift]))
    wanted = [slow_double_rounding(int(value), mantissa, shift) for value in values]
    assert scale_twice(values, factors).tolist() == wanted


def test_scale_reduced_saturates_the_mantissa() -> None:
    factors = Multipliers(np.array([2**31 - 1, 2**30]), np.array([0, 0]))
    assert scale_reduced(np.array([2**15, 3]), factors).tolist() == [2**15 - 1, 2]


def test_rounding_shift_goes_away_from_zero() -> None:
    assert rounding_shift(np.array([-6, -5, -2, -1, 0, 1, 2, 5, 6]), 2).tolist() == [
        -2, -1, -1, 0, 0, 0, 1, 1, 2,
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_half_away(dtype: type) -> None:
    halves = (np.arange(-200, 201) / 2).astype(dtype)
    values = np.concatenate((halves, np.nextafter(halves, dtype(9e9)), [dtype(2**22 + 1.5)]))
    values = np.concatenate((values, -values)).astype(dtype)
    wanted = [floor(abs(Fraction(float(v))) + HALF) * (1 if v >= 0 else -1) for v in values]
    assert round_half_away(values).tolist() == wanted


def test_multipliers_are_the_nearest_of_31_bits() -> None:
    factors = quantized_multipliers([0.5, 1.0, 3.0, 1 - 2.0**-40, 2.0**-40])
    assert factors.mantissa.tolist() == [2**30, 2**30, 3 * 2**29, 2**30, 0]
    assert factors.shift.tolist() == [0, 1, 2, 1, 0]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_multipliers_are_refused(factor: float) -> None:
    with pytest.raises(ModelError, match="not a positive finite number"):
        quantized_multipliers(factor)


TARGETS = [
    Target(DType.INT8, -128, -128, 127),
    Target(DType.INT8, 5, -128, 127),
    Target(DType.INT8, 3, 3, 60),
    Target(DType.UINT8, 131, 0, 255),
    Target(DType.INT16, 0, -32768, 32767),
]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("reach", [2.0**18, 2.0**24])
def test_floats_round_like_integers(target: Target, reach: float) -> None:
    """Random factors, exact ties and dead channels, on sums around all steps of the output."""
    rng = np.random.default_rng(2)
    factors = np.concatenate((2.0 ** -np.arange(1.0, 30.0), 2.0 ** rng.uniform(-28, 2, 99)))
    bias = rng.integers(-(2**20), 2**20, len(factors)).astype(np.int64)
    bias[::7] = 0
    emit = rescale_twice(factors, ConvSums(bias, np.full(len(factors), reach)), target)
    exact = ExactRescale(scale_twice, quantized_multipliers(factors), bias, target)
    steps = np.arange(target.low - 2, target.high + 2, 1 if target.dtype.bits == 8 else 97)
    near = np.rint((steps[:, np.newaxis] + 0.5 - target.zero_point) / factors - bias)
    sums = np.concatenate([near + offset for offset in range(-3, 4)])
    sums = np.clip(sums, -reach, reach).astype(np.float32 if reach < 2**24 else np.float64)
    dtype = target.dtype.numpy
    np.testing.assert_array_equal(rescale(sums, emit, dtype), rescale(sums, exact, dtype))


def test_floats_serve_dead_channels_but_not_what_they_cannot_prove() -> None:
    target = Target(DType.INT8, -4, -128, 127)
    dead = ConvSums(np.array([2**30, -(2**30)]), np.array([2.0**17, 2.0**17]))
    assert isinstance(rescale_twice(np.array([1e-9, 2e-8]), dead, target), FloatRescale)
    wide = Target(DType.INT16, 0, -32768, 32767)
    assert isinstance(rescale_twice(np.array([1e-9, 2e-8]), dead, wide), ExactRescale)


def test_a_float_that_rounds_wrongly_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second proof compares results: an offset off by one unit of a sum must show."""
    from npuscope.ops.kernels import conv as double_rounding

    def careless(exact: ExactRescale, row: int) -> FloatRescale:
        right = float_rescale(exact, row)
        return FloatRescale(
            right.scale, right.offset + right.scale, right.nudge, right.base, right.limits
        )

    monkeypatch.setattr(double_rounding, "float_rescale", careless)
    sums = ConvSums(np.array([100]), np.array([2.0**23]))
    emit = rescale_twice(np.array([2.0**-12 * 1.1]), sums, Target(DType.INT8, 0, -128, 127))
    assert isinstance(emit, ExactRescale)


@pytest.mark.parametrize("depth", [1024, 1032, 1041, 4097])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
def test_panels_are_exact(depth: int, dtype: DType) -> None:
    for weight in (-128, 127):
        weights = np.full((3, depth), weight, np.int32)
        weights[1, -1] += 1
        for value in dtype.limits:
            panels = exact_panels(weights, dtype)
            rows = np.full((2, depth), value).astype(panels.dtype)
            wanted = [[int(row.sum()) * value for row in weights.astype(np.int64)]] * 2
            assert panels(rows).astype(np.int64).tolist() == wanted


def test_panels_are_not_cut_without_need() -> None:
    small = np.ones((4, 5000), np.int32)  # 5000 * 128 < 2**24
    assert len(exact_panels(small, DType.INT8).parts) == 1
