"""Functions of one byte as the ACTIV unit computes them: a quadratic a segment, from two tables.

ROM0 tells for each outer segment where its rows begin; ROM1 holds the rows (A, B, C). Here every
outer segment has one row of its own, so 32 segments of eight values each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

OUTER_BITS = 5
SEGMENT = 256 >> OUTER_BITS
INT16_LIMIT = 32767
_SHIFTS = range(14, 5, -1)  # finest first


@dataclass(frozen=True, slots=True)
class FunctionTable:
    """y = (A*x*x + (B << shift_b)*x + (C << shift_c)) >> shift_o, row by segment of x."""

    rom0: Array
    rom1: Array  # (segments, 3) int16
    shift_b: int
    shift_c: int
    shift_o: int
    bwidth: int = OUTER_BITS


def fit_function(outputs: Array) -> FunctionTable:
    """A table for the bytes `outputs`, given for x = -128 .. 127."""
    x = np.arange(-128, 128, dtype=np.float64).reshape(-1, SEGMENT)
    y = outputs.astype(np.float64).reshape(-1, SEGMENT)
    rows = _fit_segments(x, y)
    for shift_o in _SHIFTS:
        table = _quantized(rows, shift_o)
        if table is not None:
            return table
    raise ArithmeticError("no table holds the function")  # bytes always fit with few bits


def _fit_segments(x: Array, y: Array) -> Array:
    """(A, B, C) a segment: a straight line where it is good enough, else a parabola."""
    lines = _least_squares(x, y, 1)
    curves = _least_squares(x, y, 2)
    error = np.abs(np.einsum("sp,sip->si", lines, _powers(x)) - y).max(axis=1, keepdims=True)
    return np.asarray(np.where(error < 0.5, lines, curves))


def _powers(x: Array) -> Array:
    return np.stack([x * x, x, np.ones_like(x)], axis=-1)


def _least_squares(x: Array, y: Array, degree: int) -> Array:
    """Polynomials about the middle of each segment, written out in powers of x."""
    middle = x.mean(axis=1, keepdims=True)
    # All segments have the same distances from their middle: one small inverse serves all.
    basis = _powers(x[:1] - middle[:1])[0][:, 2 - degree :]
    local = y @ np.linalg.pinv(basis).T
    a = local[:, :1] if degree == 2 else np.zeros_like(middle)
    b, c = local[:, -2:-1], local[:, -1:]
    return np.hstack([a, b - 2 * a * middle, a * middle**2 - b * middle + c])


def _quantized(rows: Array, shift_o: int) -> FunctionTable | None:
    """Coefficients in 16 bits at `shift_o` fraction bits, or None where they do not fit."""
    scaled = rows * 2.0**shift_o
    shifts = [_needed_shift(column) for column in scaled.T]
    if shifts[0] > 0:
        return None  # A has no shift of its own
    rom1 = np.rint(scaled / 2.0 ** np.array([0, shifts[1], shifts[2]])).astype(np.int16)
    rom0 = np.arange(len(rows), dtype=np.uint8)
    return FunctionTable(rom0, rom1, shifts[1], shifts[2], shift_o)


def _needed_shift(column: Array) -> int:
    largest = float(np.abs(column).max())
    shift = 0
    while largest / 2**shift > INT16_LIMIT:
        shift += 1
    return shift


def evaluate(table: FunctionTable) -> Array:
    """The bytes that the unit makes of x = -128 .. 127 (half away from zero, saturated)."""
    x = np.arange(-128, 128, dtype=np.int64)
    a, b, c = table.rom1.astype(np.int64)[(x + 128) >> (8 - table.bwidth)].T
    value = a * x * x + (b << table.shift_b) * x + (c << table.shift_c)
    half = 1 << (table.shift_o - 1)
    rounded = np.sign(value) * ((np.abs(value) + half) >> table.shift_o)
    return np.asarray(np.clip(rounded, -128, 127), np.int8)
