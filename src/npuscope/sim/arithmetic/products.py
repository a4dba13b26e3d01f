"""Sums of products of a convolution, in floating point: integers of their size are exact there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from npuscope.ops.kernels.windows import Geometry, depthwise
from npuscope.program.units import Convacc

Float = np.dtype[np.floating[Any]]
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

# Sums below this are exact in float32, which multiplies twice as fast as float64.
_EXACT_FLOAT32 = 1 << 24
# Sums below this stay exact with those of several other units.
_SURELY_EXACT = 1 << 20
_MARGIN = 1.001
# Floats of windows that are copied out at a time.
_MOST_WINDOWS = 1 << 20
# Sums of a depthwise convolution at a time: with their inputs they stay in cache.
_BLOCK = 1 << 15


class Products(Struct, frozen=True):
    """Sums of products (frames, rows, columns, kernels) before a unit adds anything."""

    totals: np.ndarray
    peak: int  # no magnitude is larger
    # Frames that lie together in memory, where `totals` is not in the order of a map.
    slabs: tuple[tuple[range, np.ndarray], ...] = ()

    def at(self, frames: range) -> Products:
        for own, slab in self.slabs:
            if own == frames:
                return Products(slab, self.peak)
        if frames == range(len(self.totals)):
            return self
        return Products(self.totals[frames.start : frames.stop : frames.step], self.peak)


class Operands(Struct, frozen=True):
    """Images (frames, rows, columns, channels) as they came, kernels (frames, kernels, window)."""

    unit: Convacc
    images: np.ndarray
    weights: np.ndarray
    low: int  # no value of an image is lower
    high: int
    reach: int  # no sum of magnitudes of a kernel is larger

    @property
    def peak(self) -> int:
        """No sum of products is larger."""
        return _largest(self.unit, self.low, self.high) * self.reach

    @property
    def raw_peak(self) -> int:
        """Nor are those of the values as they came, with what the zero point takes off."""
        fill = self.unit.zfbias + self.unit.fsub
        return (max(-self.low, self.high, abs(fill)) + abs(self.unit.fsub)) * self.reach

    def padded(self, kind: Float) -> np.ndarray:
        """Zero point subtracted; padding comes after it: zero, or zfbias where it is set."""
        unit = self.unit
        image = self.images.astype(kind)
        if unit.fsub:
            image -= kind.type(unit.fsub)
        top, left, bottom, right = _pads(unit)
        if not (top or left or bottom or right):
            return image
        frames, rows, columns, depth = image.shape
        shape = rows + top + bottom, columns + left + right, frames, depth
        # In memory the frames lie beside each other, as in the map that they are cut from.
        whole = np.full(shape, unit.zfbias, kind).transpose(2, 0, 1, 3)
        whole[:, top : top + rows, left : left + columns] = image
        return whole


def _pads(unit: Convacc) -> tuple[int, int, int, int]:
    return unit.top_padding, unit.left_padding, unit.bot_padding, unit.right_padding


def _largest(unit: Convacc, low: int, high: int) -> int:
    """The largest magnitude of a padded image."""
    fill = abs(unit.zfbias) if any(_pads(unit)) else 0
    return max(abs(low - unit.fsub), abs(high - unit.fsub), fill)


def operands(unit: Convacc, images: np.ndarray, weights: np.ndarray) -> Operands:
    """With bounds: of a kernel's sum by its largest weight, or else by all of them."""
    low, high = int(images.min(initial=0)), int(images.max(initial=0))
    largest = max(int(weights.max(initial=0)), -int(weights.min(initial=0)))
    reach = largest * weights.shape[2]
    if reach * _largest(unit, low, high) >= _SURELY_EXACT:
        magnitudes = weights.astype(np.float32)
        np.abs(magnitudes, out=magnitudes)
        # Sums of bytes are exact here; the margin is for those of wider kernels.
        reach = min(reach, int(magnitudes.sum(axis=2).max(initial=0) * _MARGIN))
    return Operands(unit, images, weights, low, high, reach)


Index = NDArray[np.intp]


def products(parts: Sequence[Operands], which: Index | None) -> Products:
    """Sums over all parts. `which`: the image that each frame of kernels is for; None if images
    and kernels come in pairs."""
    bound = sum(part.peak for part in parts)
    kind: Float = _FLOAT32 if bound < _EXACT_FLOAT32 else _FLOAT64
    if which is not None:
        # All kernels that meet an image are multiplied at once, all parts in one product.
        count = len(parts[0].images)
        images = [part.padded(kind) for part in parts]
        slabs = [(np.flatnonzero(which == n), n) for n in range(count)]
        pairs = [(own, _slab(parts, [i[n : n + 1] for i in images], own)) for own, n in slabs]
        if count == 1:
            return Products(pairs[0][1], bound)
        totals = np.empty((len(which), *pairs[0][1].shape[1:]), kind)
        for own, slab in pairs:
            totals[own] = slab
        spans = [(as_range(own), slab) for own, slab in pairs]
        return Products(totals, bound, tuple((r, slab) for r, slab in spans if r is not None))
    total = _of_own_images(parts[0], kind)
    for part in parts[1:]:
        total += _of_own_images(part, kind)
    return Products(total, bound)


def _of_own_images(part: Operands, kind: Float) -> np.ndarray:
    taps = _depthwise_taps(part.unit, part.weights)
    if taps is not None:
        return _of_channels(part, taps)
    # Frame by frame, as many at a time as fit into cache.
    unit = part.unit
    images = part.padded(kind)
    weights = part.weights.astype(kind)
    rows, columns = unit.out_size
    step = max(1, _MOST_WINDOWS // (rows * columns * weights.shape[2]))
    parts = [
        _windows(unit, images[start : start + step])
        @ weights[start : start + step].transpose(0, 2, 1)
        for start in range(0, len(images), step)
    ]
    joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return joined.reshape(len(images), rows, columns, unit.nKernels)


def as_range(numbers: Index) -> range | None:
    """Numbers at equal distances as a range."""
    if len(numbers) < 2:
        return range(int(numbers[0]), int(numbers[0]) + 1) if len(numbers) else None
    step = int(numbers[1] - numbers[0])
    span = range(int(numbers[0]), int(numbers[-1]) + 1, step)
    return span if np.array_equal(numbers, span) else None


def _slab(parts: Sequence[Operands], images: list[np.ndarray], own: Index) -> np.ndarray:
    """(frames, rows, columns, kernels) of the kernels for one image, in the order of a map."""
    unit = parts[0].unit
    rows, columns = unit.out_size
    windows = [_windows(part.unit, i)[0] for part, i in zip(parts, images, strict=True)]
    whole = len(own) == len(parts[0].weights)
    weights = [part.weights if whole else part.weights[own] for part in parts]
    stacked = windows[0] if len(parts) == 1 else np.concatenate(windows, axis=1)
    right = weights[0] if len(parts) == 1 else np.concatenate(weights, axis=2)
    right = np.ascontiguousarray(right).reshape(-1, right.shape[2]).astype(stacked.dtype)
    product = stacked @ right.T
    shaped: np.ndarray = product.reshape(rows, columns, len(own), unit.nKernels)
    return shaped.transpose(2, 0, 1, 3)


def _windows(unit: Convacc, images: np.ndarray) -> np.ndarray:
    """(frames, output pixels, inputs under the kernel), channel fastest."""
    rows, columns = unit.out_size
    if (unit.kernelHeight, unit.kernelWidth, unit.vstride, unit.hstride) == (1, 1, 1, 1):
        return images.reshape(len(images), rows * columns, -1)
    images = np.ascontiguousarray(images)
    frame, line, pixel, channel = images.strides
    # One kernel row lies in one piece: kernelWidth pixels of all channels.
    shape = len(images), rows, columns, unit.kernelHeight, unit.kernelWidth * unit.batchDepth
    steps = frame, unit.vstride * line, unit.hstride * pixel, line, channel
    windows = np.ndarray(shape, images.dtype, images, 0, steps)
    return windows.reshape(len(images), rows * columns, -1)


def _depthwise_taps(unit: Convacc, weights: np.ndarray) -> np.ndarray | None:
    """Weights (height, width, frames and channels) if each kernel sees only its own channel."""
    channels = unit.batchDepth
    if unit.nKernels != channels:
        return None
    square = weights.reshape(len(weights), channels, -1, channels)
    diagonal = np.diagonal(square, axis1=1, axis2=3)
    if np.count_nonzero(diagonal) != np.count_nonzero(square):
        return None
    return diagonal.transpose(1, 0, 2).reshape(unit.kernelHeight, unit.kernelWidth, -1)


def _of_channels(part: Operands, taps: np.ndarray) -> np.ndarray:
    """All frames and channels beside each other, as in the map that they come from."""
    unit, (frames, height, width, depth) = part.unit, part.images.shape
    image = part.images.transpose(1, 2, 0, 3).reshape(height, width, frames * depth)
    kind: Float = _FLOAT32 if part.raw_peak < _EXACT_FLOAT32 else _FLOAT64
    taps = taps.astype(kind)
    rows, columns = unit.out_size
    fill, strides = unit.zfbias + unit.fsub, (unit.vstride, unit.hstride)
    where = Geometry(taps.shape[:2], strides, (1, 1), _pads(unit), (rows, columns), float(fill))
    sums = depthwise(where, taps, 1)
    step = max(1, _BLOCK // (columns * frames * depth))
    parts = [sums(image, row, min(rows, row + step)) for row in range(0, rows, step)]
    total = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if unit.fsub:
        total -= kind.type(unit.fsub) * taps.sum(axis=(0, 1))
    return total.reshape(rows, columns, frames, depth).transpose(2, 0, 1, 3)
