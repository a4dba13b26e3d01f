"""FullyConnected and MatMul against LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ops.litert_ops import Value, check, constant, one_op, q8, random_values, schema


def dense_model(
    weights: np.ndarray,
    bias: np.ndarray | None,
    *,
    rows: int = 1,
    scales: tuple[float, ...] = (0.013,),
    y_scale: float = 0.9,
    activation: int = 0,
    dtype: str = "int8",
    zeros: tuple[int, int] = (4, -11),
) -> tuple[bytes, Value]:
    options = schema.FullyConnectedOptionsT()
    options.fusedActivationFunction = activation
    x = q8((rows, weights.shape[1]), 0.021, zeros[0], dtype)
    y = q8((rows, len(weights)), y_scale, zeros[1], dtype)
    inputs = [x, constant(weights, scales)]
    if bias is not None:
        inputs.append(constant(bias, np.float32(scales) * np.float32(0.021)))
    return one_op("FULLY_CONNECTED", options, inputs, y), x


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("depth", [7, 640, 1031])
@pytest.mark.parametrize("activation", [0, 1, 3])
def test_fully_connected_is_exact(rows: int, depth: int, activation: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(depth)
    weights = rng.integers(-128, 128, (101, depth)).astype(np.int8)
    bias = rng.integers(-20000, 20000, 101).astype(np.int32)
    y_scale = float(np.float32(0.021 * 0.013 * 70 * np.sqrt(depth)))
    model, x = dense_model(weights, bias, rows=rows, y_scale=y_scale, activation=activation)
    check(tmp_path, model, [random_values(rng, x)])


def test_scales_per_channel_and_no_bias(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    weights = rng.integers(-127, 128, (37, 53)).astype(np.int8)
    scales = tuple(0.01 + 0.01 * rng.random(37))
    model, x = dense_model(weights, None, rows=5, scales=scales, y_scale=0.05)
    check(tmp_path, model, [random_values(rng, x)])


def test_ties(tmp_path: Path) -> None:
    """A factor of exactly 1/2: half of all sums are ties, on both sides of zero."""
    rng = np.random.default_rng(2)
    weights = rng.integers(-2, 3, (64, 3)).astype(np.int8)
    bias = rng.integers(-5, 6, 64).astype(np.int32)
    options = schema.FullyConnectedOptionsT()
    x, y = q8((16, 3), 0.5, 0), q8((16, 64), 0.5, 1)
    inputs = [x, constant(weights, 0.5), constant(bias, 0.25)]
    model = one_op("FULLY_CONNECTED", options, inputs, y)
    check(tmp_path, model, [rng.integers(-9, 10, x.shape).astype(np.int8)])


@pytest.mark.parametrize("value", [-128, 127])
def test_constant_extremes_over_4097_terms(value: int, tmp_path: Path) -> None:
    """The bias takes the long sum back, so that one unit of it shows."""
    depth = 4097
    weights = np.full((9, depth), 127, np.int8)
    bias = (np.arange(-4, 5) - depth * 127 * (value - 4)).astype(np.int32)
    model, x = dense_model(weights, bias, y_scale=0.00027)
    found = check(tmp_path, model, [np.full(x.shape, value, np.int8)])
    assert len(np.unique(found)) == 9


def test_16_bit_activations(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    weights = rng.integers(-127, 128, (19, 67)).astype(np.int8)
    bias = rng.integers(-(10**6), 10**6, 19).astype(np.int64)
    model, x = dense_model(weights, bias, dtype="int16", zeros=(0, 0), y_scale=0.5)
    check(tmp_path, model, [random_values(rng, x)])


@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_is_exact(transposed: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    options = schema.BatchMatMulOptionsT()
    options.adjY = transposed
    a = q8((2, 5, 37), 0.03, 3)
    b = q8((2, 11, 37) if transposed else (2, 37, 11), 0.017, -9)
    y = q8((2, 5, 11), 0.21, 6)
    model = one_op("BATCH_MATMUL", options, [a, b], y)
    check(tmp_path, model, [random_values(rng, a), random_values(rng, b)])


def test_matmul_of_16_bits(tmp_path: Path) -> None:
    """Sums of 64 bits have a rule of their own; no sum leaves the 32 bits of LiteRT's result."""
    rng = np.random.default_rng(4)
    a, b = q8((1, 23, 37), 2e-5, 0, "int16"), q8((1, 37, 29), 4e-4, 0, "int16")
    model = one_op(
        "BATCH_MATMUL", schema.BatchMatMulOptionsT(), [a, b], q8((1, 23, 29), 4e-5, 0, "int16")
    )
    values = [rng.integers(-3000, 3000, value.shape).astype(np.int16) for value in (a, b)]
    found = check(tmp_path, model, values)
    assert len(np.unique(found)) > 200
