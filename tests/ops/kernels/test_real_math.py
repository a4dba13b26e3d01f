"""Our own float32 functions: their errors in units of the last place, and what is special."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from npuscope.ops.kernels import real_math
from npuscope.ops.kernels import step as in_order

Function = Callable[[np.ndarray], np.ndarray]

_ERF = np.frompyfunc(math.erf, 1, 1)


def spread(low: float, high: float, count: int = 200_000) -> np.ndarray:
    """Floats from low to high, as many in every power of two, of both signs."""
    ends = np.array([low, high], np.float32).view(np.uint32).astype(np.int64)
    sizes = np.linspace(ends[0], ends[1], count).astype(np.uint32).view(np.float32)
    return np.concatenate([sizes, -sizes])


def error(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance from the exact value, in units of its last place."""
    unit = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    inside = np.isfinite(exact) & (np.abs(exact) < 3.4e38)
    return float(np.max(np.where(inside, np.abs(found - exact) / unit, 0)))


@pytest.mark.parametrize(
    ("ours", "exact", "x", "most"),
    [
        (real_math.exp, np.exp, spread(1e-30, 103), 1.0),
        (real_math.expm1_below, np.expm1, -np.abs(spread(1e-30, 100)), 1.0),
        (real_math.log, np.log, np.abs(spread(1e-45, 3e38)), 1.0),
        (real_math.log, np.log, np.abs(spread(0.5, 2)), 1.0),
        (real_math.log1p_fraction, np.log1p, np.abs(spread(1e-38, 1)), 1.25),
        (real_math.tanh, np.tanh, spread(1e-30, 20), 1.5),
        (real_math.erf, lambda x: _ERF(x).astype(np.float64), spread(1e-30, 6, 30_000), 2.25),
        (real_math.sin, np.sin, spread(1e-30, 3.4e38), 1.75),
        (real_math.cos, np.cos, spread(1e-30, 3.4e38), 1.75),
        (real_math.sin, np.sin, spread(0.1, 1000), 1.75),
        (real_math.cos, np.cos, spread(0.1, 1000), 1.75),
    ],
    ids=["exp", "expm1", "log", "log-1", "log1p", "tanh", "erf", "sin", "cos", "sin-1", "cos-1"],
)
def test_errors_are_small(ours: Function, exact: Function, x: np.ndarray, most: float) -> None:
    with np.errstate(all="ignore"):
        assert error(ours(x), exact(x.astype(np.float64))) < most


def test_power_is_nearly_exact() -> None:
    rng = np.random.default_rng(1)
    a = np.exp(rng.uniform(-20, 20, 200_000)).astype(np.float32)
    b = rng.uniform(-20, 20, a.size).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.power(a.astype(np.float64), b.astype(np.float64))
        assert error(real_math.power(a, b), exact) < 0.51


@pytest.mark.parametrize(
    ("ours", "known"),
    [
        (real_math.exp, {np.inf: np.inf, -np.inf: 0.0, 0.0: 1.0, 200.0: np.inf, -200.0: 0.0}),
        (real_math.log, {np.inf: np.inf, -0.0: -np.inf, -1.0: np.nan, 1.0: 0.0}),
        (real_math.tanh, {np.inf: 1.0, -np.inf: -1.0, 30.0: 1.0, -0.0: -0.0}),
        (real_math.erf, {np.inf: 1.0, -np.inf: -1.0, -9.0: -1.0, -0.0: -0.0}),
        (real_math.sin, {np.inf: np.nan, -np.inf: np.nan, -0.0: -0.0}),
        (real_math.cos, {np.inf: np.nan, -0.0: 1.0}),
        (real_math.expm1_below, {-np.inf: -1.0, -30.0: -1.0}),
    ],
)
def test_special_values(ours: Function, known: dict[float, float]) -> None:
    found = ours(np.array([*known, np.nan], np.float32))
    np.testing.assert_array_equal(found, np.array([*known.values(), np.nan], np.float32))
    signs = [math.copysign(1, value) < 0 for value in known.values() if value == value]
    assert np.signbit(found[~np.isnan(found)]).tolist() == signs


@pytest.mark.parametrize(
    ("base", "exponent", "value"),
    [
        (0.0, 0.0, 1.0),
        (np.nan, 0.0, 1.0),
        (1.0, np.nan, 1.0),
        (-1.0, np.inf, 1.0),
        (-0.0, 3.0, -0.0),
        (-0.0, -3.0, -np.inf),
        (0.0, -2.0, np.inf),
        (-8.0, 3.0, -512.0),
        (-8.0, 2.0, 64.0),
        (-8.0, 0.5, np.nan),
        (-np.inf, 3.0, -np.inf),
        (-np.inf, 0.5, np.inf),
        (0.5, np.inf, 0.0),
        (2.0, -149.0, 2.0**-149),
        (2.0, 128.0, np.inf),
        (2.0, np.nan, np.nan),
    ],
)
def test_special_powers(base: float, exponent: float, value: float) -> None:
    found = real_math.power(np.float32([base]), np.float32([exponent]))
    np.testing.assert_array_equal(found, np.float32([value]))
    assert np.isnan(value) or np.signbit(found[0]) == np.signbit(value)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5, 7)])
def test_shapes_stay(shape: tuple[int, ...]) -> None:
    assert real_math.exp(np.zeros(shape, np.float32)).shape == shape
    assert real_math.exp(np.zeros(shape, np.float32)).dtype == np.float32


@pytest.mark.parametrize("width", [1, 5, 200])
def test_sums_run_in_memory_order(width: int) -> None:
    rng = np.random.default_rng(width)
    values = rng.normal(0, 1e3, (3, 41, width)).astype(np.float32)
    expected = np.zeros(width, np.float32)
    for row in values.reshape(-1, width):
        expected = expected + row
    np.testing.assert_array_equal(in_order.total(values, (0, 1)), expected)
    assert in_order.total(values, (0, 1), keepdims=True).shape == (1, 1, width)
    np.testing.assert_array_equal(in_order.mean(values, (0, 1)), expected / np.float32(123))


def test_nothing_sums_to_0_and_multiplies_to_1() -> None:
    nothing = np.zeros((2, 0), np.float32)
    assert in_order.total(nothing, (1,)).tolist() == [0, 0]
    assert in_order.product(nothing, (1,)).tolist() == [1, 1]
