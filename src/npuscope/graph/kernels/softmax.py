"""Softmax on 8-bit integers as LiteRT's reference kernel does it, in fixed point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.attrs import SoftmaxAttrs
from npuscope.graph.kernels.fixed_point import exp_of_negative, reciprocal, times
from npuscope.graph.kernels.requantize import (
    quantized_multipliers,
    rounding_shift,
    saturate,
    scale_twice,
)
from npuscope.graph.kernels.step import Array, Step, only_bytes, quant_of
from npuscope.graph.model import Graph, Op

_DIFF_BITS = 5  # integer bits of the difference to the largest input
_SUM_BITS = 12  # integer bits of the sum of exponentials


def litert_softmax(graph: Graph, op: Op) -> Step:
    source, output = graph.first_input(op), graph.output_tensor(op)
    only_bytes(op, source, output)
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
