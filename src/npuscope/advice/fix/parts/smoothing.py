"""Linear interpolation by a whole factor: repeated pixels, then a small kernel over them.

Along one axis a factor r between pixel centres is r copies and the kernel 1 2 .. 2 1 (r even) or
1 1 .. 1 (r odd); from corner to corner it is r copies and r ones. Edge pixels count on outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.graph.edit import NotFitting
from npuscope.ops.images import Coordinates, ResizeAttrs, ResizeMode

LONGEST_AXIS = 65535  # what the NPU's size registers hold
_LARGEST_FACTOR = 4  # kernels grow with it
_CENTRED = (Coordinates.HALF_PIXEL, Coordinates.PYTORCH_HALF_PIXEL)


@dataclass(frozen=True, slots=True)
class Smoothing:
    """`before` and `after` are the edge pixels that are repeated once before the resize.

    `steps` is the kernel in units of `scale`; it needs no padding.
    """

    factor: int
    before: int
    after: int
    steps: np.ndarray
    scale: float


def smoothing(attrs: ResizeAttrs, height: int, width: int) -> Smoothing | None:
    """None where one pixel is only repeated; NotFitting for what is no whole factor."""
    if attrs.mode is not ResizeMode.LINEAR:
        raise NotFitting("the Resize does not interpolate")
    if (height, width) == (1, 1):
        return None
    factor = attrs.sizes[0] // height
    if attrs.sizes != (factor * height, factor * width) or not 1 < factor <= _LARGEST_FACTOR:
        rows, columns = attrs.sizes
        raise NotFitting(f"{height}x{width} to {rows}x{columns} is no factor of 2, 3 or 4")
    if attrs.coordinates in _CENTRED:
        return _centred(factor)
    if attrs.coordinates is Coordinates.ASYMMETRIC:
        return _from_corners(factor)
    raise NotFitting(f"coordinates '{attrs.coordinates.value}' have no kernel")


def _centred(factor: int) -> Smoothing:
    ends = 1 if factor % 2 == 0 else 0
    line = np.ones(factor + ends, np.int8)
    line[ends : len(line) - ends] += ends
    unused = (2 * factor + 1 - len(line)) // 2  # copies of edge pixels that nobody needs
    line = np.pad(line, unused)
    return Smoothing(factor, 1, 1, np.outer(line, line), 1 / float(line.sum()) ** 2)


def _from_corners(factor: int) -> Smoothing:
    line = np.append(np.ones(factor, np.int8), np.int8(0))
    return Smoothing(factor, 0, 1, np.outer(line, line), 1 / factor**2)
