"""Resize against LiteRT's reference kernels: both modes, all flags, odd ratios."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ops.litert_ops import Value, check, check_near, constant, one_op, options, q8, random_values

TABLES = {
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
}
FLAGS = [(False, False), (True, False), (False, True)]
SIZES = [
    ((5, 7), (10, 14)),
    ((5, 7), (13, 11)),
    ((11, 13), (5, 6)),
    ((1, 1), (4, 3)),
    ((7, 3), (1, 1)),
]


def build(operator: str, flags: tuple[bool, bool], sizes: tuple, dtype: str) -> tuple:
    (height, width), target = sizes
    corners, centres = flags
    made = options(TABLES[operator], alignCorners=corners, halfPixelCenters=centres)
    shapes = (1, height, width, 3), (1, *target, 3)
    rng = np.random.default_rng(height)
    if dtype == "float32":
        x, y = (Value(shape, dtype) for shape in shapes)
        values = rng.normal(size=x.shape).astype(np.float32)
    else:
        x, y = (q8(shape, 0.1, 3, dtype) for shape in shapes)
        values = random_values(rng, x)
    return one_op(operator, made, [x, constant(np.array(target, np.int32))], y), [values]


@pytest.mark.parametrize("operator", TABLES)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", SIZES)
def test_int8(operator: str, flags: tuple, sizes: tuple, tmp_path: Path) -> None:
    check(tmp_path, *build(operator, flags, sizes, "int8"))


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", SIZES)
def test_nearest_on_floats(flags: tuple, sizes: tuple, tmp_path: Path) -> None:
    check(tmp_path, *build("RESIZE_NEAREST_NEIGHBOR", flags, sizes, "float32"))


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", SIZES)
def test_linear_on_floats(flags: tuple, sizes: tuple, tmp_path: Path) -> None:
    check_near(tmp_path, *build("RESIZE_BILINEAR", flags, sizes, "float32"), 1e-5)


@pytest.mark.parametrize("operator", TABLES)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", SIZES)
def test_uint8(operator: str, flags: tuple, sizes: tuple, tmp_path: Path) -> None:
    check(tmp_path, *build(operator, flags, sizes, "uint8"))


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_results_in_the_middle_of_two_steps(flags: tuple, dtype: str, tmp_path: Path) -> None:
    """The order of LiteRT's float operations decides them; few shapes have any."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        sizes = tuple(rng.integers(1, 14, 2)), tuple(rng.integers(1, 18, 2))
        check(tmp_path, *build("RESIZE_BILINEAR", flags, sizes, dtype))
