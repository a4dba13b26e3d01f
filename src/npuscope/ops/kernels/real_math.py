"""Functions of real numbers in float32, from sums, products and quotients alone.

Libraries disagree in the last bit, so the simulator and the C kernels (firmware/kernels/
math_float.c) both compute these, operation by operation. Largest errors found, in units of the
last place: exp, expm1 and log 1, log1p 1.1, tanh 1.3, sin and cos 1.6, erf 2.1, pow 0.51.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuscope.ops.kernels.step import Array

Function = Callable[[Array], Array]
_BLOCK = 1 << 14  # values per block: they stay in the cache over all steps

# Coefficients from the constant on; minimax on the interval that the function reduces to.
_EXP = (0.5, 0.16666667, 0.041666254, 0.008333261, 0.0013947212, 0.00019919922)
_LOG = (
    *(0.3333331, -0.24999985, 0.2000227, -0.16669364, 0.14217773),
    *(-0.12381707, 0.118774466, -0.118082404, 0.06927269),
)
_LOG1P = (0.66666675, 0.39998877, 0.28616884, 0.21427658, 0.24300933)
_TANH = (-0.3333333, 0.1333321, -0.053947203, 0.02170297, -0.008182677, 0.00214754)
_ERF = (
    *(0.12837911, -0.37612626, 0.112835854, -0.026853813),
    *(0.0051883277, -0.00080101937, 7.8538615e-05),
)
_ERF_TAIL = (
    *(5.364941, 4.418161, 0.923751, 0.016465815),
    *(-0.0035705024, 0.00073022075, -0.00013772064, 2.1686750e-05),
)
_SIN = (-0.16666654, 0.0083321314, -0.0001951084)
_COS = (0.041666646, -0.0013887306, 2.4431205e-05)
_LN2_HIGH, _LN2_LOW = np.float32(0.69314575), np.float32(1.4286068e-06)  # k * high is exact
_LOG2_E = np.float32(1.442695)
_ROOT_HALF_BITS = np.int32(0x3F3504F3)
_TINY, _TINY_BITS = np.float32(2.0**-126), 23


def in_blocks(function: Function) -> Function:
    """The function on any array, in blocks that fit the cache."""

    def whole(x: Array) -> Array:
        flat = np.ascontiguousarray(x, np.float32).reshape(-1)
        result = np.empty_like(flat)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, _BLOCK):
                result[start : start + _BLOCK] = function(flat[start : start + _BLOCK])
        return result.reshape(np.shape(x))

    return whole


def polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    result: Array = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result *= x
        result += x.dtype.type(coefficient)
    return result


def _power_of_two(exponents: Array) -> Array:
    return ((exponents + np.int32(127)) << np.int32(23)).view(np.float32)


def _exp_parts(x: Array) -> tuple[Array, Array]:
    """k and exp(r) - 1, where x = k ln 2 + r."""
    k = np.rint(x * _LOG2_E)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    return k.astype(np.int32), r * r * polynomial(r, _EXP) + r


def _exp(x: Array) -> Array:
    k, rest = _exp_parts(np.clip(x, np.float32(-104), np.float32(89)))
    half = k >> np.int32(1)  # two steps: the result may be smaller than any power of two
    return (rest + np.float32(1)) * _power_of_two(half) * _power_of_two(k - half)


@in_blocks
def expm1_below(x: Array) -> Array:
    """For x <= 0."""
    k, rest = _exp_parts(np.clip(x, np.float32(-18), np.float32(0)))
    power = _power_of_two(k)
    return rest * power + (power - np.float32(1))


def _mantissa_and_exponent(x: Array) -> tuple[Array, Array]:
    """x = m * 2**k with m between the roots of 1/2 and 2, for x > 0."""
    tiny = x < _TINY
    bits = np.where(tiny, x * np.float32(2.0**_TINY_BITS), x).view(np.int32)
    k = (bits - _ROOT_HALF_BITS) >> np.int32(23)
    m = (bits - (k << np.int32(23))).view(np.float32)
    return m, k - tiny * np.int32(_TINY_BITS)


@in_blocks
def log(x: Array) -> Array:
    m, whole = _mantissa_and_exponent(x)
    f, k = m - np.float32(1), whole.astype(np.float32)
    tail = (f * polynomial(f, _LOG) - np.float32(0.5)) * (f * f)
    result = k * _LN2_HIGH + (f + (tail + k * _LN2_LOW))
    outside = np.where(x == 0, np.float32(-np.inf), np.where(x == np.inf, x, np.float32(np.nan)))
    return np.where((x > 0) & (x < np.inf), result, outside)


@in_blocks
def log1p_fraction(x: Array) -> Array:
    """For 0 <= x <= 1."""
    s, half = x / (x + np.float32(2)), np.float32(0.5) * x * x
    z = s * s
    result: Array = x - (half - s * (half + z * polynomial(z, _LOG1P)))
    return result


@in_blocks
def tanh(x: Array) -> Array:
    size, z = np.abs(x), x * x
    near = x + x * (z * polynomial(z, _TANH))
    far = np.float32(1) - np.float32(2) / (_exp(size + size) + np.float32(1))
    return np.copysign(np.where(size < np.float32(0.625), near, far), x)


@in_blocks
def erf(x: Array) -> Array:
    """Far out it is 1 - exp(-q), q a polynomial: the error is that of a small number."""
    size, z = np.abs(x), x * x
    near = x + x * polynomial(z, _ERF)
    outer = np.minimum(size, np.float32(4)) - np.float32(2)
    far = np.float32(1) - _exp(-polynomial(outer, _ERF_TAIL))
    return np.copysign(np.where(size < np.float32(1), near, far), x)


exp = in_blocks(_exp)

# 2 / pi behind 32 zero bits: what a product with any float32 can need of it.
_TWO_OVER_PI = np.array(
    [0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB],
    np.uint64,
)
_QUARTER = 3.4061215800865545e-19  # pi / 2 / 2**62
_NO_TURN = 124  # smaller exponents are below pi / 4 and need no reduction


def _u64(value: int) -> np.uint64:
    return np.uint64(value)


def _quarters(size: Array) -> tuple[Array, Array]:
    """Quarter turns in x >= 0, modulo 4, and the remaining angle.

    The exact product with 2 / pi in whole numbers, of which only the fraction of a full turn is
    computed.
    """
    bits = size.view(np.uint32).astype(np.uint64)
    exponent = np.clip(bits >> _u64(23), _u64(_NO_TURN), _u64(254))
    mantissa = (bits & _u64(0x7FFFFF)) | _u64(0x800000)
    place = exponent - _u64(150 - 30)
    word, shift = (place >> _u64(5)).astype(np.int64), place & _u64(31)
    high = _TWO_OVER_PI[word] << _u64(32) | _TWO_OVER_PI[word + 1]
    low = _TWO_OVER_PI[word + 2] << _u64(32) | _TWO_OVER_PI[word + 3]
    upper = high << shift | (low >> _u64(1)) >> (_u64(63) - shift)
    lower = (low << shift) >> _u64(32)
    product = mantissa * upper + (mantissa * lower >> _u64(32))
    quarter = (product + _u64(1 << 61)) >> _u64(62)
    left = (product - (quarter << _u64(62))).view(np.int64)
    angle = (left.astype(np.float64) * _QUARTER).astype(np.float32)
    small = size < np.float32(2.0 ** (_NO_TURN - 127))
    return np.where(small, 0, quarter.astype(np.int32)), np.where(small, size, angle)


def _circle(size: Array, turn: int) -> Array:
    """sin(size + turn quarters)."""
    quarter, angle = _quarters(size)
    z = angle * angle
    sine = angle + angle * (z * polynomial(z, _SIN))
    cosine = (z * z * polynomial(z, _COS) - np.float32(0.5) * z) + np.float32(1)
    quarter = quarter + np.int32(turn)
    value = np.where(quarter & 1, cosine, sine)
    value = np.where(quarter & 2, -value, value)
    return np.where(size < np.inf, value, np.float32(np.nan))


@in_blocks
def sin(x: Array) -> Array:
    value = _circle(np.abs(x), 0)
    return np.where(np.signbit(x), -value, value)


@in_blocks
def cos(x: Array) -> Array:
    return _circle(np.abs(x), 1)


# Terms of the series of log2((1 + s) / (1 - s)) and of exp: double leaves room for both.
_LOG2 = tuple(2.8853900817779268 / (2 * term + 1) for term in range(9))
_EXP_SERIES = (
    *(1.0, 1.0, 0.5, 0.16666666666666666, 0.041666666666666664, 0.008333333333333333),
    *(0.001388888888888889, 0.0001984126984126984, 2.48015873015873e-05),
    *(2.7557319223985893e-06, 2.755731922398589e-07),
)
_LN2 = 0.6931471805599453


def _log2_in_double(size: Array) -> Array:
    m, k = _mantissa_and_exponent(size)
    wide = m.astype(np.float64)
    s = (wide - 1.0) / (wide + 1.0)
    result = k + s * polynomial(s * s, _LOG2)
    return np.where(size == 0, -np.inf, np.where(size < np.inf, result, size))


def _exp2_from_double(y: Array) -> Array:
    y = np.clip(y, -300.0, 300.0)
    n = np.rint(y)
    power = ((n.astype(np.int64) + 1023) << 52).view(np.float64)
    return (polynomial((y - n) * _LN2, _EXP_SERIES) * power).astype(np.float32)


def power(a: Array, b: Array) -> Array:
    """a ** b in float32, with the special values of C's pow."""
    bases, exponents = np.broadcast_arrays(a, b)
    shape = bases.shape
    bases, exponents = bases.reshape(-1), exponents.reshape(-1)
    result = np.empty(bases.size, np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, bases.size, _BLOCK):
            span = slice(start, start + _BLOCK)
            result[span] = _power(np.ascontiguousarray(bases[span]), exponents[span])
    return result.reshape(shape)


def _power(base: Array, exponent: Array) -> Array:
    value = _exp2_from_double(exponent * _log2_in_double(np.abs(base)))
    # Whole and odd; from 2**24 on all floats are even.
    inside = np.where(np.abs(exponent) < np.float32(2.0**24), exponent, np.float32(0))
    cut = inside.astype(np.int32)
    value = np.where(np.signbit(base) & np.asarray((cut == inside) & (cut & 1 == 1)), -value, value)
    broken = (base < 0) & (base > -np.inf) & (np.trunc(exponent) != exponent)
    value = np.where(broken, np.float32(np.nan), value)
    unit = (base == 1) | (exponent == 0) | ((base == -1) & np.isinf(exponent))
    return np.where(unit, np.float32(1), value)
