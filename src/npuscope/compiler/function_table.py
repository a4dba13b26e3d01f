"""Functions of one byte on the ACTIV unit: one quadratic per segment, from two tables.

ROM0 states for each outer segment where its rows begin and into how many parts it is cut; ROM1
holds the rows (A, B, C). Smooth functions have one row for each of 32 segments of eight values;
steep ones are cut further where they need it, and segments that are alike share their rows.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from msgspec import Struct

from npuscope.structs import replace

Array = np.ndarray
OUTER_BITS = 5
SEGMENT = 256 >> OUTER_BITS
INT16_LIMIT = 32767
_SHIFTS = range(14, 5, -1)  # finest first
_MOST_ROWS = 64  # six bits of a ROM0 entry number the first row
_PARTS = 3  # bits: up to eight parts of a segment, one for each value


class FunctionTable(Struct, frozen=True):
    """y = (A*x*x + (B << shift_b)*x + (C << shift_c)) >> shift_o, row by segment of x."""

    rom0: Array
    rom1: Array  # (segments, 3) int16
    shift_b: int
    shift_c: int
    shift_o: int
    bwidth: int = OUTER_BITS


def fit_function(outputs: Array) -> FunctionTable | None:
    """A table for the bytes `outputs`, given for x = -128 .. 127, that meets each within one step;
    None where the rows do not suffice."""
    table = _smooth(outputs)
    if table is not None and np.abs(evaluate(table) - outputs.astype(np.int64)).max() <= 1:
        return table
    tables = (_steep(outputs, tolerance) for tolerance in (0, 1))
    return next((table for table in tables if table is not None), None)


# --- Smooth functions: one row for each segment ---


def _smooth(outputs: Array) -> FunctionTable | None:
    # (A, B, C) per segment: a straight line where it is good enough, else a parabola.
    y = outputs.astype(np.float64).reshape(-1, SEGMENT)
    powers, middle = _inputs()
    rows = _least_squares(middle, y, 1)
    curves = _least_squares(middle, y, 2)
    error = np.abs(np.einsum("sp,sip->si", rows, powers) - y).max(axis=1)
    rows[error >= 0.5] = curves[error >= 0.5]
    largest = np.abs(rows).max(axis=0).tolist()
    for shift_o in _SHIFTS:
        shifts = [_needed_shift(value * 2.0**shift_o) for value in largest]
        if not shifts[0]:  # A has no shift of its own
            # Coefficients in 16 bits at `shift_o` fraction bits, B and C with shifts of their own.
            rom1 = np.rint(rows * 2.0**shift_o / 2.0 ** np.array(shifts)).astype(np.int16)
            rom0 = np.arange(len(rows), dtype=np.uint8)
            return FunctionTable(rom0, rom1, shifts[1], shifts[2], shift_o)
    return None


@cache
def _inputs() -> tuple[Array, Array]:
    """x = -128 .. 127 by segment: its powers, and the middles."""
    x = np.arange(-128, 128, dtype=np.float64).reshape(-1, SEGMENT)
    return _powers(x), x.mean(axis=1)


def _powers(x: Array) -> Array:
    return np.stack([x * x, x, np.ones_like(x)], axis=-1)


def _least_squares(middle: Array, y: Array, degree: int) -> Array:
    """Polynomials about the middle of each segment, written out in powers of x."""
    local = y @ _inverse(degree).T
    polynomials = np.zeros((len(y), 3))
    b, c = local[:, -2], local[:, -1]
    if degree == 2:
        a = polynomials[:, 0] = local[:, 0]
        polynomials[:, 1] = b - 2 * a * middle
        polynomials[:, 2] = a * middle**2 - b * middle + c
    else:
        polynomials[:, 1], polynomials[:, 2] = b, c - b * middle
    return polynomials


@cache
def _inverse(degree: int) -> Array:
    """All segments have the same distances from their middle: one small inverse serves all."""
    first = np.arange(SEGMENT, dtype=np.float64)
    basis = _powers(first - first.mean())[:, 2 - degree :]
    return np.asarray(np.linalg.pinv(basis))


def _needed_shift(largest: float) -> int:
    shift = 0
    while largest / 2**shift > INT16_LIMIT:
        shift += 1
    return shift


# --- Steep functions: as many rows for a segment as it needs, down to one for each value ---

_STEEP = FunctionTable(np.empty(0), np.empty(0), shift_b=4, shift_c=12, shift_o=14)
Row = tuple[int, int, int]


def _steep(outputs: Array, tolerance: int) -> FunctionTable | None:
    """Slopes of up to 32, finer than half a step; what is steeper is cut into its values."""
    starts: dict[tuple[Row, ...], int] = {}
    entries: list[tuple[int, int]] = []
    count = 0
    for first in range(0, 256, SEGMENT):
        rows = _segment(first - 128, outputs[first : first + SEGMENT].astype(np.int64), tolerance)
        if rows not in starts:
            starts[rows], count = count, count + len(rows)
        entries.append((len(rows).bit_length() - 1, starts[rows]))
    if count > _MOST_ROWS:
        return None
    rom0 = np.array([bits << 6 | start for bits, start in entries], np.uint8)
    rom1 = np.array([row for rows in starts for row in rows], np.int16)
    return replace(_STEEP, rom0=rom0, rom1=rom1)


def _segment(first: int, y: Array, tolerance: int) -> tuple[Row, ...]:
    """The fewest rows, for parts of equal length, that meet the bytes of a segment."""
    x = np.arange(first, first + SEGMENT)
    for size in (SEGMENT >> bits for bits in range(_PARTS)):
        parts = (slice(start, start + size) for start in range(0, SEGMENT, size))
        rows = [_row(x[part], y[part], tolerance) for part in parts]
        fitting = tuple(row for row in rows if row is not None)
        if len(fitting) == len(rows):
            return fitting
    return tuple(map(_flat, y))


def _flat(value: int) -> Row:
    return 0, 0, int(value) << _STEEP.shift_o - _STEEP.shift_c


def _row(x: Array, y: Array, tolerance: int) -> Row | None:
    """The simplest polynomial that is good enough in 16-bit coefficients."""
    if (y == y[0]).all():
        return _flat(y[0])
    units = 2.0 ** (np.array([0, _STEEP.shift_b, _STEEP.shift_c]) - _STEEP.shift_o)
    for degree in range(min(3, len(x))):
        polynomial = np.zeros(3)
        polynomial[2 - degree :] = np.polyfit(x, y, degree)
        row = np.rint(polynomial / units).astype(np.int64)
        if np.abs(row).max() > INT16_LIMIT:
            continue
        if np.abs(_bytes(_STEEP, np.tile(row, (len(x), 1)), x) - y).max() <= tolerance:
            return int(row[0]), int(row[1]), int(row[2])
    return None


# --- What the unit makes of a table ---

_PLACES = np.arange(256)
_X = _PLACES - 128


def evaluate(table: FunctionTable) -> Array:
    """The bytes that the unit makes of x = -128 .. 127."""
    rest_bits = 8 - table.bwidth
    entry = table.rom0.astype(np.int64)[_PLACES >> rest_bits]
    part = (_PLACES & (1 << rest_bits) - 1) >> rest_bits - (entry >> 6)
    rows = table.rom1.astype(np.int64)[(entry & _MOST_ROWS - 1) + part]
    return _bytes(table, rows, _X).astype(np.int8)


def _bytes(table: FunctionTable, rows: Array, x: Array) -> Array:
    """Half away from zero, saturated."""
    a, b, c = rows.T
    value = a * x * x + (b << table.shift_b) * x + (c << table.shift_c)
    half = 1 << (table.shift_o - 1)
    rounded = np.sign(value) * ((np.abs(value) + half) >> table.shift_o)
    return np.asarray(rounded.clip(-128, 127))
