"""Rounding and narrowing of results.

Every unit module binds `round_shift` to a name of its own, so a test can swap the rule of one
unit and see whether the silicon digests still hold.
"""

from __future__ import annotations

import numpy as np

from npuscope.sim.arithmetic.words import Wide, Words


def round_shift(value: Wide, shift: int) -> Wide:
    """value / 2^shift, ties away from zero: the rule silicon shows for round_mode 1."""
    if shift <= 0:
        return value << -shift
    # A negative value is moved by one, so that its tie falls below the floor of the shift.
    return (value + (1 << (shift - 1)) + (value >> 63)) >> shift


def floor_shift(value: Wide, shift: int) -> Wide:
    """Arithmetic shift right: what a unit does with rounding off."""
    return value >> shift if shift >= 0 else value << -shift


def half_even_shift(value: Wide, shift: int) -> Wide:
    """Ties to even. No unit uses it; mutation tests do."""
    if shift <= 0:
        return value << -shift
    return (value + (1 << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift


def limits(nbytes: int) -> tuple[int, int]:
    """Smallest and largest signed value of a word of `nbytes`."""
    half = 1 << (8 * nbytes - 1)
    return -half, half - 1


def narrow(value: Wide, nbytes: int, saturate: int) -> Words:
    """Clip to a signed word, or keep the low bits when saturation is off."""
    if saturate:
        low, high = limits(nbytes)
        return np.clip(value, low, high).astype(np.int32)
    unused = 64 - 8 * nbytes
    return ((value << unused) >> unused).astype(np.int32)
