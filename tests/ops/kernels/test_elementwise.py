"""Element-wise ops against LiteRT's reference kernels; 8-bit ones on all values or pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ops.litert_ops import Value, check, constant, one_op, q8, random_values, schema

OPTIONS = {"ADD": "AddOptionsT", "SUB": "SubOptionsT", "MUL": "MulOptionsT"}
QUANTS = [
    ((0.1, 3), (0.1, 3), (0.2, 3)),
    ((0.0213, -128), (0.37, 17), (0.391, -5)),
    ((0.5, 0), (0.25, 0), (1.0, 0)),  # powers of two: exact ties
    ((0.9, 127), (0.0011, -128), (0.004, 100)),
]


def all_pairs() -> list[np.ndarray]:
    every = np.arange(-128, 128).astype(np.int8)
    return [np.repeat(every, 256).reshape(1, 256, 256), np.tile(every, 256).reshape(1, 256, 256)]


def binary_options(operator: str, activation: int) -> object:
    options = getattr(schema, OPTIONS[operator])()
    options.fusedActivationFunction = activation
    return options


@pytest.mark.parametrize("operator", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("quants", QUANTS)
@pytest.mark.parametrize("activation", [0, 1, 3])
def test_binary_on_all_pairs(operator: str, quants: tuple, activation: int, tmp_path: Path) -> None:
    a, b, y = (q8((1, 256, 256), scale, zero) for scale, zero in quants)
    if operator == "MUL":
        y = q8(y.shape, y.scales[0] * 9, y.zeros[0])
    model = one_op(operator, binary_options(operator, activation), [a, b], y)
    check(tmp_path, model, all_pairs())


@pytest.mark.parametrize("operator", ["ADD", "SUB", "MUL"])
def test_binary_broadcasts_a_constant(operator: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a, y = q8((1, 5, 7, 3), 0.05, 4), q8((1, 5, 7, 3), 0.09, -6)
    b = constant(np.array([[[[-128, 0, 127]]]], np.int8), 0.031, (-2,))
    model = one_op(operator, binary_options(operator, 0), [a, b], y)
    check(tmp_path, model, [random_values(rng, a)])


@pytest.mark.parametrize("operator", ["ADD", "SUB", "MUL"])
def test_binary_on_16_bit(operator: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    options = binary_options(operator, 0)
    if operator != "MUL":
        options.potScaleInt16 = False
    scales = (0.00031, 0.0007, 0.0011) if operator != "MUL" else (0.00037, 0.00071, 0.0053)
    a, b, y = (q8((1, 300, 500), scale, 0, "int16") for scale in scales)
    model = one_op(operator, options, [a, b], y)
    check(tmp_path, model, [random_values(rng, a), random_values(rng, b)])


ALL = np.arange(-128, 128).astype(np.int8).reshape(1, 256)
UNARY_QUANTS = [((0.1, 3), (0.1, 3)), ((0.047, -128), (0.0235, -128)), ((0.25, 5), (0.5, -7))]


@pytest.mark.parametrize("operator", ["RELU", "RELU6", "RELU_N1_TO_1", "QUANTIZE"])
@pytest.mark.parametrize("quants", UNARY_QUANTS)
def test_unary_on_all_values(operator: str, quants: tuple, tmp_path: Path) -> None:
    x, y = (q8((1, 256), scale, zero) for scale, zero in quants)
    check(tmp_path, one_op(operator, None, [x], y), [ALL])


@pytest.mark.parametrize("scale", [0.003, 0.0235, 0.1, 1.7])
@pytest.mark.parametrize("zero", [-128, 0, 31])
def test_sigmoid_on_all_values(scale: float, zero: int, tmp_path: Path) -> None:
    x, y = q8((1, 256), scale, zero), q8((1, 256), 1 / 256, -128)
    check(tmp_path, one_op("LOGISTIC", None, [x], y), [ALL])


@pytest.mark.parametrize(("source", "target"), [("uint8", "int8"), ("int8", "uint8")])
@pytest.mark.parametrize("scale", [0.5, 0.37])
def test_requantize_between_signs(source: str, target: str, scale: float, tmp_path: Path) -> None:
    zeros = {"uint8": 128, "int8": 0}
    x = q8((1, 256), 0.5, zeros[source], source)
    y = q8((1, 256), scale, zeros[target], target)
    values = np.arange(256, dtype=np.uint8).view(source).reshape(1, 256)
    check(tmp_path, one_op("QUANTIZE", None, [x], y), [values])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_quantize_floats_with_ties(dtype: str, tmp_path: Path) -> None:
    zero = {"int8": -3, "uint8": 100, "int16": 0}[dtype]
    x, y = Value((1, 2002), "float32"), q8((1, 2002), 0.25, zero, dtype)
    ties = np.arange(-1001, 1001).astype(np.float32) / 8
    values = np.where(np.arange(2002) % 3 == 0, np.nextafter(ties, np.float32(0)), ties)
    check(tmp_path, one_op("QUANTIZE", None, [x], y), [values.reshape(1, 2002)])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_dequantize(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = q8((1, 999), 0.0371, {"int8": -3, "uint8": 100, "int16": 0}[dtype], dtype)
    y = Value((1, 999), "float32")
    check(tmp_path, one_op("DEQUANTIZE", None, [x], y), [random_values(rng, x)])
