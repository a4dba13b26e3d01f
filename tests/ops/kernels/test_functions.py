"""Functions of one value against LiteRT's kernels; 8-bit ones on all values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ops.litert_ops import (
    Value,
    check,
    check_near,
    one_op,
    options,
    ours,
    q8,
    references,
)

ALL = np.arange(-128, 128).astype(np.int8).reshape(1, 256)
QUANTS = [
    ((0.1, 3), (0.1, 3)),
    ((0.047, -128), (0.0235, -128)),
    ((0.25, 5), (0.5, -7)),  # powers of two: exact ties
    ((0.031, 17), (0.007, -100)),
]
OPTIONS = {
    "LEAKY_RELU": lambda: options("LeakyReluOptions", alpha=0.1),
    "GELU": lambda: options("GeluOptions", approximate=False),
}
POSITIVE = ("LOG", "RSQRT", "SQRT")


@pytest.mark.parametrize("quants", QUANTS)
@pytest.mark.parametrize(
    "operator",
    ["TANH", "HARD_SWISH", "LEAKY_RELU", "GELU", "ABS", "NEG", "EXP", *POSITIVE],
)
def test_on_all_values(operator: str, quants: tuple, tmp_path: Path) -> None:
    (scale, zero), target = quants
    x = q8((1, 256), scale, -128 if operator in POSITIVE else zero)
    made = OPTIONS[operator]() if operator in OPTIONS else None
    check(tmp_path, one_op(operator, made, [x], q8((1, 256), *target)), [ALL])


@pytest.mark.parametrize("alpha", [0.3, 1.7, 0.0, -0.2])
def test_leaky_relu_slopes(alpha: float, tmp_path: Path) -> None:
    made = options("LeakyReluOptions", alpha=alpha)
    model = one_op("LEAKY_RELU", made, [q8((1, 256), 0.05, 7)], q8((1, 256), 0.06, -11))
    check(tmp_path, model, [ALL])


def test_gelu_by_tanh(tmp_path: Path) -> None:
    made = options("GeluOptions", approximate=True)
    model = one_op("GELU", made, [q8((1, 256), 0.04, 9)], q8((1, 256), 0.03, -100))
    check(tmp_path, model, [ALL])


@pytest.mark.parametrize("quants", QUANTS)
def test_elu(quants: tuple, tmp_path: Path) -> None:
    """The set of reference kernels lacks it, the default one looks it up in the same table."""
    source, target = quants
    model = one_op("ELU", None, [q8((1, 256), *source)], q8((1, 256), *target))
    wanted = references(model, [ALL], plain=True)[0]
    np.testing.assert_array_equal(ours(tmp_path, model, [ALL]), wanted)


@pytest.mark.parametrize("operator", ["TANH", "LEAKY_RELU", "HARD_SWISH"])
def test_on_unsigned_bytes(operator: str, tmp_path: Path) -> None:
    values = np.arange(256, dtype=np.uint8).reshape(1, 256)
    x, y = q8((1, 256), 0.05, 131, "uint8"), q8((1, 256), 1 / 128, 128, "uint8")
    made = OPTIONS[operator]() if operator in OPTIONS else None
    check(tmp_path, one_op(operator, made, [x], y), [values])


FLOATS = {
    "ABS": (-3, 3),
    "NEG": (-3, 3),
    "SIGN": (-3, 3),
    "FLOOR": (-9, 9),
    "CEIL": (-9, 9),
    "ROUND": (-9, 9),
    "SQUARE": (-3, 3),
    "SQRT": (0, 9),
    "RSQRT": (0.1, 9),
    "EXP": (-5, 5),
    "LOG": (0.1, 9),
    "SIN": (-5, 5),
    "COS": (-5, 5),
    "TANH": (-4, 4),
    "ELU": (-4, 4),
    "HARD_SWISH": (-5, 5),
    "LEAKY_RELU": (-5, 5),
    "GELU": (-4, 4),
    "LOGISTIC": (-8, 8),
}


@pytest.mark.parametrize("operator", FLOATS)
def test_on_floats(operator: str, tmp_path: Path) -> None:
    values = np.linspace(*FLOATS[operator], 1001, dtype=np.float32)
    if operator in ("ROUND", "FLOOR", "CEIL"):
        values = np.arange(-18, 18, dtype=np.float32) / 2  # ties go to even
    x = Value(values.shape, "float32")
    made = OPTIONS[operator]() if operator in OPTIONS else None
    check_near(tmp_path, one_op(operator, made, [x], x), [values], 1e-5)


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("int32", "float32"), ("bool", "float32"), ("float32", "bool")],
)
def test_cast(source: str, target: str, tmp_path: Path) -> None:
    values = np.array([[-2.7, -1.0, 0.0, 0.4, 1.0, 3.9]]).astype(source)
    made = options("CastOptions")
    model = one_op("CAST", made, [Value((1, 6), source)], Value((1, 6), target))
    check(tmp_path, model, [values])
