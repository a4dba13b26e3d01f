"""Pooling and mean: windows are reduced axis by axis, by shifted slices of the whole image."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.attrs import PoolAttrs, ReduceAttrs
from npuscope.graph.kernels.requantize import (
    Multipliers,
    clamp_limits,
    clamped,
    quantized_multipliers,
    real_limits,
    saturate,
    scale_twice,
)
from npuscope.graph.kernels.step import Array, Step, quant_of
from npuscope.graph.model import Graph, Op

Combine = Callable[..., Array]


def pool_windows(images: Array, attrs: PoolAttrs, combine: Combine, fill: float) -> Array:
    """All windows of (N, H, W, C) images reduced by an associative function."""
    top, left, bottom, right = attrs.pads
    if any(attrs.pads):
        pads = ((0, 0), (top, bottom), (left, right), (0, 0))
        images = np.pad(images, pads, constant_values=fill)
    for axis in (1, 2):
        images = _pool_axis(images, axis, attrs.window[axis - 1], attrs.strides[axis - 1], combine)
    return images


def _pool_axis(images: Array, axis: int, window: int, stride: int, combine: Combine) -> Array:
    last = (images.shape[axis] - window) // stride * stride + 1
    before = (slice(None),) * axis
    result = images[(*before, slice(0, last, stride))]
    if window > 1:
        result = combine(result, images[(*before, slice(1, last + 1, stride))])
    for start in range(2, window):
        combine(result, images[(*before, slice(start, start + last, stride))], out=result)
    return result


def window_counts(attrs: PoolAttrs, shape: Sequence[int], counted: bool) -> Array:
    """Elements that each window's average divides by, shaped (rows, columns, 1)."""
    ones = np.ones((1, shape[1], shape[2], 1), np.int64)
    counts: Array = pool_windows(ones, attrs, np.add, int(counted))[0]
    return counts


def max_pool(graph: Graph, op: Op) -> Step:
    """The largest raw value: quantization does not enter, only the activation's clamp does."""
    attrs, output = op.attrs_as(PoolAttrs), graph.output_tensor(op)
    lowest = -np.inf if output.dtype.is_float else output.dtype.limits[0]
    clamp = _integer_clamp(graph, op)

    def step(inputs: Sequence[Array]) -> Array:
        result = pool_windows(inputs[0], attrs, np.maximum, lowest)
        return result if clamp is None else result.clip(*clamp)

    return step


def _integer_clamp(graph: Graph, op: Op) -> tuple[int, int] | None:
    output = graph.output_tensor(op)
    if output.quant is None:
        return None
    limits = clamp_limits(output, *real_limits(op.attrs_as(PoolAttrs).activation))
    return None if limits == output.dtype.limits else limits


def litert_average_pool(graph: Graph, op: Op) -> Step:
    """Sum over count, ties away from zero; LiteRT demands equal scales on both sides."""
    attrs, output = op.attrs_as(PoolAttrs), graph.output_tensor(op)
    counts = window_counts(attrs, graph.first_input(op).shape, attrs.count_pads)
    limits = clamp_limits(output, *real_limits(attrs.activation))

    def step(inputs: Sequence[Array]) -> Array:
        sums = pool_windows(inputs[0].astype(np.int64), attrs, np.add, 0)
        value = (np.abs(sums) + counts // 2) // counts * np.sign(sums)
        return clamped(value, limits, output.dtype)

    return step


def litert_mean(graph: Graph, op: Op) -> Step:
    """The division by the count is part of the multiplier, cut off at 31 bits."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    axes = op.attrs_as(ReduceAttrs).axes
    count = int(np.prod([source.shape[axis] for axis in axes], dtype=np.int64))
    ratio = quantized_multipliers(quant_of(source).scale / quant_of(output).scale)
    factor = _divided(ratio, count)

    def step(inputs: Sequence[Array]) -> Array:
        total = inputs[0].sum(axis=axes, dtype=np.int64) - count * quant_of(source).zero_point
        value = scale_twice(total, factor) + quant_of(output).zero_point
        return saturate(value, output.dtype).reshape(output.shape)

    return step


def _divided(ratio: Multipliers, count: int) -> Multipliers:
    shift = min(count.bit_length() - 1, 32, 31 + int(ratio.shift[0]))
    return Multipliers((ratio.mantissa << shift) // count, ratio.shift - shift)
