"""How the NPU scales and rounds.

DOUBLE is gemmlowp's rule, as LiteRT computes: the product is first brought to 31 fractional bits,
half up, and the rest is shifted out, half away from zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.families.ethos_u.jobs import NpuRounding, Scale

Array = np.ndarray[Any, np.dtype[Any]]
_HIGH = 31


def scaled(values: Array, scale: Scale) -> Array:
    return rescaled(
        values << scale.double_shift, scale.scale, scale.shift + scale.double_shift, scale.rounding
    )


def rescaled(
    values: Array, factor: Array | int, shift: Array | int, rounding: NpuRounding
) -> Array:
    """values * factor / 2**shift; factors and shifts may differ by channel."""
    product: Any = np.multiply(values, factor, dtype=np.int64)
    bits = np.asarray(shift, np.int64)
    half = np.left_shift(np.int64(1), bits) >> 1
    result: Array
    if rounding is NpuRounding.DOUBLE:
        first = np.minimum(bits, _HIGH)
        product += np.left_shift(np.int64(1), first) >> 1
        product >>= first
        result = half_away(product, bits - first)
    elif rounding is NpuRounding.NATURAL:
        result = product + half >> bits
    elif rounding is NpuRounding.DOUBLE_ASYMMETRIC:
        extra = np.where(bits > _HIGH, 1 << _HIGH - 1, 0)
        result = product + half + np.where(product < 0, -extra, extra) >> bits
    elif rounding is NpuRounding.SYMMETRIC:
        result = half_away(product, bits)
    elif rounding is NpuRounding.TO_ZERO:
        result = product + np.where(product < 0, np.left_shift(np.int64(1), bits) - 1, 0) >> bits
    else:
        result = product >> bits
    return result


def half_away(values: Array, bits: Array | int) -> Array:
    """values / 2**bits, ties away from zero."""
    half = np.left_shift(np.int64(1), bits) >> 1
    result: Array = values + half
    result -= (values < 0) & (half > 0)
    result >>= bits
    return result
