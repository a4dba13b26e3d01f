"""Functions of the circle and the hyperbola in float32, made of those in real_math.

The C kernels (firmware/kernels/math_circle_float.c) compute these operation by operation. Largest
errors found, in units of the last place: acos and atanh 1.3, acosh 2.1, asin 2.4, atan 2.6,
cosh 3, tan 3.3, asinh and sinh 3.7.
"""

from __future__ import annotations

import numpy as np

from npuscope.ops.kernels.real_math import cos, exp, in_blocks, log, log1p_fraction, polynomial, sin
from npuscope.ops.kernels.step import Array

# Coefficients from the constant on, of (f(x) - x) / x**3 in x * x; minimax up to the borders.
_ATAN = (-0.33333316, 0.19998465, -0.14243422, 0.10592943, -0.06075908)
_ASIN = (0.1666666, 0.07500504, 0.044516955, 0.031807717, 0.014438605, 0.03751645)
_SINH = (0.16666667, 0.00833335, 0.0001983616, 2.8169513e-06)
_ASINH = (-0.16666666, 0.07499889, -0.04461325, 0.030012948, -0.01997997, 0.009167694)
_ATANH = (0.33333337, 0.19999728, 0.14294852, 0.10967182, 0.10282685, 0.02452207, 0.17594236)
_PI, _HALF_PI, _QUARTER_PI = np.float32(3.1415927), np.float32(1.5707964), np.float32(0.7853982)
_EIGHTH, _THREE_EIGHTHS = np.float32(0.41421357), np.float32(2.4142137)  # tangents of pi / 8, 3 / 8
_LN2 = np.float32(0.6931472)
_ONE, _HALF = np.float32(1), np.float32(0.5)
_FAR = np.float32(4096)  # from here on x * x + 1 is x * x


def _odd(x: Array, coefficients: tuple[float, ...]) -> Array:
    z = x * x
    return np.asarray(x + x * (z * polynomial(z, coefficients)))


@in_blocks
def tan(x: Array) -> Array:
    return np.asarray(sin(x) / cos(x))


@in_blocks
def atan(x: Array) -> Array:
    size = np.abs(x)
    middle, outer = size > _EIGHTH, size > _THREE_EIGHTHS
    inner = np.where(middle, (size - _ONE) / (size + _ONE), size)
    start = np.where(outer, _HALF_PI, np.where(middle, _QUARTER_PI, np.float32(0)))
    value = start + _odd(np.where(outer, -_ONE / size, inner), _ATAN)
    return np.asarray(np.copysign(value, x))


def _acos_from_end(size: Array) -> Array:
    """acos(size) for size from 1/2 to 1."""
    half = _odd(np.sqrt((_ONE - size) * _HALF), _ASIN)
    return np.asarray(half + half)


@in_blocks
def asin(x: Array) -> Array:
    size = np.abs(x)
    value = np.where(size > _HALF, _HALF_PI - _acos_from_end(size), _odd(size, _ASIN))
    return np.copysign(value, x)


@in_blocks
def acos(x: Array) -> Array:
    end = _acos_from_end(np.abs(x))
    far = np.where(x < 0, _PI - end, end)
    return np.where(np.abs(x) > _HALF, far, _HALF_PI - _odd(x, _ASIN))


def _grown(size: Array) -> tuple[Array, Array]:
    """exp(size) / 2 and exp(-size) / 2; in two steps, as exp(size) overflows first."""
    root = exp(size * _HALF)
    return _HALF * root * root, _HALF / root / root


@in_blocks
def sinh(x: Array) -> Array:
    size = np.abs(x)
    grown, shrunk = _grown(size)
    return np.copysign(np.where(size < _ONE, _odd(size, _SINH), grown - shrunk), x)


@in_blocks
def cosh(x: Array) -> Array:
    grown, shrunk = _grown(np.abs(x))
    return np.asarray(grown + shrunk)


@in_blocks
def asinh(x: Array) -> Array:
    size = np.abs(x)
    value = log(size + np.sqrt(size * size + _ONE))
    value = np.where(size < _FAR, value, log(size) + _LN2)
    return np.copysign(np.where(size < _HALF, _odd(size, _ASINH), value), x)


@in_blocks
def acosh(x: Array) -> Array:
    above = x - _ONE
    near = log1p_fraction(above + np.sqrt(above * (above + np.float32(2))))
    value = log(x + np.sqrt(above * (x + _ONE)))
    value = np.where(x < _FAR, value, log(x) + _LN2)
    value = np.where(x < np.float32(1.25), near, value)
    return np.where(x >= _ONE, value, np.float32(np.nan))


@in_blocks
def atanh(x: Array) -> Array:
    size = np.abs(x)
    value = _HALF * log((_ONE + size) / (_ONE - size))
    return np.copysign(np.where(size < _HALF, _odd(size, _ATANH), value), x)
