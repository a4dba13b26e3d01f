"""Pooling, mean, softmax and data movement against LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ops.litert_ops import check, constant, one_op, q8, random_values, schema

SAME, VALID = 0, 1


@pytest.mark.parametrize("operator", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(
    ("window", "strides"),
    [((2, 2), (2, 2)), ((3, 5), (2, 3)), ((13, 11), (1, 1)), ((1, 4), (3, 1))],
)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("activation", [0, 3])
def test_pool(
    operator: str,
    padding: int,
    window: tuple[int, int],
    strides: tuple[int, int],
    dtype: str,
    activation: int,
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(1)
    options = schema.Pool2DOptionsT()
    options.filterHeight, options.filterWidth = window
    options.strideH, options.strideW = strides
    options.padding, options.fusedActivationFunction = padding, activation
    room = [s if padding == SAME else s - w + 1 for s, w in zip((13, 11), window, strict=True)]
    size = [-(-r // s) for r, s in zip(room, strides, strict=True)]
    zero = 9 if dtype == "int8" else 0
    x, y = (q8(shape, 0.06, zero, dtype) for shape in ((2, 13, 11, 3), (2, *size, 3)))
    check(tmp_path, one_op(operator, options, [x], y), [random_values(rng, x)])


@pytest.mark.parametrize("axes", [(1, 2), (3,), (0, 1, 2), (2,)])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("scales", [(0.1, 0.1), (0.07, 0.013), (0.5, 0.25)])
def test_mean(
    axes: tuple[int, ...], keep: bool, scales: tuple[float, float], tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    shape = (2, 7, 6, 37)
    options = schema.ReducerOptionsT()
    options.keepDims = keep
    kept = [1 if axis in axes else dim for axis, dim in enumerate(shape)]
    left = kept if keep else [dim for axis, dim in enumerate(shape) if axis not in axes]
    x, y = q8(shape, scales[0], -11), q8(tuple(left), scales[1], 6)
    model = one_op("MEAN", options, [x, constant(np.array(axes, np.int32))], y)
    check(tmp_path, model, [random_values(rng, x)])


@pytest.mark.parametrize("scale", [0.00007, 0.0041, 0.05, 0.11, 0.9, 7.3])
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("classes", [2, 101, 511])
def test_softmax(scale: float, beta: float, classes: int, tmp_path: Path) -> None:
    """LiteRT itself aborts when the exponentials add up to 512 or more."""
    rng = np.random.default_rng(3)
    options = schema.SoftmaxOptionsT()
    options.beta = beta
    x, y = q8((40, classes), scale, 12), q8((40, classes), 1 / 256, -128)
    values = random_values(rng, x)
    values[0], values[1] = 127, -128
    values[2:20] = np.clip(rng.normal(0, 20, (18, classes)), -128, 127)
    check(tmp_path, one_op("SOFTMAX", options, [x], y), [values])


def test_softmax_of_every_difference(tmp_path: Path) -> None:
    """Two classes, all 256 distances: both the exponential and the reciprocal are swept."""
    options = schema.SoftmaxOptionsT()
    options.beta = 1.0
    values = np.stack((np.full(256, 127), np.arange(-128, 128)), axis=1).astype(np.int8)
    for scale in (0.013, 0.0471, 0.2):
        x, y = q8((256, 2), scale, 0), q8((256, 2), 1 / 256, -128)
        check(tmp_path, one_op("SOFTMAX", options, [x], y), [values])


def test_pad_uses_the_zero_point(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    pads = constant(np.array([[0, 0], [0, 1], [2, 3], [0, 0]], np.int32))
    x, y = q8((1, 5, 6, 3), 0.1, -128), q8((1, 6, 11, 3), 0.1, -128)
    found = check(tmp_path, one_op("PAD", None, [x, pads], y), [random_values(rng, x)])
    assert (found[:, -1] == -128).all()


def test_concat_and_transpose(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    options = schema.ConcatenationOptionsT()
    options.axis = 3
    a, b, y = (q8((1, 4, 5, depth), 0.1, 3) for depth in (2, 7, 9))
    model = one_op("CONCATENATION", options, [a, b], y)
    check(tmp_path, model, [random_values(rng, a), random_values(rng, b)])
    order = constant(np.array([0, 3, 1, 2], np.int32))
    model = one_op("TRANSPOSE", None, [y, order], q8((1, 9, 4, 5), 0.1, 3))
    check(tmp_path, model, [random_values(rng, y)])
