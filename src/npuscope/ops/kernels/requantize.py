"""LiteRT's fixed-point rules: multipliers, rounding, and how accumulators become outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isinf

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.graph.model import Activation, DType, Quant, Tensor
from npuscope.ops.kernels.step import Array, quant_of

# --- LiteRT's fixed-point rules: multipliers of 31 bits and how they round ---
#
# How each op rounds was found by comparison with LiteRT's reference kernels (tests/ops/kernels):
# conv, add, mul, mean and requantize round twice (gemmlowp), fully connected rounds once, in
# double.


class Multipliers(Struct, frozen=True):
    """Real factors as mantissa * 2**(shift - 31), 2**30 <= mantissa < 2**31; int64 arrays."""

    mantissa: Array
    shift: Array


def quantized_multipliers(factors: Array | Sequence[float] | float) -> Multipliers:
    """Nearest 31-bit mantissas of positive factors, one each."""
    real = np.atleast_1d(np.asarray(factors, np.float64))
    if not np.all(np.isfinite(real) & (real > 0)):
        raise ModelError("the ratio of the scales is not a positive finite number")
    fraction, shift = np.frexp(real)
    mantissa = np.floor(fraction * 2.0**31 + 0.5).astype(np.int64)
    carried = mantissa == 2**31
    mantissa[carried] >>= 1
    shift = shift.astype(np.int64) + carried
    vanishing = shift < -31  # every bit would be shifted out
    mantissa[vanishing] = 0
    shift[vanishing] = 0
    return Multipliers(mantissa, shift)


def scale_twice(values: Array, factors: Multipliers) -> Array:
    """gemmlowp's rule: the high product rounds half up, the right shift half away from zero."""
    left, right = np.maximum(factors.shift, 0), np.maximum(-factors.shift, 0)
    high = ((values.astype(np.int64) << left) * factors.mantissa + 2**30) >> 31
    return _shaped(rounding_shift(high, right), values, factors)


def _shaped(scaled: Array, values: Array, factors: Multipliers) -> Array:
    """One factor leaves the shape as it is: a number stays a number."""
    return scaled.reshape(values.shape) if factors.mantissa.size == 1 else scaled


def rounding_shift(values: Array, bits: Array | int) -> Array:
    """values / 2**bits, ties away from zero."""
    half = np.left_shift(1, bits) >> 1
    shifted: Array = (values + half - ((values < 0) & (half > 0))) >> bits
    return shifted


def scale_reduced(values: Array, factors: Multipliers) -> Array:
    """The rule of 64-bit accumulators (16-bit activations): 16-bit mantissa, half up."""
    mantissa, shift = reduced_multipliers(factors)
    scaled: Array = (values.astype(np.int64) * mantissa + np.left_shift(1, shift - 1)) >> shift
    return _shaped(scaled, values, factors)


def reduced_multipliers(factors: Multipliers) -> tuple[Array, Array]:
    """Mantissas of 16 bits, and the right shifts that go with them."""
    return np.minimum((factors.mantissa + 2**15) >> 16, 0x7FFF), 15 - factors.shift


_BELOW_HALF = {
    np.dtype(float_type).char: np.nextafter(float_type(0.5), float_type(0))
    for float_type in (np.float32, np.float64)
}


def round_half_away(values: Array) -> Array:
    """C's round(). The addend is the float below 0.5: with 0.5 itself, 0.49999999999999994
    would become 1, while all ties still reach the next whole number by the sum's own rounding.
    """
    rounded: Array = np.trunc(values + np.copysign(_BELOW_HALF[values.dtype.char], values))
    return rounded


def clamped(values: Array, limits: tuple[int, int], dtype: DType) -> Array:
    """Integers clamped to a range and stored."""
    result: Array = values.clip(*limits).astype(dtype.numpy)
    return result


def saturate(values: Array, dtype: DType) -> Array:
    return clamped(values, dtype.limits, dtype)


def quantize_real(value: float, quant: Quant) -> float:
    """A real number on the integer grid, in LiteRT's float32 arithmetic; infinity stays."""
    if isinf(value):
        return value
    ratio = np.float32(value) / np.float32(quant.scale)
    return float(round_half_away(np.asarray(ratio))) + quant.zero_point


_REAL_LIMITS = {
    Activation.NONE: (-np.inf, np.inf),
    Activation.RELU: (0.0, np.inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def real_limits(activation: Activation) -> tuple[float, float]:
    """The range that a fused activation keeps."""
    return _REAL_LIMITS[activation]


def clamp_limits(output: Tensor, low: float, high: float) -> tuple[int, int]:
    """The quantized range of a clamp to [low, high] in real values."""
    quant = quant_of(output)
    smallest, largest = output.dtype.limits
    first, last = (
        min(max(quantize_real(value, quant), smallest), largest) for value in (low, high)
    )
    return int(first), int(last)


# --- From accumulators to outputs ---
#
# An Emit takes sums of raw products (whole numbers held in float32 or float64, channels last) and
# writes the op's output. The bias, with the input's zero point folded in, is added here.

Emit = Callable[[Array, Array], None]
RoundingRule = Callable[[Array, Multipliers], Array]


class Target(Struct, frozen=True):
    """The integer output: its type, zero point and the range that the activation leaves."""

    dtype: DType
    zero_point: int
    low: int
    high: int


def litert_target(output: Tensor, activation: Activation) -> Target:
    low, high = clamp_limits(output, *real_limits(activation))
    return Target(output.dtype, quant_of(output).zero_point, low, high)


class ExactRescale(Struct, frozen=True):
    """Any fixed-point rule, in 64-bit integers."""

    rule: RoundingRule
    factors: Multipliers
    bias: Array
    target: Target

    def __call__(self, sums: Array, out: Array) -> None:
        total = sums.astype(np.int64) + self.bias
        value = self.rule(total, self.factors) + self.target.zero_point
        value.clip(self.target.low, self.target.high, out=value)
        np.copyto(out, value.reshape(out.shape), casting="unsafe")


class RescaleInDouble(Struct, frozen=True):
    """LiteRT's fully connected: round(sum * factor) in double, half away from zero."""

    factors: Array
    bias: Array  # whole numbers as float64
    target: Target

    def __call__(self, sums: Array, out: Array) -> None:
        value = round_half_away((sums + self.bias) * self.factors)
        value += self.target.zero_point
        value.clip(self.target.low, self.target.high, out=value)
        np.copyto(out, value.reshape(out.shape), casting="unsafe")


class RescaleToEven(Struct, frozen=True):
    """onnxruntime: real value over the output's scale, rounded half to even.

    The float32 sums of onnxruntime scatter around the exact sum, so the exact sum in double
    predicts best where they round.
    """

    factors: Array
    bias: Array  # real bias over the output's scale, float64
    target: Target

    def __call__(self, sums: Array, out: Array) -> None:
        value: Array = np.multiply(sums.reshape(-1, self.factors.size), self.factors)
        value += self.bias
        np.rint(value, out=value)
        zero = self.target.zero_point
        value.clip(self.target.low - zero, self.target.high - zero, out=value)
        value += zero
        np.copyto(out.reshape(value.shape), value, casting="unsafe")


class ToReal(Struct, frozen=True):
    """No quantization follows: real values, clamped by the activation."""

    factors: Array
    bias: Array  # real, float64
    limits: tuple[float, float]

    def __call__(self, sums: Array, out: Array) -> None:
        value = sums.reshape(-1, self.factors.size) * self.factors + self.bias
        value.clip(*self.limits, out=value)
        np.copyto(out.reshape(value.shape), value, casting="unsafe")
