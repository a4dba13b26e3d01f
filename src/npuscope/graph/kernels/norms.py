"""Normalizations on real values, and LiteRT's L2 normalization on integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.attrs import (
    GroupNormAttrs,
    InstanceNormAttrs,
    L2NormAttrs,
    LayerNormAttrs,
    SoftmaxAttrs,
)
from npuscope.graph.kernels import real_math
from npuscope.graph.kernels.elementwise import centred
from npuscope.graph.kernels.fixed_point import inverse_square_root
from npuscope.graph.kernels.in_order import mean, settled, total
from npuscope.graph.kernels.requantize import Multipliers, saturate, scale_twice
from npuscope.graph.kernels.step import Array, Step, only_bytes, quant_of
from npuscope.graph.model import DType, Graph, Op

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
