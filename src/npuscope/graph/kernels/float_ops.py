"""Ops on real values (float32): float networks, and what stands between DequantizeLinear and
QuantizeLinear. Every input arrives as an array, weights too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.attrs import (
    Activation,
    BatchNormAttrs,
    BinaryAttrs,
    ClipAttrs,
    PoolAttrs,
    SoftmaxAttrs,
)
from npuscope.graph.kernels import real_math
from npuscope.graph.kernels.in_order import settled, total
from npuscope.graph.kernels.pool import pool_windows, window_counts
from npuscope.graph.kernels.requantize import real_limits
from npuscope.graph.kernels.step import Array, Step
from npuscope.graph.model import DType, Graph, Op


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


def _divide(a: Array, b: Array) -> Array:
    """Whole numbers are cut towards zero, as in C."""
    if a.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.asarray(a / b)
    with np.errstate(all="ignore"):
        return np.asarray((a - np.fmod(a, b)) // b)


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return real_math.power(a, b)
    with np.errstate(all="ignore"):
        return np.asarray(np.power(a, b)).astype(a.dtype)


def _squared_difference(a: Array, b: Array) -> Array:
    return np.asarray(np.square(a - b))


add = _binary(np.add)
sub = _binary(np.subtract)
mul = _binary(np.multiply)
div = _binary(_divide)
power = _binary(_power)
smaller = _binary(lambda a, b: settled(np.minimum(a, b)))
larger = _binary(lambda a, b: settled(np.maximum(a, b)))
squared_difference = _binary(_squared_difference)


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
    """Whole numbers stay whole: only limits that their type has count."""
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
