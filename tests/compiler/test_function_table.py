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
    assert table is not None
    difference = np.abs(evaluate(table) - bytes_)
    assert difference.max() <= 1
    assert (difference == 0).mean() > 0.85
    assert len(table.rom0) == 32
    assert table.rom1.shape == (32, 3)


def bytes_of(name: str, scale: float, zero: int, step: float, out_zero: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        real = FUNCTIONS[name]((np.arange(-128, 128) - zero) * scale)
        return np.asarray(np.clip(np.round(real / step) + out_zero, -128, 127))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", range(12))
def test_any_scale_is_met_within_one_step(name: str, seed: int) -> None:
    """From flat to steps of the whole range between two bytes."""
    random = np.random.default_rng(seed)
    scale, step = 10 ** random.uniform(-3, 1.5, 2)
    zero, out_zero = random.integers(-128, 128, 2)
    wanted = bytes_of(name, scale, int(zero), step, int(out_zero))
    table = fit_function(wanted)
    assert table is not None
    assert np.abs(evaluate(table) - wanted).max() <= 1
    assert len(table.rom1) <= 64


def test_a_steep_function_shares_rows() -> None:
    """Flat on both sides: one row each, and one for every byte in between."""
    table = fit_function(bytes_of("sigmoid", 3.0, 0, 1 / 256, -128))
    assert table is not None
    assert len(table.rom0) == 32
    assert len(table.rom1) < 32
    assert max(table.rom0 >> 6) == 3


def test_what_no_table_holds() -> None:
    """Bytes without any order need 256 rows."""
    assert fit_function(np.random.default_rng(0).integers(-128, 128, 256)) is None


def test_a_line_is_exact() -> None:
    identity = np.arange(-128, 128)
    table = fit_function(identity)
    assert table is not None
    assert np.array_equal(evaluate(table), identity)
