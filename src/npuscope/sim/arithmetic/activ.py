"""Activation unit: ReLU kinds, and a piecewise quadratic function on 8-bit values."""

from __future__ import annotations

import numpy as np

from npuscope.errors import TargetError
from npuscope.program.modes import ActivOp
from npuscope.program.units import Activ, Ref
from npuscope.sim.arithmetic.rounding import floor_shift, narrow, round_shift
from npuscope.sim.arithmetic.words import (
    ANY_FRAME,
    Stream,
    Take,
    Wide,
    Words,
    extend,
    refuse_fields,
    refuse_operation,
)
from npuscope.sim.memory import Bytes, Memory

_ROM1_ROW = 3  # A, B and C, 16 bits each


def run(unit: Activ, memory: Memory) -> Stream:
    """Element by element: the unit has no geometry, frames pass as they come."""
    refuse_fields(unit, "shift_f", "relu_mode_o", "fsub")
    if unit.operation == ActivOp.FUNC:
        table = _function_table(unit, memory)
        while True:
            x = extend((yield Take(0, ANY_FRAME)), 1)
            yield table[x.astype(np.int32) + 128]
    if unit.operation not in (ActivOp.RELU, ActivOp.TRELU):
        raise refuse_operation(unit, ActivOp(unit.operation).name)
    while True:
        x = extend((yield Take(0, ANY_FRAME)), unit.inbytes_f)
        yield _finish(unit, _threshold(unit, x.astype(np.int64)))


def _threshold(unit: Activ, x: Wide) -> Wide:
    """TRELU keeps what exceeds `parameter`, the rest becomes `parameter_2`."""
    if unit.operation == ActivOp.RELU:
        return np.maximum(x, 0)
    return np.where(x > unit.parameter, x, unit.parameter_2)


def _function_table(unit: Activ, memory: Memory) -> Words:
    """The function of all 256 inputs, by x + 128."""
    if unit.inbytes_f != 1 or not unit.signedop:
        raise refuse_operation(unit, "FUNC on other than signed 8-bit values")
    x = np.arange(-128, 128, dtype=np.int64)
    a, b, c = _rows(unit, memory)[_row_numbers(unit, memory)].T
    quadratic = a * x * x + (b << unit.shift_b) * x + (c << unit.shift_c)
    return _finish(unit, quadratic)


def _row_numbers(unit: Activ, memory: Memory) -> Wide:
    """ROM0 splits the range: bits 7..6 log2 of a segment's parts, 5..0 its first row."""
    u = np.arange(256, dtype=np.int64)
    rest_bits = 8 - unit.bwidth
    rom = _rom(unit, memory, unit.ROM0_vector, unit.ROM0_nbytes).astype(np.int64)
    entry: Wide = rom[u >> rest_bits]
    parts_log2, first_row = entry >> 6, entry & 0x3F
    # A segment of fewer values than parts cannot be split further: the shift stops at 0.
    part: Wide = (u & ((1 << rest_bits) - 1)) >> np.maximum(rest_bits - parts_log2, 0)
    return first_row + part


def _rows(unit: Activ, memory: Memory) -> Wide:
    raw = _rom(unit, memory, unit.ROM1_vector, unit.ROM1_nbytes)
    return raw.view("<i2").reshape(-1, _ROM1_ROW).astype(np.int64)


def _rom(unit: Activ, memory: Memory, vector: Ref | None, nbytes: int) -> Bytes:
    if vector is None or not nbytes:
        raise TargetError(f"ACTIV {unit.id}: FUNC needs both tables")
    return memory.span(memory.address(vector), nbytes)


def _finish(unit: Activ, value: Wide) -> Words:
    shift = round_shift if unit.rounding_o else floor_shift
    return narrow(shift(value, unit.shift_o), unit.outbytes_o, unit.saturation_o)
