"""The resize kernel of U85. A pixel's place in the input is (x * d + offset) / n: its whole part
chooses pixels, its rest weighs them."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.errors import FileError
from npuscope.families.ethos_u.arithmetic.scaling import scaled
from npuscope.families.ethos_u.jobs import NpuKernel

Array = np.ndarray[Any, np.dtype[Any]]
_FRACTION_BITS = 16  # of the accumulator, which the output's shift takes out


def resized(kernel: NpuKernel, image: Array) -> Array:
    rows, down = _places(kernel, 0, image.shape[0])
    columns, right = _places(kernel, 1, image.shape[1])
    n_down, n_right = kernel.resize.numerator
    if kernel.mode == "BILINEAR":
        low, high = image[rows[0]], image[rows[1]]
        line = low * (n_down - down)[:, None, None] + high * down[:, None, None]
        left, other = line[:, columns[0]], line[:, columns[1]]
        sums = left * (n_right - right)[:, None] + other * right[:, None]
    elif kernel.mode == "NEAREST":
        near_down = np.where(2 * down >= n_down, rows[1], rows[0])
        near_right = np.where(2 * right >= n_right, columns[1], columns[0])
        sums = image[near_down][:, near_right]
    else:
        sums = image[rows[0]][:, columns[0]]
    return scaled(sums << _FRACTION_BITS, kernel.ofm_scale)


def _places(kernel: NpuKernel, axis: int, size: int) -> tuple[tuple[Array, Array], Array]:
    """The pixel at or before each place, the one behind it, and how far it is between them."""
    steps, n = kernel.resize, kernel.resize.numerator[axis]
    if n < 1:
        raise FileError("a resize has no scale")
    step = steps.whole[axis] * n + steps.rest[axis]
    places = np.arange(kernel.shape[axis]) * step + steps.offset[axis]
    first = places // n
    clipped = np.clip(first, 0, size - 1), np.clip(first + 1, 0, size - 1)
    return clipped, places - first * n
