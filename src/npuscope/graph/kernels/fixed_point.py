"""gemmlowp's fixed-point functions on raw int64 arrays: exp of negatives, 1 / (1 + x), roots.

LiteRT's softmax is built from them. Raw values are 32-bit: a format with `n` integer bits counts
in units of 2**(n - 31).
"""

from __future__ import annotations

import numpy as np

from npuscope.graph.kernels.requantize import Multipliers, rounding_shift
from npuscope.graph.kernels.step import Array

ONE = 2**31 - 1  # 1.0 without integer bits, as near as it gets

_EXP_OF_EIGHTH = 1895147668  # exp(-1/8)
_THIRD = 715827883
_EIGHTH = 1 << 28
# exp(-2**k) for k = -2 ... 4
_EXP_OF_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
_48_OVER_17 = 1515870810  # two integer bits
_MINUS_32_OVER_17 = -1010580540
_ONE_TWO_BITS = 1 << 29
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
    result = _exp_of_quarter(part << integer_bits)
    for power, factor in zip(range(-2, integer_bits), _EXP_OF_POWERS, strict=False):
        has_bit = (rest >> (fraction_bits + power)) & 1 == 1
        result = np.where(has_bit, times(result, factor), result)
    return np.where(values == 0, ONE, result)


def _exp_of_quarter(values: Array) -> Array:
    """exp on [-1/4, 0): the Taylor polynomial of degree 4 around -1/8."""
    x = values + _EIGHTH
    x2 = times(x, x)
    x3 = times(x2, x)
    x4 = times(x2, x2)
    cubic = times(rounding_shift(x4, 2) + x3, _THIRD)  # x**4 / 12 + x**3 / 3
    tail = rounding_shift(cubic + x2, 1)
    return _EXP_OF_EIGHTH + times(x + tail, _EXP_OF_EIGHTH)


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
