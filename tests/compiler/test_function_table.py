"""Functions of one byte from two tables: every byte within one step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npuscope.compiler.function_table import evaluate, fit_function

FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda r: 1 / (1 + np.exp(-r)),
    "tanh": np.tanh,
    "hard swish": lambda r: r * np.clip(r + 3, 0, 6) / 6,
    "leaky relu": lambda r: np.where(r > 0, r, 0.1 * r),
    "exp": np.exp,
    "abs": np.abs,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("scale", "zero"), [(0.05, 3), (0.1, -20), (0.02, -128), (0.013, 127)])
def test_a_function_is_met_within_one_step(name: str, scale: float, zero: int) -> None:
    real = FUNCTIONS[name]((np.arange(-128, 128) - zero) * scale)
    step = max(float(real.max() - real.min()) / 255, 1e-3)
    bytes_ = np.clip(np.round((real - real.min()) / step) - 128, -128, 127)
    table = fit_function(bytes_)
    difference = np.abs(evaluate(table) - bytes_)
    assert difference.max() <= 1
    assert (difference == 0).mean() > 0.85
    assert len(table.rom0) == 32
    assert table.rom1.shape == (32, 3)


def test_a_line_is_exact() -> None:
    identity = np.arange(-128, 128)
    assert np.array_equal(evaluate(fit_function(identity)), identity)
