"""How real scales become the units' integers: shifts, 16-bit coefficients, 32-bit offsets.

The vendor's rules were read off its output and confirmed by board results; the `open` rules
keep 15 bits for every channel and never let a convolution saturate where it shows."""

from __future__ import annotations

from math import ceil, floor, inf, isfinite, log2

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.geometry.sums import INT16_MAX, reach

Array = np.ndarray
MAX_SHIFT = 31  # of a dead layer, whose scale is 0; of an operand
LAST_SHIFT = 48  # beyond it nothing is left of a product of 16 and 32 bits
FRACTION_BITS = 20  # the vendor's two-stage form works with 20 fraction bits


class LayerScaling(Struct, frozen=True):
    """real = scale * (q - zero point) for a layer: input, weights per channel, output."""

    input_scale: float
    weight_scales: Array  # one per output channel
    output_scale: float
    output_zero: int
    bias: Array  # real values, one per output channel

    @property
    def about_one(self) -> LayerScaling:
        """The same layer in other units, where its scales are too far from 1 for coefficients:
        only ratios count, and powers of two round nothing."""
        exponent = round(log2(self.output_scale))
        if abs(exponent) <= FRACTION_BITS:
            return self
        unit = 2.0**exponent
        input_scale, output_scale = self.input_scale / unit, self.output_scale / unit
        return LayerScaling(
            input_scale, self.weight_scales, output_scale, self.output_zero, self.bias / unit
        )


class Affine(Struct, frozen=True):
    """One ARITH stage: (a * x + c) >> shift, a and c per channel or scalar."""

    a: Array
    c: Array
    shift: int
    ax_shift: int = 0
    c_shift: int = 0


def norm(values: Array | float) -> int:
    """The power of two that brings the largest value into 16 bits."""
    largest = float(np.asarray(values).max())
    return min(floor(log2(32768.0 / largest)), LAST_SHIFT) if largest > 0 else MAX_SHIFT


def int16(values: Array | float) -> Array:
    # Half away from zero.
    values = np.asarray(values, dtype=np.float64)
    return _between(np.trunc(values + np.copysign(0.5, values)), -32768, INT16_MAX)


def int32(values: Array | float) -> Array:
    return _between(np.floor(values), -(2**31), 2**31 - 1)


def _between(values: Array, low: int, high: int) -> Array:
    """As integers. Not np.clip, which takes four times as long for the few values of a layer."""
    return np.asarray(np.minimum(np.maximum(values, low), high)).astype(np.int64)


def offset32(values: Array | float, rounding: float = 0.0) -> tuple[Array, int]:
    """An offset as a 32-bit coefficient and the shift that brings it back to size."""
    largest = float(np.abs(values).max())
    if not isfinite(largest):
        raise ModelError("its constants and scales give an offset that is not finite")
    c_shift = max(0, ceil(log2((largest + 1) / 2**31))) if largest >= 2**31 else 0
    if c_shift or rounding:
        values = np.asarray(values) / 2.0**c_shift + rounding
    return int32(values).reshape(-1), c_shift


def _shared(values: Array) -> Array:
    """One value where all channels have the same: the unit then needs no vector."""
    return values[:1] if bool((values == values[0]).all()) else values


def sums_that_matter(
    weights: Array,
    scaling: LayerScaling,
    inputs: tuple[int, int],
    passes: int = 1,
    in_pieces: bool = False,
) -> Array:
    """Per channel the largest sum that can occur and still change the output.

    `inputs` are the smallest and largest feature after the zero point is gone. A sum beyond
    what the output's own clamp keeps may saturate: it ends in the same byte. A sum in between
    passes must leave room for what the passes to come can take back, and one of a kernel in
    pieces for all of it.
    """
    if in_pieces:
        flat = np.abs(weights.reshape(len(weights), -1).astype(np.float64)).sum(axis=1)
        return np.asarray(np.maximum(flat * max(abs(inputs[0]), inputs[1]), 1.0))
    highest, lowest = reach(weights, inputs, passes)
    unit = np.maximum(scaling.input_scale * scaling.weight_scales, 1e-30)
    above = ((128 - scaling.output_zero) * scaling.output_scale - scaling.bias) / unit
    below = ((-129 - scaling.output_zero) * scaling.output_scale - scaling.bias) / unit
    to_come_down = lowest[:, -1:] - lowest  # what later passes may subtract
    to_come_up = highest[:, -1:] - highest
    upper = np.minimum(highest, above[:, None] - to_come_down)
    lower = np.maximum(lowest, below[:, None] - to_come_up)
    largest = np.maximum(upper, -lower).max(axis=1)
    return np.asarray(np.maximum(largest, 1.0))


def safe_conv_shift(largest_sums: Array) -> int:
    """Open rule: no sum that matters leaves 16 bits."""
    needed = float(largest_sums.max())
    return max(0, ceil(log2(needed / INT16_MAX))) if needed > INT16_MAX else 0


def likely_sums(weights: Array, inputs: tuple[int, int], level: float) -> Array:
    """Per channel what sums reach in practice: all inputs at one level, and beside that eight
    deviations of inputs that differ from each other."""
    flat = weights.reshape(len(weights), -1).astype(np.float64)
    spread = (inputs[1] - inputs[0]) / 12**0.5
    common = np.abs(flat.sum(axis=1)) * level
    return np.asarray(common + 8 * spread * np.sqrt((flat * flat).sum(axis=1)))


def fine_enough_shift(scaling: LayerScaling, roundings: int) -> int:
    """The largest shift at which so many roundings of a sum stay below a quarter of a step of the
    output."""
    unit = scaling.input_scale * float(scaling.weight_scales.max())
    step = scaling.output_scale / unit if unit else inf
    return floor(log2(min(step, 2.0**62) / 4 / (roundings / 12) ** 0.5))


def requantize_two_stage(scaling: LayerScaling, shift_o: int) -> tuple[Affine, Affine]:
    """2.x: Mul brings the sum into real units (16 bits), Add scales and adds the offset.

    The 16 bits between them hold the largest bias: a sum that the bias takes back to the output's
    range is about as large. Four layers of two vendor builds have fewer fraction bits for it.
    """
    largest = float(np.abs(scaling.bias).max(initial=0.0))
    products = _shared(scaling.input_scale * scaling.weight_scales)
    n_a = norm(products)
    n_b = norm(1.0 / scaling.output_scale)
    fraction = min(FRACTION_BITS - n_b, n_a - shift_o)
    if largest:
        fraction = min(fraction, floor(log2(INT16_MAX / largest)))
    fraction = max(fraction, n_a - shift_o - LAST_SHIFT)
    mul = Affine(int16(products * 2.0**n_a), np.zeros(1, np.int64), n_a - shift_o - fraction)
    total = fraction + n_b
    offset = scaling.bias / scaling.output_scale + scaling.output_zero
    c, c_shift = offset32(offset * 2.0**total)
    factor = int16(2.0**n_b / scaling.output_scale).reshape(1)
    return mul, Affine(factor, c, total, c_shift=c_shift)


def requantize_one_stage(scaling: LayerScaling, shift_o: int) -> Affine:
    """3.0 and later: one multiply-add per channel."""
    gain = _shared(scaling.input_scale * scaling.weight_scales) / scaling.output_scale
    gain = gain * 2.0**shift_o
    n = norm(gain)
    c, c_shift = offset32((scaling.bias / scaling.output_scale + scaling.output_zero) * 2.0**n)
    return Affine(int16(gain * 2.0**n), c, n, c_shift=c_shift)


def requantize_per_channel(
    scaling: LayerScaling, shift_o: int, largest_sums: Array
) -> tuple[Affine, Affine]:
    """Open: a mantissa per channel first, then its power of two and the offset.

    Every channel keeps its full precision, however far apart the scales are. Between the
    stages a value uses the 16 bits as far as the channel's sums allow.
    """
    gain = scaling.input_scale * scaling.weight_scales / scaling.output_scale * 2.0**shift_o
    gain = np.maximum(gain, 2.0**-MAX_SHIFT)  # a dead channel still needs an exponent
    exponent = np.floor(np.log2(gain)).astype(np.int64)  # gain / 2**exponent lies in [1, 2)
    doubled = largest_sums / 2.0**shift_o * gain / 2.0**exponent
    exponent = exponent + (doubled > INT16_MAX)
    exponent = np.maximum(exponent, int(exponent.max()) - 14)  # the power must stay >= 1
    total = 14 - int(exponent.max())
    mul = Affine(int16(gain * 2.0 ** (14 - exponent)), np.zeros(1, np.int64), 14)
    offset = scaling.bias / scaling.output_scale + scaling.output_zero
    powers = int16(2.0 ** (total + exponent.astype(np.float64)))
    c, c_shift = offset32(offset * 2.0**total, rounding=0.5)
    return mul, Affine(powers, c, total, c_shift=c_shift)


class AddNumbers(Struct, frozen=True):
    """Coefficients of a residual addition on one ARITH unit."""

    a: int
    b: int
    c: int
    shift: int
    ax_shift: int
    by_shift: int
    c_shift: int


def residual_add(
    x: tuple[float, int], y: tuple[float, int], out: tuple[float, int], sign: int = 1
) -> AddNumbers:
    """(scale, zero point) of both operands and of the result; sign -1 subtracts y."""
    ratio_x, ratio_y = x[0] / out[0], y[0] / out[0]
    # Beyond the coefficients one step of an operand leaves the byte; what cancels still cancels.
    excess = max(1.0, ratio_x / INT16_MAX, ratio_y / INT16_MAX)
    ratio_x, ratio_y = ratio_x / excess, ratio_y / excess
    n_x, n_y = norm(ratio_x), norm(ratio_y)
    shift = min(n_x, n_y)
    n_x, n_y = min(n_x, shift + MAX_SHIFT), min(n_y, shift + MAX_SHIFT)
    offset = (out[1] - ratio_x * x[1] - sign * ratio_y * y[1]) * 2.0**shift
    c_shift = max(0, ceil(log2((abs(offset) + 1) / INT16_MAX)))
    return AddNumbers(
        a=int(int16(ratio_x * 2.0**n_x)),
        b=sign * int(int16(ratio_y * 2.0**n_y)),
        c=int(int16(offset / 2.0**c_shift)),
        shift=shift,
        ax_shift=n_x - shift,
        by_shift=n_y - shift,
        c_shift=c_shift,
    )


def requantize_value(
    source: tuple[float, int], out: tuple[float, int], fraction_bits: int = 0
) -> Affine:
    """One tensor to another scale; `fraction_bits` is what the source carries below its LSB."""
    # Beyond the largest coefficient one step of the source leaves the byte, however far.
    ratio = min(source[0] / out[0], float(INT16_MAX))
    n = norm(ratio)
    c, c_shift = offset32((out[1] - source[1] * ratio) * 2.0**n)
    return Affine(int16(ratio * 2.0**n).reshape(1), c, n, fraction_bits, c_shift)


def average_multiplier(count: int) -> tuple[int, int]:
    """Reciprocal of the window in 16 bits, and the shift that leaves 8 fraction bits."""
    k = 0
    while round(2.0**k / count) < 16384:
        k += 1
    return round(2.0**k / count), k - 8
