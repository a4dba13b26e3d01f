"""Comparisons, choices and the other ops of two operands against LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ops.litert_ops import (
    Value,
    check,
    check_near,
    constant,
    one_op,
    options,
    ours,
    q8,
    random_values,
    reference,
)

QUANTS = [
    ((0.1, 3), (0.1, 3)),
    ((0.0011, 3), (0.0011, 3)),
    ((0.0213, -128), (0.37, 17)),
    ((0.5, 0), (0.25, 0)),
]
EVERY = np.arange(-128, 128).astype(np.int8)
PAIRS = [np.repeat(EVERY, 256).reshape(1, 256, 256), np.tile(EVERY, 256).reshape(1, 256, 256)]
SHAPE = (1, 256, 256)


@pytest.mark.parametrize("quants", QUANTS)
@pytest.mark.parametrize(
    "operator", ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"]
)
def test_comparisons_of_all_pairs(operator: str, quants: tuple, tmp_path: Path) -> None:
    a, b = (q8(SHAPE, *quant) for quant in quants)
    check(tmp_path, one_op(operator, None, [a, b], Value(SHAPE, "bool")), PAIRS)


@pytest.mark.parametrize("operator", ["MINIMUM", "MAXIMUM"])
def test_extremes_of_all_pairs(operator: str, tmp_path: Path) -> None:
    x = q8(SHAPE, 0.05, -7)
    check(tmp_path, one_op(operator, None, [x, x], x), PAIRS)


@pytest.mark.parametrize("quants", QUANTS)
@pytest.mark.parametrize("operator", ["SQUARED_DIFFERENCE", "PRELU"])
def test_all_pairs(operator: str, quants: tuple, tmp_path: Path) -> None:
    a, b = (q8(SHAPE, *quant) for quant in quants)
    check(tmp_path, one_op(operator, None, [a, b], q8(SHAPE, 0.31, -20)), PAIRS)


def test_slopes_per_channel(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x, y = q8((1, 5, 7, 11), 0.05, 4), q8((1, 5, 7, 11), 0.043, -6)
    slopes = constant(rng.integers(-128, 128, (1, 1, 11)).astype(np.int8), 0.01, (-3,))
    check(tmp_path, one_op("PRELU", None, [x, slopes], y), [random_values(rng, x)])


@pytest.mark.parametrize("scale", [0.05, 0.4])
def test_quotients(scale: float, tmp_path: Path) -> None:
    """Where LiteRT's last shift stays below 32 bits; beyond, its result is undefined."""
    a, b, y = q8(SHAPE, 0.1, 3), q8(SHAPE, 0.07, -7), q8(SHAPE, scale, 5)
    divisors = np.where(PAIRS[1] == -7, -6, PAIRS[1]).astype(np.int8)
    model = one_op("DIV", options("DivOptions"), [a, b], y)
    values = [PAIRS[0], divisors]
    wanted, found = reference(model, values), ours(tmp_path, model, values)
    real = 0.1 * (values[0] - 3.0) / (0.07 * (values[1] + 7.0)) / scale
    defined = np.abs(real) >= 0.5
    np.testing.assert_array_equal(found[defined], wanted[defined])
    assert np.abs(found[~defined] - 5).max() <= 1


FLOATS = ["DIV", "POW", "SQUARED_DIFFERENCE", "MINIMUM", "MAXIMUM", "PRELU"]


@pytest.mark.parametrize("operator", FLOATS)
def test_floats(operator: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a, b = Value((1, 5, 7, 3), "float32"), Value((1, 5, 7, 3), "float32")
    values = [rng.uniform(0.1, 3, a.shape).astype(np.float32) for _ in (a, b)]
    if operator not in ("DIV", "POW"):
        values = [x - np.float32(1.5) for x in values]
    if operator == "PRELU":
        b = Value((1, 1, 3), "float32")
        values[1] = values[1][0, :1, :1]
    made = options("DivOptions") if operator == "DIV" else None
    check_near(tmp_path, one_op(operator, made, [a, b], a), values, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_remainders_have_the_sign_of_the_divisor(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    a, b = Value((1, 5, 7, 11), dtype), Value((1, 1, 7, 11), dtype)
    values = [rng.integers(-40, 41, v.shape).astype(dtype) for v in (a, b)]
    values[1][values[1] == 0] = 7
    if dtype == "float32":
        values = [x * np.float32(0.37) for x in values]
    check(tmp_path, one_op("FLOOR_MOD", None, [a, b], a), values)


@pytest.mark.parametrize("operator", ["LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"])
def test_logic(operator: str, tmp_path: Path) -> None:
    x = Value((1, 4), "bool")
    values = [np.array([[True, True, False, False]]), np.array([[True, False, True, False]])]
    count = 1 if operator == "LOGICAL_NOT" else 2
    check(tmp_path, one_op(operator, None, [x] * count, x), values[:count])


@pytest.mark.parametrize("operator", ["SELECT", "SELECT_V2"])
def test_choice(operator: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    shape = (5, 7) if operator == "SELECT" else (3, 5, 7)
    rows = (5,) if operator == "SELECT" else (5, 1)
    a, b = q8(shape, 0.1, 3), q8(shape, 0.1, 3)
    model = one_op(operator, None, [Value(rows, "bool"), a, b], q8(shape, 0.1, 3))
    truth = np.arange(5).reshape(rows) % 2 == 0
    check(tmp_path, model, [truth, random_values(rng, a), random_values(rng, b)])
