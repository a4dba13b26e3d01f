"""Ops and layers on real values (float32): float networks, and ops between DQ and Q."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from npuscope.graph.model import Activation, DType, Graph, Op
from npuscope.ops.elementwise import BinaryAttrs, ModAttrs
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.kernels import real_math
from npuscope.ops.kernels.reduce import pool_windows, window_counts
from npuscope.ops.kernels.requantize import real_limits
from npuscope.ops.kernels.step import Array, Step, settled, total
from npuscope.ops.layers import ConvAttrs, DenseAttrs, MatMulAttrs
from npuscope.ops.norms import BatchNormAttrs, SoftmaxAttrs
from npuscope.ops.reduce import PoolAttrs

# --- Ops without weights ---
#
# Every input arrives as an array, constants too.


def activated(values: Array, activation: Activation) -> Array:
    if activation is Activation.NONE:
        return values
    low, high = real_limits(activation)
    return settled(np.clip(values, values.dtype.type(low), values.dtype.type(high)))


def _binary(function: Callable[[Array, Array], Array]) -> Callable[[Graph, Op], Step]:
    def make(graph: Graph, op: Op) -> Step:
        activation = op.attrs_as(BinaryAttrs).activation
        return lambda inputs: activated(function(inputs[0], inputs[1]), activation)

    return make


@_binary
def div(a: Array, b: Array) -> Array:
    """Integers are truncated towards zero, as in C."""
    if a.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.asarray(a / b)
    with np.errstate(all="ignore"):
        return np.asarray((a - np.fmod(a, b)) // b)


def remainder(graph: Graph, op: Op) -> Step:
    """Also for integers; division by zero gives NaN, or 0 for types without NaN."""
    function = np.fmod if op.attrs_as(ModAttrs).truncated else np.mod

    def step(inputs: Sequence[Array]) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(inputs[0], inputs[1]))

    return step


def floor_divide(graph: Graph, op: Op) -> Step:
    """Towards minus infinity, as LiteRT does; a division by zero gives 0 for integers."""

    def step(inputs: Sequence[Array]) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(np.floor_divide(inputs[0], inputs[1]))

    return step


@_binary
def power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return real_math.power(a, b)
    with np.errstate(all="ignore"):
        return np.asarray(np.power(a, b)).astype(a.dtype)


@_binary
def squared_difference(a: Array, b: Array) -> Array:
    return np.asarray(np.square(a - b))


add = _binary(np.add)
sub = _binary(np.subtract)
mul = _binary(np.multiply)
smaller = _binary(lambda a, b: settled(np.minimum(a, b)))
larger = _binary(lambda a, b: settled(np.maximum(a, b)))


def prelu(graph: Graph, op: Op) -> Step:
    return lambda inputs: np.where(inputs[0] >= 0, inputs[0], inputs[0] * inputs[1])


def max_pool(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(PoolAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        largest = pool_windows(inputs[0], attrs, np.maximum, -np.inf)
        return activated(settled(largest), attrs.activation)

    return step


def average_pool(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(PoolAttrs)
    counts = window_counts(attrs, graph.first_input(op).shape, attrs.count_pads)

    def step(inputs: Sequence[Array]) -> Array:
        sums = pool_windows(inputs[0], attrs, np.add, 0.0)
        return activated((sums / counts).astype(sums.dtype), attrs.activation)

    return step


def softmax(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(SoftmaxAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        below = inputs[0] - settled(inputs[0].max(axis=attrs.axis, keepdims=True))
        powers = real_math.exp(below * below.dtype.type(attrs.beta))
        return np.asarray(powers / total(powers, (attrs.axis,), keepdims=True))

    return step


def clip(graph: Graph, op: Op) -> Step:
    """Integers stay integers: only limits within their type matter."""
    attrs, dtype = op.attrs_as(ClipAttrs), graph.first_input(op).dtype
    if dtype.is_float or graph.first_input(op).quant is not None:
        low, high = np.float32(attrs.low), np.float32(attrs.high)
        return lambda inputs: settled(np.clip(inputs[0], low, high))
    first, last = whole_limits(attrs, dtype)
    return lambda inputs: np.clip(inputs[0], first, last)


def whole_limits(attrs: ClipAttrs, dtype: DType) -> tuple[int, int]:
    smallest, largest = dtype.limits
    low = int(np.ceil(attrs.low)) if attrs.low > smallest else smallest
    high = int(np.floor(attrs.high)) if attrs.high < largest else largest
    return low, high


def batch_norm(graph: Graph, op: Op) -> Step:
    """Inputs in ONNX order: x, scale, bias, mean, variance."""
    attrs = op.attrs_as(BatchNormAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        x, scale, bias, average, variance = inputs
        factor = scale / np.sqrt(variance + np.float32(attrs.epsilon))
        return activated((x - average) * factor + bias, attrs.activation)

    return step


# --- Layers with weights: convolution, fully connected, matrix product ---
#
# Every sum starts at 0 and takes one term after the other, in the order of the weights (kernel
# row, kernel column, channel); the bias comes last. BLAS is faster, but its order of summation is
# unspecified: a C kernel on another CPU could not give the same bits.

_TILE = 1 << 15  # sums computed together: they and their products fit a usual L2 cache


def ordered_sums(rows: Array, columns: Array) -> Array:
    """Products (groups, rows, columns) of (terms, groups, rows) and (terms, groups, columns)."""
    if columns.shape[2] > rows.shape[2]:  # long inner loops
        return ordered_sums(columns, rows).swapaxes(1, 2)
    _, groups, count = rows.shape
    width = columns.shape[2]
    result = np.empty((groups, width, count), np.result_type(rows, columns))
    many, length = max(1, _TILE // max(width * count, 1)), max(1, _TILE // max(width, 1))
    for group in range(0, groups, many):
        for first in range(0, count, length):
            here = slice(group, group + many), slice(first, first + length)
            result[here[0], :, here[1]] = _tile(rows[:, here[0], here[1]], columns[:, here[0]])
    return result.swapaxes(1, 2)


def _tile(rows: Array, columns: Array) -> Array:
    """One term after the other, for all sums of a tile: (groups, columns, rows)."""
    shape = (columns.shape[1], columns.shape[2], rows.shape[2])
    total = np.zeros(shape, np.result_type(rows, columns))
    product = np.empty_like(total)
    with np.errstate(all="ignore"):
        for row, column in zip(rows, columns, strict=True):
            np.multiply(row[:, np.newaxis], column[:, :, np.newaxis], out=product)
            total += product
    return total


def conv2d(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(ConvAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        # Padded with zeros; a negative pad removes rows or columns.
        images = inputs[0]
        top, left, bottom, right = (max(pad, 0) for pad in attrs.pads)
        from_row, from_column, rows, columns = (max(-pad, 0) for pad in attrs.pads)
        height, width = images.shape[1:3]
        visible = images[:, from_row : height - rows, from_column : width - columns]
        result = _convolved(
            np.pad(visible, ((0, 0), (top, bottom), (left, right), (0, 0))), inputs[1], attrs
        )
        return activated(_with_bias(result, inputs), attrs.activation)

    return step


def _convolved(images: Array, weights: Array, attrs: ConvAttrs) -> Array:
    (down, right), (far_down, far_right) = attrs.strides, attrs.dilations
    outputs, height, width, depth = weights.shape
    window = ((height - 1) * far_down + 1, (width - 1) * far_right + 1)
    # channels first, so that the terms of neighbouring pixels are copied in one operation
    planes = np.ascontiguousarray(images.transpose(3, 0, 1, 2))
    views = sliding_window_view(planes, window, axis=(2, 3))
    taps = views[:, :, ::down, ::right, ::far_down, ::far_right]
    pixels = taps.shape[1:4]
    grouped = taps.reshape(attrs.groups, depth, *pixels, height, width)
    rows = grouped.transpose(5, 6, 1, 0, 2, 3, 4).reshape(
        height * width * depth, attrs.groups, prod(pixels)
    )
    sums = ordered_sums(rows, grouped_columns(weights, attrs.groups))
    return sums.transpose(1, 0, 2).reshape(*pixels, outputs)


def grouped_columns(weights: Array, groups: int) -> Array:
    """Weights (O, kernel rows, kernel columns, depth) as (terms, groups, outputs of a group)."""
    parts = weights.reshape(groups, len(weights) // groups, prod(weights.shape[1:]))
    return np.ascontiguousarray(parts.transpose(2, 0, 1))


def _with_bias(values: Array, inputs: Sequence[Array]) -> Array:
    return values + inputs[2] if len(inputs) > 2 else values


def fully_connected(graph: Graph, op: Op) -> Step:
    activation, shape = op.attrs_as(DenseAttrs).activation, graph.output_tensor(op).shape

    def step(inputs: Sequence[Array]) -> Array:
        rows = inputs[0].reshape(prod(shape[:-1]), 1, inputs[1].shape[1]).transpose(2, 1, 0)
        sums = ordered_sums(rows, grouped_columns(inputs[1], 1)).reshape(shape)
        return activated(_with_bias(sums, inputs), activation)

    return step


def matmul(graph: Graph, op: Op) -> Step:
    attrs, shape = op.attrs_as(MatMulAttrs), graph.output_tensor(op).shape

    def step(inputs: Sequence[Array]) -> Array:
        left = inputs[0].swapaxes(-1, -2) if not attrs.transpose_a else inputs[0]
        right = inputs[1].swapaxes(-1, -2) if attrs.transpose_b else inputs[1]
        sums = ordered_sums(_terms_first(left, shape), _terms_first(right, shape))
        return np.ascontiguousarray(sums).reshape(shape)

    return step


def _terms_first(matrices: Array, output: tuple[int, ...]) -> Array:
    """Matrices (..., terms, values) for all products of the output as (terms, products, values)."""
    last = matrices.shape[-2:]
    whole = np.broadcast_to(matrices, (*output[:-2], *last)).reshape(prod(output[:-2]), *last)
    return np.ascontiguousarray(whole.transpose(1, 0, 2))
