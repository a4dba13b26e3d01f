"""Functions of the circle and the hyperbola: near the true values, and special values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npuscope.ops.kernels import circle_math
from ops.kernels.test_real_math import spread

_ALL = {
    "tan": (np.tan, 3.4e38, 3.5),
    "asin": (np.arcsin, 1, 2.5),
    "acos": (np.arccos, 1, 1.5),
    "atan": (np.arctan, 3.4e38, 2.75),
    "sinh": (np.sinh, 89, 4),
    "cosh": (np.cosh, 89, 3.25),
    "asinh": (np.arcsinh, 3.4e38, 4),
    "acosh": (np.arccosh, 3.4e38, 2.5),
    "atanh": (np.arctanh, 0.999999, 1.5),
}


@pytest.mark.parametrize("name", _ALL)
def test_near_the_true_value(name: str) -> None:
    true, most, allowed = _ALL[name]
    near = (
        np.float32(1) + np.abs(spread(1e-6, 3)) if name == "acosh" else spread(0.01, min(most, 4))
    )
    x = np.concatenate([near, spread(1e-30, most)]).astype(np.float32)
    x = x[x >= 1] if name == "acosh" else x
    right = true(x.astype(np.float64))
    step = np.spacing(np.abs(right).astype(np.float32)).astype(np.float64)
    assert (np.abs(getattr(circle_math, name)(x) - right) / step).max() < allowed


@pytest.mark.parametrize("name", _ALL)
def test_special_values(name: str) -> None:
    x = np.float32([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, -2, 1e-45, 3e38])
    true: Callable[[np.ndarray], np.ndarray] = _ALL[name][0]
    with np.errstate(all="ignore"):
        right = true(x.astype(np.float64)).astype(np.float32)
    found = getattr(circle_math, name)(x)
    np.testing.assert_allclose(found, right, rtol=1e-6)
    numbers = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(right)[numbers])
