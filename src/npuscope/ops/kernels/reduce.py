"""Ops along axes: pooling, reductions, softmax and normalizations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuscope.graph.model import DType, Graph, Op
from npuscope.ops.kernels import real_math
from npuscope.ops.kernels import step as in_order
from npuscope.ops.kernels.elementwise import centred
from npuscope.ops.kernels.litert_functions import (
    exp_of_negative,
    inverse_square_root,
    reciprocal,
    times,
)
from npuscope.ops.kernels.requantize import (
    Multipliers,
    clamp_limits,
    clamped,
    quantized_multipliers,
    real_limits,
    round_half_away,
    rounding_shift,
    saturate,
    scale_twice,
)
from npuscope.ops.kernels.step import Array, Maker, Step, mean, only_bytes, quant_of, settled, total
from npuscope.ops.norms import (
    GroupNormAttrs,
    InstanceNormAttrs,
    L2NormAttrs,
    LayerNormAttrs,
    SoftmaxAttrs,
)
from npuscope.ops.reduce import ArgAttrs, PoolAttrs, ReduceAttrs

# --- Pooling and mean: windows are reduced axis by axis, by shifted slices of the image ---

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


def window_counts(attrs: PoolAttrs, shape: Sequence[int], whole: bool) -> Array:
    """Elements that each window's average divides by, shaped (rows, columns, 1)."""
    ones = np.ones((1, shape[1], shape[2], 1), np.int64)
    counts: Array = pool_windows(ones, attrs, np.add, int(whole))[0]
    return counts


def max_pool(graph: Graph, op: Op) -> Step:
    """The largest raw value: only the activation's clamp depends on the quantization."""
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
    """Sum over count, ties away from zero; LiteRT requires equal scales on both sides."""
    attrs, output = op.attrs_as(PoolAttrs), graph.output_tensor(op)
    counts = window_counts(attrs, graph.first_input(op).shape, attrs.count_pads)
    limits = clamp_limits(output, *real_limits(attrs.activation))

    def step(inputs: Sequence[Array]) -> Array:
        sums = pool_windows(inputs[0].astype(np.int64), attrs, np.add, 0)
        value = (np.abs(sums) + counts // 2) // counts * np.sign(sums)
        return clamped(value, limits, output.dtype)

    return step


def litert_mean(graph: Graph, op: Op) -> Step:
    """The division by the count is part of the multiplier, truncated to 31 bits."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    axes = op.attrs_as(ReduceAttrs).axes
    count = int(np.prod([source.shape[axis] for axis in axes], dtype=np.int64))
    ratio = quantized_multipliers(quant_of(source).scale / quant_of(output).scale)
    shift = min(count.bit_length() - 1, 32, 31 + int(ratio.shift[0]))
    factor = Multipliers((ratio.mantissa << shift) // count, ratio.shift - shift)

    def step(inputs: Sequence[Array]) -> Array:
        total = inputs[0].sum(axis=axes, dtype=np.int64) - count * quant_of(source).zero_point
        value = scale_twice(total, factor) + quant_of(output).zero_point
        return saturate(value, output.dtype).reshape(output.shape)

    return step


# --- Reductions over any axes, ArgMax and ArgMin ---


def reduced(function: Callable[..., Any], real: Callable[..., Array]) -> Maker:
    """By one of numpy's reductions, or by `real` on floats; integers keep their type."""

    def make(graph: Graph, op: Op) -> Step:
        attrs, dtype = op.attrs_as(ReduceAttrs), graph.output_tensor(op).dtype.numpy

        def step(inputs: Sequence[Array]) -> Array:
            if inputs[0].dtype.kind == "f":
                return real(inputs[0], attrs.axes, attrs.keep_dims)
            result = function(inputs[0], axis=attrs.axes, keepdims=attrs.keep_dims)
            return np.asarray(result).astype(dtype, copy=False)

        return step

    return make


def _largest(values: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return settled(np.asarray(np.max(values, axis=axes, keepdims=keepdims)))


def _smallest(values: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return settled(np.asarray(np.min(values, axis=axes, keepdims=keepdims)))


def _length(values: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.sqrt(in_order.total(np.square(values), axes, keepdims)))


def _whole_length(values: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.sqrt(np.sum(np.square(values), axis=axis, keepdims=keepdims)))


largest = reduced(np.max, _largest)
smallest = reduced(np.min, _smallest)
reduce_sum = reduced(np.sum, in_order.total)
product = reduced(np.prod, in_order.product)
reduce_mean = reduced(np.mean, in_order.mean)
length = reduced(_whole_length, _length)


def litert_sum(graph: Graph, op: Op) -> Step:
    """In float32: the sum of raw values times the ratio of scales, plus the zero points' share."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    attrs = op.attrs_as(ReduceAttrs)
    count = int(np.prod([source.shape[axis] for axis in attrs.axes], dtype=np.int64))
    ratio = np.float32(quant_of(source).scale) / np.float32(quant_of(output).scale)
    share = np.float32(-quant_of(source).zero_point) * ratio * np.float32(count)

    def step(inputs: Sequence[Array]) -> Array:
        sums = inputs[0].sum(axis=attrs.axes, dtype=np.int64, keepdims=attrs.keep_dims)
        value = round_half_away(sums.astype(np.float32) * ratio + share)
        return saturate(value + quant_of(output).zero_point, output.dtype)

    return step


def place(function: Callable[..., Array]) -> Maker:
    """ArgMax and ArgMin; raw integers are ordered like the values they stand for."""

    def make(graph: Graph, op: Op) -> Step:
        attrs, dtype = op.attrs_as(ArgAttrs), graph.output_tensor(op).dtype.numpy

        def step(inputs: Sequence[Array]) -> Array:
            values, axis = inputs[0], attrs.axis
            if not attrs.last:
                return function(values, axis=axis, keepdims=attrs.keep_dims).astype(dtype)
            turned = np.flip(values, axis)
            from_end = function(turned, axis=axis, keepdims=attrs.keep_dims)
            return np.asarray(values.shape[axis] - 1 - from_end).astype(dtype)

        return step

    return make


arg_max = place(np.argmax)
arg_min = place(np.argmin)


# --- Normalizations on real values, and LiteRT's L2 normalization on integers ---

_OUTPUT_BITS = 7  # LiteRT's L2 normalization always makes units of 1 / 128


def _normalized(values: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    below = values - mean(values, axes, keepdims=True)
    variance = mean(np.square(below), axes, keepdims=True)
    return np.asarray(below / np.sqrt(variance + values.dtype.type(epsilon)))


def layer_norm(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(LayerNormAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        axes = tuple(range(attrs.axis, inputs[0].ndim))
        result = _normalized(inputs[0], axes, attrs.epsilon)
        result = result * inputs[1] if len(inputs) > 1 else result
        return result + inputs[2] if len(inputs) > 2 else result

    return step


def instance_norm(graph: Graph, op: Op) -> Step:
    epsilon = op.attrs_as(InstanceNormAttrs).epsilon

    def step(inputs: Sequence[Array]) -> Array:
        x, scale, bias = inputs
        axes = tuple(range(1, x.ndim - 1))
        return np.asarray(_normalized(x, axes, epsilon) * scale + bias)

    return step


def group_norm(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(GroupNormAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        x, scale, bias = inputs
        groups = x.reshape(*x.shape[:-1], attrs.groups, -1)
        axes = (*range(1, x.ndim - 1), x.ndim)
        result = _normalized(groups, axes, attrs.epsilon).reshape(x.shape)
        return np.asarray(result * scale + bias)

    return step


def l2_norm(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(L2NormAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        squares = total(np.square(inputs[0]), (attrs.axis,), keepdims=True)
        with np.errstate(all="ignore"):
            return np.asarray(inputs[0] / np.maximum(np.sqrt(squares), np.float32(attrs.epsilon)))

    return step


def litert_l2_norm(graph: Graph, op: Op) -> Step:
    """Units of 1 / 128: a shift in the factor for int8, in the values for uint8."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    only_bytes(op, source, output)
    axis = op.attrs_as(L2NormAttrs).axis
    early = _OUTPUT_BITS if source.dtype is DType.UINT8 else 0

    def step(inputs: Sequence[Array]) -> Array:
        x = centred(inputs[0], source)
        root = inverse_square_root(np.square(x).sum(axis=axis, keepdims=True))
        factor = Multipliers(root.mantissa, root.shift + _OUTPUT_BITS - early)
        value = scale_twice(x << early, factor) + quant_of(output).zero_point
        return saturate(value, output.dtype)

    return step


def log_softmax(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(SoftmaxAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        below = inputs[0] - settled(inputs[0].max(axis=attrs.axis, keepdims=True))
        powers = total(real_math.exp(below), (attrs.axis,), keepdims=True)
        return np.asarray(below - real_math.log(powers))

    return step


# --- Softmax of 8-bit integers, in fixed point as in LiteRT's reference kernel ---

_DIFF_BITS = 5  # integer bits of the difference to the largest input
_SUM_BITS = 12  # integer bits of the sum of exponentials


def litert_softmax(graph: Graph, op: Op) -> Step:
    source, output = graph.first_input(op), graph.output_tensor(op)
    only_bytes(op, source)
    attrs = op.attrs_as(SoftmaxAttrs)
    table = exponentials(attrs.beta, quant_of(source).scale)
    summands = rounding_shift(table, _SUM_BITS)
    low = output.dtype.limits[0]

    def step(inputs: Sequence[Array]) -> Array:
        rows = np.moveaxis(inputs[0], attrs.axis, -1).astype(np.int64)
        below = rows.max(axis=-1, keepdims=True) - rows
        total = summands[below].sum(axis=-1, keepdims=True)
        inverse, bits_over_one = reciprocal(total, _SUM_BITS)
        shift = bits_over_one + 31 - output.dtype.bits
        value = rounding_shift(times(table[below], inverse), shift) + low
        return np.moveaxis(saturate(value, output.dtype), -1, attrs.axis)

    return step


def exponentials(beta: float, scale: float) -> Array:
    """exp(-beta * scale * d) for d = 0 ... 255 as fractions.

    LiteRT skips terms below exp(-31); the fraction of 31 bits is zero there already.
    """
    largest = 2.0**31 - 1
    factor = quantized_multipliers(min(beta * scale * 2.0 ** (31 - _DIFF_BITS), largest))
    radius = (2**_DIFF_BITS - 1) * 2 ** (31 - _DIFF_BITS) >> int(factor.shift[0])
    below = np.minimum(np.arange(256), radius)
    return exp_of_negative(scale_twice(-below, factor), _DIFF_BITS)
