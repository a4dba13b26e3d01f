"""TransposeConv against LiteRT's reference kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ops.litert_ops import Value, check, check_near, constant, one_op, options, q8, random_values

SAME, VALID = 0, 1
# height, width, depth, outputs, kernel, strides, padding
CASES = [
    (5, 7, 3, 5, (2, 2), (2, 2), SAME),
    (5, 7, 3, 5, (3, 3), (2, 2), SAME),
    (4, 3, 7, 11, (3, 3), (2, 2), VALID),
    (7, 5, 2, 3, (4, 4), (2, 2), SAME),
    (3, 5, 13, 2, (5, 3), (1, 1), SAME),
    (3, 4, 5, 1, (2, 3), (3, 2), VALID),
    (4, 4, 6, 4, (2, 2), (3, 3), VALID),  # gaps between the patches
    (2, 3, 300, 3, (3, 3), (2, 1), SAME),  # sums beyond 2**24
]


def output_size(size: int, kernel: int, stride: int, padding: int) -> int:
    return size * stride if padding == SAME else size * stride + max(kernel - stride, 0)


def build(case: tuple, activation: int, dtype: str = "int8", per_channel: bool = True) -> tuple:
    height, width, depth, outputs, kernel, strides, padding = case
    rng = np.random.default_rng(height * width + depth)
    rows = zip((height, width), kernel, strides, strict=True)
    sizes = [output_size(size, window, stride, padding) for size, window, stride in rows]
    form = (outputs, *kernel, depth)
    shape = (1, *sizes, outputs)
    made = options(
        "TransposeConvOptions",
        padding=padding,
        strideH=strides[0],
        strideW=strides[1],
        fusedActivationFunction=activation,
    )
    sizes_input = constant(np.array(shape, np.int32))
    if dtype == "float32":
        weights = constant(rng.normal(size=form).astype(np.float32))
        bias = constant(rng.normal(size=outputs).astype(np.float32))
        x, y = Value((1, height, width, depth), dtype), Value(shape, dtype)
        values = rng.normal(size=x.shape).astype(np.float32)
    else:
        scales = (0.01 + 0.02 * rng.random(outputs)).astype(np.float32)
        scales = scales if per_channel else scales[:1]
        weights = constant(rng.integers(-127, 128, form).astype(np.int8), scales)
        bias = constant(rng.integers(-3000, 3000, outputs).astype(np.int32), scales * 0.043)
        x = q8((1, height, width, depth), 0.043, -9)
        y = q8(shape, 0.043 * 0.02 * 60 * float(np.sqrt(4 * depth)), 11)
        values = random_values(rng, x)
    return one_op("TRANSPOSE_CONV", made, [sizes_input, weights, x, bias], y), [values]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("activation", [0, 1, 3])
def test_int8(case: tuple, activation: int, tmp_path: Path) -> None:
    result = check(tmp_path, *build(case, activation))
    assert len(np.unique(result)) > 1


def test_one_scale_for_all_channels(tmp_path: Path) -> None:
    check(tmp_path, *build(CASES[1], 0, per_channel=False))


def test_16_bit_activations(tmp_path: Path) -> None:
    """Without a 32-bit bias the sums have 64 bits and round by another rule."""
    rng = np.random.default_rng(9)
    made = options("TransposeConvOptions", padding=SAME, strideH=2, strideW=2)
    scales = np.array([0.01, 0.02], np.float32)
    weights = constant(rng.integers(-127, 128, (2, 3, 3, 5)).astype(np.int8), scales)
    bias = constant(rng.integers(-900, 900, 2).astype(np.int64), scales * 0.001)
    x, y = q8((1, 4, 5, 5), 0.001, 0, "int16"), q8((1, 8, 10, 2), 0.01, 0, "int16")
    sizes = constant(np.array(y.shape, np.int32))
    model = one_op("TRANSPOSE_CONV", made, [sizes, weights, x, bias], y)
    check(tmp_path, model, [random_values(rng, x)])


@pytest.mark.parametrize("case", CASES)
def test_float(case: tuple, tmp_path: Path) -> None:
    check_near(tmp_path, *build(case, 0, "float32"), 1e-4)
