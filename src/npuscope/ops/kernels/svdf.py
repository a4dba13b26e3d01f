"""TFLite's SVDF: filters over the input, then weights over what they gave in the last steps.

Integers as LiteRT computes them, exactly; it has memories of 16 bits only, those of 8 bits have a
zero point, as TFLite Micro has them. Reals differ from LiteRT by the order of sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.model import Graph, Op, Tensor
from npuscope.ops.kernels.float_ops import activated
from npuscope.ops.kernels.requantize import (
    Multipliers,
    quantized_multipliers,
    saturate,
    scale_twice,
)
from npuscope.ops.kernels.step import Array, Step, quant_of
from npuscope.ops.recurrent import SvdfOutputAttrs


def _shifted(memory: Array, fresh: Array) -> Array:
    """The memory (batch, filters * steps) without its oldest step, and with a new one."""
    steps = memory.reshape(*fresh.shape, -1)
    return np.concatenate([steps[:, :, 1:], fresh[:, :, None]], axis=2).reshape(memory.shape)


def _weighed(memory: Array, weights: Array, rank: int) -> Array:
    filters = (memory.reshape(len(memory), *weights.shape) * weights).sum(axis=2)
    sums: Array = filters.reshape(len(memory), -1, rank).sum(axis=2)
    return sums


def state(graph: Graph, op: Op) -> Step:
    return lambda inputs: _shifted(inputs[0], inputs[1] @ inputs[2].T)


def output(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(SvdfOutputAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        sums = _weighed(inputs[0], inputs[1], attrs.rank)
        return activated(sums + inputs[2] if len(inputs) > 2 else sums, attrs.activation)

    return step


def litert_state(graph: Graph, op: Op) -> Step:
    memory, x, weights = (graph.tensors[name] for name in op.inputs)
    factor, zero = _factor(x, weights, memory), quant_of(x).zero_point

    def step(inputs: Sequence[Array]) -> Array:
        sums = (inputs[1].astype(np.int64) - zero) @ inputs[2].T.astype(np.int64)
        fresh = scale_twice(sums, factor) + quant_of(memory).zero_point
        return _shifted(inputs[0], saturate(fresh, memory.dtype))

    return step


def litert_output(graph: Graph, op: Op) -> Step:
    """A RELU is the lower limit of the output's type, whatever its zero point."""
    memory, weights = (graph.tensors[name] for name in op.inputs[:2])
    output, rank = graph.output_tensor(op), op.attrs_as(SvdfOutputAttrs).rank
    factor, zero = _factor(memory, weights, output), quant_of(memory).zero_point

    def step(inputs: Sequence[Array]) -> Array:
        sums = _weighed(inputs[0].astype(np.int64) - zero, inputs[1].astype(np.int64), rank)
        sums = sums + inputs[2] if len(inputs) > 2 else sums
        wrapped = sums.astype(np.int32)  # LiteRT's sums have 32 bits, which 16-bit weights exceed
        return saturate(scale_twice(wrapped, factor) + quant_of(output).zero_point, output.dtype)

    return step


def _factor(a: Tensor, b: Tensor, output: Tensor) -> Multipliers:
    """Sums to output; LiteRT computes the ratio of scales in float32."""
    scales = (np.float32(quant_of(tensor).scale) for tensor in (a, b, output))
    first, second, target = scales
    return quantized_multipliers(float(first * second / target))
