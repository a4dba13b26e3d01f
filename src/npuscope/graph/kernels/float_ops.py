"""Ops on real values (float32): float networks, and what stands between DequantizeLinear and
QuantizeLinear. Every input arrives as an array, weights too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from npuscope.graph.attrs import (
    Activation,
    BatchNormAttrs,
    BinaryAttrs,
    ClipAttrs,
    ConvAttrs,
    DenseAttrs,
    MatMulAttrs,
    PoolAttrs,
    SoftmaxAttrs,
)
from npuscope.graph.kernels.pool import pool_windows, window_counts
from npuscope.graph.kernels.requantize import real_limits
from npuscope.graph.kernels.step import Array, Step
from npuscope.graph.model import Graph, Op


def activated(values: Array, activation: Activation) -> Array:
    if activation is Activation.NONE:
        return values
    low, high = real_limits(activation)
    return np.clip(values, values.dtype.type(low), values.dtype.type(high))


def conv2d(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(ConvAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        images, weights = _padded(inputs[0], attrs), inputs[1]
        parts = zip(
            np.split(images, attrs.groups, axis=3), np.split(weights, attrs.groups), strict=True
        )
        result = np.concatenate([_dense_conv(x, w, attrs) for x, w in parts], axis=3)
        return activated(_with_bias(result, inputs), attrs.activation)

    return step


def _padded(images: Array, attrs: ConvAttrs) -> Array:
    """With zeros around; a negative pad leaves rows or columns out."""
    top, left, bottom, right = (max(pad, 0) for pad in attrs.pads)
    from_row, from_column, rows, columns = (max(-pad, 0) for pad in attrs.pads)
    height, width = images.shape[1:3]
    seen = images[:, from_row : height - rows, from_column : width - columns]
    return np.pad(seen, ((0, 0), (top, bottom), (left, right), (0, 0)))


def _dense_conv(images: Array, weights: Array, attrs: ConvAttrs) -> Array:
    (down, right), (far_down, far_right) = attrs.strides, attrs.dilations
    outputs, height, width, depth = weights.shape
    window = ((height - 1) * far_down + 1, (width - 1) * far_right + 1)
    views = sliding_window_view(images, window, axis=(1, 2))
    taps = views[:, ::down, ::right, :, ::far_down, ::far_right]
    rows = taps.transpose(0, 1, 2, 4, 5, 3).reshape(-1, height * width * depth)
    product: Array = rows @ weights.reshape(outputs, -1).T
    return product.reshape(*taps.shape[:3], outputs)


def _with_bias(values: Array, inputs: Sequence[Array]) -> Array:
    return values + inputs[2] if len(inputs) > 2 else values


def fully_connected(graph: Graph, op: Op) -> Step:
    activation = op.attrs_as(DenseAttrs).activation

    def step(inputs: Sequence[Array]) -> Array:
        return activated(_with_bias(inputs[0] @ inputs[1].T, inputs), activation)

    return step


def matmul(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(MatMulAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        left, right = inputs
        left = left.swapaxes(-1, -2) if attrs.transpose_a else left
        right = right.swapaxes(-1, -2) if attrs.transpose_b else right
        return np.asarray(left @ right)

    return step


def _binary(function: Callable[[Array, Array], Array]) -> Callable[[Graph, Op], Step]:
    def make(graph: Graph, op: Op) -> Step:
        activation = op.attrs_as(BinaryAttrs).activation
        return lambda inputs: activated(function(inputs[0], inputs[1]), activation)

    return make


def _divide(a: Array, b: Array) -> Array:
    """Whole numbers are cut towards zero, as in C."""
    if a.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.asarray(a / b)
    sign = np.sign(a) * np.sign(b)
    return np.asarray(sign * (np.abs(a) // np.abs(b))).astype(a.dtype)


def _power(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.power(a, b)).astype(a.dtype)


def _squared_difference(a: Array, b: Array) -> Array:
    return np.asarray(np.square(a - b))


add = _binary(np.add)
sub = _binary(np.subtract)
mul = _binary(np.multiply)
div = _binary(_divide)
power = _binary(_power)
smaller = _binary(np.minimum)
larger = _binary(np.maximum)
squared_difference = _binary(_squared_difference)


def prelu(graph: Graph, op: Op) -> Step:
    return lambda inputs: np.where(inputs[0] >= 0, inputs[0], inputs[0] * inputs[1])


def max_pool(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(PoolAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        return activated(pool_windows(inputs[0], attrs, np.maximum, -np.inf), attrs.activation)

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
        below = inputs[0] - inputs[0].max(axis=attrs.axis, keepdims=True)
        powers = np.exp(below * below.dtype.type(attrs.beta))
        return np.asarray(powers / powers.sum(axis=attrs.axis, keepdims=True))

    return step


def clip(graph: Graph, op: Op) -> Step:
    """Whole numbers stay whole: only limits that their type has count."""
    attrs, dtype = op.attrs_as(ClipAttrs), graph.first_input(op).dtype
    if dtype.is_float or graph.first_input(op).quant is not None:
        return lambda inputs: np.clip(inputs[0], np.float32(attrs.low), np.float32(attrs.high))
    smallest, largest = dtype.limits
    low = int(np.ceil(attrs.low)) if attrs.low > smallest else smallest
    high = int(np.floor(attrs.high)) if attrs.high < largest else largest
    return lambda inputs: np.clip(inputs[0], low, high)


def batch_norm(graph: Graph, op: Op) -> Step:
    """Inputs in ONNX order: x, scale, bias, mean, variance."""
    attrs = op.attrs_as(BatchNormAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        x, scale, bias, average, variance = inputs
        factor = scale / np.sqrt(variance + np.float32(attrs.epsilon))
        return activated((x - average) * factor + bias, attrs.activation)

    return step
