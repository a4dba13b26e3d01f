"""Element-wise functions that LiteRT's reference kernels compute in fixed point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.attrs import BinaryAttrs, LeakyReluAttrs
from npuscope.graph.kernels.elementwise import centred
from npuscope.graph.kernels.fixed_point import inverse_square_root, reciprocal, times
from npuscope.graph.kernels.requantize import (
    Multipliers,
    clamp_limits,
    clamped,
    quantized_multipliers,
    real_limits,
    rounding_shift,
    saturate,
    scale_twice,
)
from npuscope.graph.kernels.step import Array, Step, only_bytes, quant_of
from npuscope.graph.kernels.tabulate import tabulated
from npuscope.graph.model import Graph, Op, Tensor

_HIGH = 7  # extra bits of a HardSwish input
_RELU_SCALE = np.float32(3) / np.float32(32768)  # of the relu6-like factor in HardSwish
_SQUARE_BITS = 7  # extra bits of the operands of a squared difference
_ROOT_BITS = 20


def _ratio(a: Tensor, b: Tensor) -> float:
    """Of two scales, in float32 as LiteRT takes it."""
    return float(np.float32(quant_of(a).scale) / np.float32(quant_of(b).scale))


def leaky_relu(graph: Graph, op: Op) -> Step:
    source, output = graph.first_input(op), graph.output_tensor(op)
    only_bytes(op, source, output)
    alpha = np.float32(op.attrs_as(LeakyReluAttrs).alpha)
    scales = np.float32(quant_of(source).scale), np.float32(quant_of(output).scale)
    same = quantized_multipliers(float(scales[0]) / float(scales[1]))
    below = _signed_multipliers(float(scales[0] * alpha) / float(scales[1]))

    def step(inputs: Sequence[Array]) -> Array:
        x = centred(inputs[0], source)
        value = np.where(x >= 0, scale_twice(x, same), scale_twice(x, below))
        return saturate(value + quant_of(output).zero_point, output.dtype)

    return tabulated(step, source)


def _signed_multipliers(factor: float) -> Multipliers:
    """Slopes may be 0 or negative."""
    if factor == 0:
        return Multipliers(np.zeros(1, np.int64), np.zeros(1, np.int64))
    found = quantized_multipliers(abs(factor))
    return Multipliers(found.mantissa if factor > 0 else -found.mantissa, found.shift)


def prelu(graph: Graph, op: Op) -> Step:
    source, slopes = (graph.tensors[name] for name in op.inputs)
    output = graph.output_tensor(op)
    only_bytes(op, source, slopes, output)
    same = quantized_multipliers(_ratio(source, output))
    product = np.float32(quant_of(source).scale) * np.float32(quant_of(slopes).scale)
    below = quantized_multipliers(float(product / np.float32(quant_of(output).scale)))

    def step(inputs: Sequence[Array]) -> Array:
        x, slope = centred(inputs[0], source), centred(inputs[1], slopes)
        value = np.where(x >= 0, scale_twice(x, same), scale_twice(x * slope, below))
        return saturate(value + quant_of(output).zero_point, output.dtype)

    return tabulated(step, source, slopes)


def hard_swish(graph: Graph, op: Op) -> Step:
    """x * relu6(x + 3) / 6 on 16 bits: the factor counts in units of 3 / 32768."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    only_bytes(op, source, output)
    fine = np.float32(1 / (1 << _HIGH)) * np.float32(quant_of(source).scale)
    to_output = quantized_multipliers(float(fine / np.float32(quant_of(output).scale)))
    to_factor = quantized_multipliers(float(fine / _RELU_SCALE))
    exponent = int(to_factor.shift[0])

    def step(inputs: Sequence[Array]) -> Array:
        x = centred(inputs[0], source) << _HIGH
        preshift = _times16(x, _mantissa16(to_output))
        factor = _limit16(x << max(exponent - 1, 0))
        factor = _times16(factor, _mantissa16(to_factor))
        factor = _limit16(factor << 1) if exponent > 0 else factor
        factor = rounding_shift(factor, max(-exponent, 0))
        factor = (factor + (1 << 15)) >> 1
        product = factor * preshift
        high = np.sign(product) * (np.abs(product) >> 15)  # not rounded, as C divides
        value = rounding_shift(high, max(-int(to_output.shift[0]), 0))
        return saturate(value + quant_of(output).zero_point, output.dtype)

    return tabulated(step, source)


def _mantissa16(factors: Multipliers) -> int:
    mantissa = int(factors.mantissa[0])
    return min((mantissa + (1 << 15)) >> 16, 2**15 - 1)


def _limit16(values: Array) -> Array:
    return np.clip(values, -(2**15), 2**15 - 1)


def _times16(values: Array, mantissa: int) -> Array:
    """High half of the doubled product, rounded half up."""
    return np.asarray((values * mantissa + (1 << 14)) >> 15)


def absolute(graph: Graph, op: Op) -> Step:
    source, output = graph.first_input(op), graph.output_tensor(op)
    factor = quantized_multipliers(_ratio(source, output))
    rescale = quant_of(source).scale != quant_of(output).scale

    def step(inputs: Sequence[Array]) -> Array:
        value = np.abs(centred(inputs[0], source))
        value = scale_twice(value, factor) if rescale else value
        return saturate(value + quant_of(output).zero_point, output.dtype)

    return tabulated(step, source)


def rsqrt(graph: Graph, op: Op) -> Step:
    """Inputs below the zero point have no root; LiteRT refuses them, here they give the maximum."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    only_bytes(op, source, output)
    root = np.sqrt(np.float32(quant_of(source).scale))
    scale = 1.0 / float(root * np.float32(quant_of(output).scale))
    found = quantized_multipliers(scale)
    factor = Multipliers(found.mantissa, found.shift - _ROOT_BITS)

    def step(inputs: Sequence[Array]) -> Array:
        x = centred(inputs[0], source)
        inverse = inverse_square_root(np.maximum(x, 1))
        fine = scale_twice(
            np.ones_like(x), Multipliers(inverse.mantissa, inverse.shift + _ROOT_BITS)
        )
        value = scale_twice(fine, factor) + quant_of(output).zero_point
        return saturate(np.where(x > 0, value, output.dtype.limits[1]), output.dtype)

    return tabulated(step, source)


def negative(graph: Graph, op: Op) -> Step:
    """LiteRT turns the sign of the raw values, whatever the zero points are."""
    return lambda inputs: np.negative(inputs[0])


def divide(graph: Graph, op: Op) -> Step:
    """The quotient on 31 bits, then one factor for all three scales.

    Quotients that need a shift of more than 31 bits are 0 here; LiteRT's result of such a shift is
    undefined. It refuses divisors of 0, which saturate here.
    """
    a, b = (graph.tensors[name] for name in op.inputs)
    output = graph.output_tensor(op)
    only_bytes(op, a, b, output)
    limits = clamp_limits(output, *real_limits(op.attrs_as(BinaryAttrs).activation))
    factor = quantized_multipliers(quant_of(a).scale / (quant_of(b).scale * quant_of(output).scale))

    def step(inputs: Sequence[Array]) -> Array:
        above, below = centred(inputs[0], a), centred(inputs[1], b)
        above, below = np.where(below < 0, -above, above), np.abs(below)
        inverse, bits_over_one = reciprocal(np.maximum(below, 1), 31)
        room = 31 - _bit_length(above)
        quotient = times(above << room, inverse)
        shift = bits_over_one + room - factor.shift
        value = rounding_shift(times(quotient, factor.mantissa), np.clip(shift, 0, 62))
        value = np.where(below == 0, np.sign(above) << 31, value)
        return clamped(value + quant_of(output).zero_point, limits, output.dtype)

    return tabulated(step, a, b)


def _bit_length(values: Array) -> Array:
    """Of magnitudes; a negative power of two needs one bit less in two's complement."""
    magnitudes = np.where(values < 0, -values - 1, values)
    return np.asarray(np.frexp(magnitudes.astype(np.float64))[1].astype(np.int64))


def squared_difference(graph: Graph, op: Op) -> Step:
    """Both operands on a common finer scale, then the square back."""
    a, b = (graph.tensors[name] for name in op.inputs)
    output = graph.output_tensor(op)
    only_bytes(op, a, b, output)
    limits = clamp_limits(output, *real_limits(op.attrs_as(BinaryAttrs).activation))
    common = 2.0 * max(quant_of(a).scale, quant_of(b).scale)
    scale_a = quantized_multipliers(quant_of(a).scale / common)
    scale_b = quantized_multipliers(quant_of(b).scale / common)
    finer = 2.0 ** (2 * _SQUARE_BITS)
    scale_out = quantized_multipliers(common * common / (finer * quant_of(output).scale))

    def step(inputs: Sequence[Array]) -> Array:
        left = scale_twice(centred(inputs[0], a) << _SQUARE_BITS, scale_a)
        right = scale_twice(centred(inputs[1], b) << _SQUARE_BITS, scale_b)
        value = scale_twice((left - right) ** 2, scale_out) + quant_of(output).zero_point
        return clamped(value, limits, output.dtype)

    return tabulated(step, a, b)
