"""Pooling: largest, smallest, sum and average of a window, and sums over channels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from npuscope.errors import FileError
from npuscope.families.ethos_u.arithmetic.scaling import scaled
from npuscope.families.ethos_u.jobs import NpuKernel

Array = np.ndarray[Any, np.dtype[Any]]
_LOWEST, _HIGHEST = -(1 << 40), 1 << 40  # outside of every value


def pooled(kernel: NpuKernel, image: Array) -> Array:
    """Scaled results, from values without their zero point."""
    if kernel.mode == "REDUCE_SUM":
        return scaled(image.sum(axis=2, keepdims=True), kernel.output_scale)
    if kernel.mode == "MAX":
        return scaled(_windows(kernel, image, _LOWEST).max(axis=(3, 4)), kernel.output_scale)
    if kernel.mode == "MIN":
        return scaled(_windows(kernel, image, _HIGHEST).min(axis=(3, 4)), kernel.output_scale)
    if kernel.mode in ("AVERAGE", "SUM"):
        sums = _window_sums(kernel, image)
        # U55 counts a window's pixels itself only where some are padding.
        if kernel.mode == "AVERAGE" and (kernel.is_u85 or any(kernel.window.pads)):
            counts = _window_sums(kernel, np.ones((*image.shape[:2], 1), np.int64))
            sums = _average(sums, counts)
        return scaled(sums, kernel.output_scale)
    if kernel.mode in ("ARGMAX_X", "ARGMAX_Y"):  # the first, where several are largest
        windows = _windows(kernel, image, _LOWEST)
        best = windows.max(axis=3 if kernel.mode == "ARGMAX_X" else 4)
        places: Array = best.argmax(axis=3)
        return places
    raise FileError(f"pooling mode {kernel.mode} is not supported")


def _average(sums: Array, counts: Array) -> Array:
    """Ties away from zero."""
    size = np.abs(sums) + counts // 2
    average: Array = np.where(sums < 0, -(size // counts), size // counts)
    return average


def _padded(kernel: NpuKernel, image: Array, fill: int) -> Array:
    top, left, bottom, right = kernel.window.pads
    return np.pad(image, ((top, bottom), (left, right), (0, 0)), constant_values=fill)


def _windows(kernel: NpuKernel, image: Array, fill: int) -> Array:
    """Output height x width x channels x window."""
    down, right = kernel.window.stride
    block = _padded(kernel, image, fill)
    views = sliding_window_view(block, kernel.window.size, axis=(0, 1))[::down, ::right]
    height, width, _ = kernel.shape
    return views[:height, :width]


def _window_sums(kernel: NpuKernel, image: Array) -> Array:
    if kernel.window.size == (1, 1) and not any(kernel.window.pads):
        down, right = kernel.window.stride
        height, width, _ = kernel.shape
        return image[::down, ::right][:height, :width]
    block = _padded(kernel, image, 0)
    rows, columns = kernel.window.size
    # Differences of running sums: windows may be large.
    sums = np.zeros((block.shape[0] + 1, block.shape[1] + 1, block.shape[2]), np.int64)
    sums[1:, 1:] = block.cumsum(axis=0).cumsum(axis=1)
    total = sums[rows:, columns:] - sums[:-rows, columns:]
    total += sums[:-rows, :-columns] - sums[rows:, :-columns]
    down, right = kernel.window.stride
    height, width, _ = kernel.shape
    return total[::down, ::right][:height, :width]
