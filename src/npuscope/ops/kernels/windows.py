"""Exact integer sums by float BLAS; a convolution is computed some output rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct, structs

from npuscope.graph.model import DType
from npuscope.ops.kernels.step import Array
from npuscope.ops.layers import ConvAttrs

# --- Exact integer sums by float BLAS ---
#
# A float32 holds all integers up to 2**24. As long as the sum of |weight| * |input| stays below,
# every partial sum is an integer below it too, so no order of summation rounds. Above, the sum is
# cut into panels that are each exact and added in float64.

FLOAT32_EXACT = 2**24
_SHORT_PANEL = 64  # shorter panels cost more than one float64 product


def peak(dtype: DType) -> int:
    """Largest magnitude of a raw value."""
    low, high = dtype.limits
    return max(-low, high)


def reach(weights: Array, dtype: DType) -> Array:
    """Largest |sum| of each output: `weights` are (outputs, ...), inputs any raw values."""
    magnitudes = np.abs(weights.astype(np.int64)).reshape(len(weights), -1)
    largest: Array = magnitudes.sum(axis=1).astype(np.float64) * peak(dtype)
    return largest


def sum_type(weights: Array, dtype: DType) -> type[np.float32] | type[np.float64]:
    """The float that holds all sums exactly when they are not cut."""
    return np.float32 if reach(weights, dtype).max() <= FLOAT32_EXACT else np.float64


class Panels(Struct, frozen=True):
    """Weights as (inputs, outputs) floats, cut along the inputs."""

    parts: tuple[tuple[slice, Array], ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that inputs must be given in."""
        return self.parts[0][1].dtype

    def __call__(self, rows: Array) -> Array:
        if len(self.parts) == 1:
            product: Array = rows @ self.parts[0][1]
            return product
        sums = np.zeros((len(rows), self.parts[0][1].shape[1]))
        for span, part in self.parts:
            sums += rows[:, span] @ part
        return sums


def exact_panels(weights: Array, dtype: DType) -> Panels:
    """Panels for integer weights (outputs, inputs) and raw inputs of a type."""
    count = weights.shape[1]
    float_type = sum_type(weights, dtype)
    longest = FLOAT32_EXACT // (peak(dtype) * max(1, int(np.abs(weights).max())))
    if float_type is np.float32 or longest < _SHORT_PANEL:
        return Panels(((slice(0, count), _columns(weights, float_type)),))
    spans = [slice(start, start + longest) for start in range(0, count, longest)]
    return Panels(tuple((span, _columns(weights[:, span], np.float32)) for span in spans))


def _columns(weights: Array, float_type: type[np.floating]) -> Array:
    return np.ascontiguousarray(weights.T, float_type)


# --- Sums of a convolution, some output rows at a time, so that the floats stay in cache ---
#
# Each class maps (image, first, last) to the sums of output rows first..last as (pixels, outputs).
# Images are raw integers (H, W, C); padding is the input's zero point, which the bias takes out.

RowSums = Callable[[Array, int, int], Array]


class Geometry(Struct, frozen=True):
    """A conv's windows over an image; all pairs are (vertical, horizontal)."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]
    output: tuple[int, int]
    fill: float

    @property
    def plain(self) -> bool:
        """Every window is one pixel of the image."""
        return self.kernel == (1, 1) and not any(self.pads)

    def input_rows(self, first: int, last: int) -> tuple[int, int]:
        """First padded input row and their number for some output rows."""
        count = (last - first - 1) * self.strides[0] + (self.kernel[0] - 1) * self.dilations[0] + 1
        return first * self.strides[0], count


def geometry_of(
    attrs: ConvAttrs, kernel: tuple[int, int], output: tuple[int, int], fill: float
) -> Geometry:
    return Geometry(kernel, attrs.strides, attrs.dilations, attrs.pads, output, fill)


def padded_rows(
    image: Array, where: Geometry, first: int, last: int, dtype: np.dtype[Any]
) -> Array:
    """The padded input rows under the output rows first..last, as floats."""
    start, count = where.input_rows(first, last)
    top, left, _, right = where.pads
    height, width, channels = image.shape
    block = np.empty((count, left + width + right, channels), dtype)
    low = min(max(top - start, 0), count)
    high = max(min(top + height - start, count), low)
    block[:low] = where.fill
    block[high:] = where.fill
    block[low:high, :left] = where.fill
    block[low:high, left + width :] = where.fill
    block[low:high, left : left + width] = image[start + low - top : start + high - top]
    return block


def _strided(block: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """A view with overlaps; as_strided does the same at ten times the call cost."""
    return np.ndarray(shape, block.dtype, block, strides=strides)


class Pointwise(Struct, frozen=True):
    """1x1 windows: the pixels themselves are the rows of the product."""

    where: Geometry
    panels: Panels

    def __call__(self, image: Array, first: int, last: int) -> Array:
        down, right = self.where.strides
        pixels = image[first * down : (last - 1) * down + 1 : down, ::right]
        return self.panels(pixels.astype(self.panels.dtype).reshape(-1, image.shape[2]))


class Windowed(Struct, frozen=True):
    """Any windows, copied out to rows of kernel height x width x channels (im2col)."""

    where: Geometry
    panels: Panels

    def __call__(self, image: Array, first: int, last: int) -> Array:
        block = padded_rows(image, self.where, first, last, self.panels.dtype)
        row, pixel, item = block.strides
        down, right = self.where.strides
        far_down, far_right = self.where.dilations
        shape = (last - first, self.where.output[1], *self.where.kernel, image.shape[2])
        strides = (down * row, right * pixel, far_down * row, far_right * pixel, item)
        windows = np.ascontiguousarray(_strided(block, shape, strides))
        return self.panels(windows.reshape(shape[0] * shape[1], -1))


class Grouped(Struct, frozen=True):
    """Groups side by side, each over its own channels."""

    groups: tuple[RowSums, ...]

    def __call__(self, image: Array, first: int, last: int) -> Array:
        images = np.split(image, len(self.groups), axis=2)
        parts = [group(part, first, last) for group, part in zip(self.groups, images, strict=True)]
        return np.concatenate(parts, axis=1)


class Depthwise(Struct, frozen=True):
    """One channel, one filter: whole image rows times rows of repeated weights.

    With a horizontal stride s the columns are first split by their remainder mod s, so that every
    tap reads consecutive columns again; einsum then adds all taps in one pass. `taps` holds, for
    each remainder, weights (kernel rows, taps, output width * channels).
    """

    where: Geometry
    taps: tuple[Array, ...]
    multiplier: int  # outputs per input channel

    def __call__(self, image: Array, first: int, last: int) -> Array:
        if self.multiplier > 1:
            image = np.repeat(image, self.multiplier, axis=2)
        block = padded_rows(image, self.where, first, last, self.taps[0].dtype)
        stride = self.where.strides[1]
        sums = self._taps(block if stride == 1 else _every(block, 0, stride), 0, last - first)
        for remainder in range(1, len(self.taps)):
            sums += self._taps(_every(block, remainder, stride), remainder, last - first)
        return sums.reshape(-1, block.shape[2])

    def _taps(self, columns: Array, remainder: int, count: int) -> Array:
        weights = self.taps[remainder]
        row, pixel, item = columns.strides
        far_down = self.where.dilations[0] * row
        strides = (far_down, self.where.dilations[1] * pixel, self.where.strides[0] * row, item)
        shape = (*weights.shape[:2], count, weights.shape[2])
        sums: Array = np.einsum("ijrc,ijc->rc", _strided(columns, shape, strides), weights)
        return sums


def _every(block: Array, start: int, stride: int) -> Array:
    return np.ascontiguousarray(block[:, start::stride])


def depthwise(where: Geometry, weights: Array, multiplier: int) -> Depthwise:
    """From weights (kernel height, kernel width, outputs), in the float type of the sums.

    Columns with a stride and dilation have zeros between their taps: the split goes by the stride.
    """
    stride, dilation = where.strides[1], where.dilations[1]
    if stride > 1 and dilation > 1:
        rows, columns, outputs = weights.shape
        spread = np.zeros((rows, (columns - 1) * dilation + 1, outputs), weights.dtype)
        spread[:, ::dilation] = weights
        weights = spread
        where = structs.replace(where, kernel=spread.shape[:2], dilations=(where.dilations[0], 1))
    split = [weights[:, start::stride] for start in range(min(stride, weights.shape[1]))]
    taps = tuple(np.tile(part, where.output[1]) for part in split)
    return Depthwise(where, taps, multiplier)
