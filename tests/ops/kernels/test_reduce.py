"""Reductions, places of extremes and normalizations against LiteRT's kernels."""

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
    references,
)

SHAPE = (2, 7, 5, 3)
AXES = [(1, 2), (3,), (1,), (0, 1, 2, 3)]


def reduced(axes: tuple[int, ...], keep: bool) -> tuple[int, ...]:
    sizes = [1 if axis in axes else size for axis, size in enumerate(SHAPE)]
    return tuple(s for axis, s in enumerate(sizes) if keep or axis not in axes)


def build(
    operator: str, axes: tuple[int, ...], keep: bool, x: Value, target: tuple | None
) -> bytes:
    places = constant(np.array(axes, np.int32))
    shape = reduced(axes, keep)
    y = Value(shape, x.dtype) if target is None else q8(shape, *target)
    return one_op(operator, options("ReducerOptions", keepDims=keep), [x, places], y)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("operator", ["REDUCE_MAX", "REDUCE_MIN"])
def test_extremes(operator: str, axes: tuple[int, ...], tmp_path: Path) -> None:
    x = q8(SHAPE, 0.1, 3)
    model = build(operator, axes, False, x, (0.1, 3))
    check(tmp_path, model, [random_values(np.random.default_rng(1), x)])


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("target", [(0.1, 3), (0.37, -12)])
@pytest.mark.parametrize("operator", ["MEAN", "SUM"])
def test_sums(operator: str, target: tuple, axes: tuple[int, ...], tmp_path: Path) -> None:
    x = q8(SHAPE, 0.1, 3)
    model = build(operator, axes, True, x, target)
    values = [random_values(np.random.default_rng(2), x)]
    # the reference kernel of SUM reads memory it never set, the default one does not
    wanted = references(model, values, plain=operator == "SUM")[0]
    np.testing.assert_array_equal(ours(tmp_path, model, values), wanted)


@pytest.mark.parametrize("operator", ["REDUCE_MAX", "REDUCE_MIN", "SUM", "MEAN", "REDUCE_PROD"])
@pytest.mark.parametrize("axes", AXES)
def test_floats(operator: str, axes: tuple[int, ...], tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(size=SHAPE).astype(np.float32)
    model = build(operator, axes, False, Value(SHAPE, "float32"), None)
    check_near(tmp_path, model, [values], 1e-5)


@pytest.mark.parametrize("operator", ["ARG_MAX", "ARG_MIN"])
@pytest.mark.parametrize("axis", [1, 3, -2])
def test_places(operator: str, axis: int, tmp_path: Path) -> None:
    x = q8(SHAPE, 0.1, 3)
    target = tuple(size for place, size in enumerate(SHAPE) if place != axis % 4)
    table = "ArgMaxOptions" if operator == "ARG_MAX" else "ArgMinOptions"
    made = options(table, outputType=2)
    places = constant(np.array(axis, np.int32))
    model = one_op(operator, made, [x, places], Value(target, "int32"))
    values = np.random.default_rng(4).integers(-3, 3, SHAPE, np.int8)  # many ties
    check(tmp_path, model, [values])


@pytest.mark.parametrize("depth", [1, 2, 7, 300])
def test_l2_normalization(depth: int, tmp_path: Path) -> None:
    x, y = q8((1, 40, depth), 0.05, -9), q8((1, 40, depth), 1 / 128, 0)
    values = random_values(np.random.default_rng(5), x)
    values[0, :3] = [[-9], [-8], [-10]]  # a sum of squares of 0 and 1 for depth 1
    check(tmp_path, one_op("L2_NORMALIZATION", options("L2NormOptions"), [x], y), [values])


def test_l2_normalization_of_floats(tmp_path: Path) -> None:
    x = Value((1, 5, 7), "float32")
    values = np.random.default_rng(6).normal(size=x.shape).astype(np.float32)
    values[0, 0] = 0
    model = one_op("L2_NORMALIZATION", options("L2NormOptions"), [x], x)
    check_near(tmp_path, model, [values], 1e-6)


def test_l2_normalization_of_unsigned_bytes(tmp_path: Path) -> None:
    x, y = q8((1, 40, 7), 0.05, 120, "uint8"), q8((1, 40, 7), 1 / 128, 128, "uint8")
    values = random_values(np.random.default_rng(5), x)
    check(tmp_path, one_op("L2_NORMALIZATION", options("L2NormOptions"), [x], y), [values])


@pytest.mark.parametrize("depth", [2, 37, 1000])
@pytest.mark.parametrize("quant", [(0.1, 3), (0.03, -128), (0.4, 20)])
def test_log_softmax(depth: int, quant: tuple, tmp_path: Path) -> None:
    x, y = q8((20, depth), *quant), q8((20, depth), 16 / 256, 127)
    values = random_values(np.random.default_rng(8), x)
    check(tmp_path, one_op("LOG_SOFTMAX", None, [x], y), [values])


def test_log_softmax_of_floats(tmp_path: Path) -> None:
    x = Value((3, 37), "float32")
    values = np.random.default_rng(7).normal(size=x.shape).astype(np.float32)
    check_near(tmp_path, one_op("LOG_SOFTMAX", None, [x], x), [values], 1e-5)
