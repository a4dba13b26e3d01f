"""Functions that LiteRT's reference kernels compute in fixed point, and gemmlowp's arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.model import Graph, Op, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import LeakyReluAttrs
from npuscope.ops.kernels.elementwise import centred
from npuscope.ops.kernels.requantize import (
    Multipliers,
    clamp_limits,
    clamped,
    quantized_multipliers,
    real_limits,
    rounding_shift,
    saturate,
    scale_twice,
)
from npuscope.ops.kernels.step import Array, Step, only_bytes, quant_of, tabulated

# --- gemmlowp's fixed-point functions on raw int64 arrays ---
#
# LiteRT's softmax is built from them. Raw values are 32-bit: a format with `n` integer bits counts
# in units of 2**(n - 31).

ONE = 2**31 - 1  # 1.0 without integer bits: the largest value below it

_EXP_OF_EIGHTH = 1895147668  # exp(-1/8)
_THIRD = 715827883  # 1/3 without integer bits
_EIGHTH = 1 << 28  # 1/8 without integer bits
# exp(-2**k) for k = -2 ... 4
_EXP_OF_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
_48_OVER_17 = 1515870810  # two integer bits
_MINUS_32_OVER_17 = -1010580540  # two integer bits
_ONE_TWO_BITS = 1 << 29  # 1.0 with two integer bits
_HALF_THREE = (1 << 28) + (1 << 27)  # 1.5 with three integer bits
_HALF_ROOT_2 = 1518500250


def times(a: Array, b: Array | int) -> Array:
    """Product of raw values, rounded half up; integer bits add."""
    product: Array = a * b
    rounded: Array = (product + 2**30) >> 31
    return rounded


def _up(values: Array, bits: int) -> Array:
    """Fewer integer bits, saturating."""
    moved: Array = np.clip(values << bits, -(2**31), 2**31 - 1)
    return moved


def exp_of_negative(values: Array, integer_bits: int) -> Array:
    """exp(x) for x <= 0 as a fraction: a quarter by polynomial, the rest by squares of exp."""
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    part = (values & (quarter - 1)) - quarter
    rest = part - values
    # exp on [-1/4, 0): the Taylor polynomial of degree 4 around -1/8.
    x = (part << integer_bits) + _EIGHTH
    x2 = times(x, x)
    x3 = times(x2, x)
    x4 = times(x2, x2)
    cubic = times(rounding_shift(x4, 2) + x3, _THIRD)  # x**4 / 12 + x**3 / 3
    tail = rounding_shift(cubic + x2, 1)
    result = _EXP_OF_EIGHTH + times(x + tail, _EXP_OF_EIGHTH)
    for power, factor in zip(range(-2, integer_bits), _EXP_OF_POWERS, strict=False):
        has_bit = (rest >> (fraction_bits + power)) & 1 == 1
        result = np.where(has_bit, times(result, factor), result)
    return np.where(values == 0, ONE, result)


def one_over_one_plus(values: Array) -> Array:
    """1 / (1 + x) for a fraction x: three Newton steps from 48/17 - 32/17 * d."""
    half = (values + ONE + 1) >> 1  # (1 + x) / 2, rounded up
    guess = _48_OVER_17 + times(half, _MINUS_32_OVER_17)
    for _ in range(3):
        error = _ONE_TWO_BITS - times(half, guess)
        guess = guess + _up(times(guess, error), 2)
    return _up(guess, 1)


def reciprocal(values: Array, integer_bits: int) -> tuple[Array, Array]:
    """1 / x of positive raw values as a fraction in (1/2, 1], and the power of two taken out."""
    bits = np.frexp(values.astype(np.float64))[1].astype(np.int64)  # of the largest set bit
    fraction = (values << (32 - bits)) - 2**31
    return one_over_one_plus(fraction), bits + integer_bits - 32


def inverse_square_root(values: Array) -> Multipliers:
    """1 / sqrt(x) of whole numbers x >= 1: five Newton steps on a fraction with 3 integer bits."""
    x = values.astype(np.int64)
    shift = np.full_like(x, 11)
    for _ in range(8):  # values reach 2**31 and more at most a few times
        large = x >= 1 << 29
        x, shift = np.where(large, x >> 2, x), shift + large
    pairs = (31 - np.frexp(x.astype(np.float64))[1].astype(np.int64)) // 2 - 1
    shift = shift - pairs
    half = rounding_shift((x << (2 * pairs)) >> 1, 1)
    guess = np.full_like(x, 1 << 28)
    for _ in range(5):
        cube = _up(times(times(guess, guess), guess), 6)
        guess = _up(times(guess, _HALF_THREE) - times(half, cube), 3)
    mantissa = times(guess, _HALF_ROOT_2)
    below = np.maximum(-shift, 0)
    one = values <= 1  # would overflow
    return Multipliers(
        np.where(one, ONE, mantissa << below), np.where(one, 0, -np.maximum(shift, 0))
    )


# --- Element-wise functions that LiteRT's reference kernels compute in fixed point ---

_HIGH = 7  # extra bits of a HardSwish input
_RELU_SCALE = np.float32(3) / np.float32(32768)  # of the relu6-like factor in HardSwish
_SQUARE_BITS = 7  # extra bits of the operands of a squared difference
_ROOT_BITS = 20


def _ratio(a: Tensor, b: Tensor) -> float:
    """Ratio of two scales, in float32 as LiteRT computes it."""
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
    size = quantized_multipliers(abs(factor))
    return Multipliers(size.mantissa if factor > 0 else -size.mantissa, size.shift)


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
    """Inputs below the zero point have no root; LiteRT rejects them, here they give the maximum."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    only_bytes(op, source, output)
    root = np.sqrt(np.float32(quant_of(source).scale))
    scale = 1.0 / float(root * np.float32(quant_of(output).scale))
    multipliers = quantized_multipliers(scale)
    factor = Multipliers(multipliers.mantissa, multipliers.shift - _ROOT_BITS)

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
    """LiteRT negates the raw values and ignores the zero points."""
    return lambda inputs: np.negative(inputs[0])


def divide(graph: Graph, op: Op) -> Step:
    """The quotient on 31 bits, then one factor for all three scales.

    Quotients that need a shift of more than 31 bits are 0 here; LiteRT's result of such a shift is
    undefined. LiteRT rejects divisors of 0; here they saturate.
    """
    a, b = (graph.tensors[name] for name in op.inputs)
    output = graph.output_tensor(op)
    only_bytes(op, a, b, output)
    limits = clamp_limits(output, *real_limits(op.attrs_as(BinaryAttrs).activation))
    factor = quantized_multipliers(quant_of(a).scale / (quant_of(b).scale * quant_of(output).scale))
    mantissa, factor_shift = int(factor.mantissa[0]), int(factor.shift[0])

    def step(inputs: Sequence[Array]) -> Array:
        above, below = centred(inputs[0], a), centred(inputs[1], b)
        above, below = np.where(below < 0, -above, above), np.abs(below)
        inverse, bits_over_one = reciprocal(np.maximum(below, 1), 31)
        room = 31 - _bit_length(above)
        quotient = times(above << room, inverse)
        shift = bits_over_one + room - factor_shift
        value = rounding_shift(times(quotient, mantissa), np.clip(shift, 0, 62))
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
