"""Reductions over any axes, and the places of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuscope.graph.attrs import ArgAttrs, ReduceAttrs
from npuscope.graph.kernels import in_order
from npuscope.graph.kernels.in_order import settled
from npuscope.graph.kernels.requantize import round_half_away, saturate
from npuscope.graph.kernels.step import Array, Maker, Step, quant_of
from npuscope.graph.model import Graph, Op


def reduced(function: Callable[..., Any], real: Callable[..., Array]) -> Maker:
    """By one of numpy's reductions, or `real` on floats; whole numbers stay what they are."""

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
total = reduced(np.sum, in_order.total)
product = reduced(np.prod, in_order.product)
mean = reduced(np.mean, in_order.mean)
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
            found = function(turned, axis=axis, keepdims=attrs.keep_dims)
            return np.asarray(values.shape[axis] - 1 - found).astype(dtype)

        return step

    return make
