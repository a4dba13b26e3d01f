"""Convolution and depthwise convolution: sums, bias, scale per channel."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.families.ethos_u.arithmetic.scaling import rescaled
from npuscope.families.ethos_u.jobs import NpuKernel
from npuscope.graph.model import DType
from npuscope.ops.kernels.windows import (
    Geometry,
    Pointwise,
    RowSums,
    Windowed,
    depthwise,
    exact_panels,
    sum_type,
)

Array = np.ndarray[Any, np.dtype[Any]]
_BLOCK = 1 << 17  # numbers in one block of rows, which stay in a usual L2
_TYPES = {"i1": DType.INT8, "u1": DType.UINT8, "i2": DType.INT16}


class Layer(Struct, frozen=True):
    """Decoded constants of a kernel: weights (outputs, rows, columns, inputs)."""

    weights: Array
    bias: Array
    factors: Array
    shifts: Array


def convolved(kernel: NpuKernel, layer: Layer, image: Array) -> Array:
    """Scaled sums. Padding is the input's zero point; the bias takes it out."""
    where = Geometry(
        kernel.window.size,
        kernel.window.stride,
        kernel.window.dilation,
        kernel.window.pads,
        kernel.shape[:2],
        kernel.ifm.zero_point,
    )
    weights = layer.weights.astype(np.int32)
    fold = weights.reshape(len(weights), -1).sum(axis=1, dtype=np.int64) * kernel.ifm.zero_point
    bias = layer.bias - fold
    sums = _row_sums(kernel, where, weights)
    height, width, channels = kernel.shape
    rows = max(1, _BLOCK // (width * max(weights[0].size, channels)))
    result = np.empty((height * width, channels), np.int64)
    for first in range(0, height, rows):
        last = min(first + rows, height)
        total = sums(image, first, last).astype(np.int64)
        total += bias
        result[first * width : last * width] = rescaled(
            total, layer.factors, layer.shifts, kernel.ofm_scale.rounding
        )
    return result.reshape(kernel.shape)


def _row_sums(kernel: NpuKernel, where: Geometry, weights: Array) -> RowSums:
    if kernel.ifm.dtype not in _TYPES:
        raise FileError(f"a convolution has no inputs of {8 * kernel.ifm.item_bytes} bits")
    dtype = _TYPES[kernel.ifm.dtype]
    if kernel.kind == "DEPTHWISE":
        taps = weights[..., 0].transpose(1, 2, 0).astype(sum_type(weights, dtype))
        return depthwise(where, taps, 1)
    panels = exact_panels(weights.reshape(len(weights), -1), dtype)
    return Pointwise(where, panels) if where.plain else Windowed(where, panels)
