"""Activation, pooling and decompression units."""

from __future__ import annotations

import numpy as np

from npuscope.errors import TargetError
from npuscope.program.modes import ActivOp, PoolOp
from npuscope.program.units import Activ, Decun, PoolUnit, Ref
from npuscope.sim.arithmetic.streams import (
    ANY_FRAME,
    Stream,
    Take,
    Wide,
    Words,
    extend,
    floor_shift,
    limits,
    narrow,
    refuse_fields,
    refuse_operation,
    round_shift,
)
from npuscope.sim.memory import Bytes, Memory

# Activation unit: ReLU kinds, and a piecewise quadratic function on 8-bit values.

_ROM1_ROW = 3  # A, B and C, 16 bits each


def run_activ(unit: Activ, memory: Memory) -> Stream:
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


# Pooling unit: a sliding window, or the whole frame at once, channel by channel.


def run_pool(unit: PoolUnit) -> Stream:
    """Frames of inputX x inputY x batchSize, channels interleaved."""
    _check(unit)
    while True:
        words = yield Take(0, unit.inputY * unit.inputX * unit.batchSize)
        image = extend(words, unit.inbytes_f).reshape(unit.inputY, unit.inputX, unit.batchSize)
        yield _finish_window(unit, _pool(unit, _crop(unit, image.astype(np.int64))))


def _pool(unit: PoolUnit, image: Wide) -> Wide:
    if not unit.is_global:
        return _combine(unit, _taps(unit, _pad(unit, image)))
    pixels = image.reshape(-1, unit.batchSize)
    reductions = {PoolOp.GAVG: np.add, PoolOp.GMAX: np.maximum, PoolOp.GMIN: np.minimum}
    total: Wide = reductions[PoolOp(unit.operation)].reduce(pixels, axis=0)
    return total


def _combine(unit: PoolUnit, taps: list[Wide]) -> Wide:
    """Tap by tap, which is faster than a view of all windows."""
    total = taps[0].copy()
    for tap in taps[1:]:
        if unit.operation == PoolOp.MAX:
            np.maximum(total, tap, out=total)
        elif unit.operation == PoolOp.MIN:
            np.minimum(total, tap, out=total)
        else:
            total += tap
    return total


def _taps(unit: PoolUnit, image: Wide) -> list[Wide]:
    """One array a window position, each of outputY x outputX."""
    _check_fits(unit, image.shape)
    rows = (unit.outputY - 1) * unit.strideY + 1
    columns = (unit.outputX - 1) * unit.strideX + 1
    return [
        image[y : y + rows : unit.strideY, x : x + columns : unit.strideX]
        for y in range(unit.poolWinY)
        for x in range(unit.poolWinX)
    ]


def _check_fits(unit: PoolUnit, found: tuple[int, ...]) -> None:
    rows = (unit.outputY - 1) * unit.strideY + unit.poolWinY
    columns = (unit.outputX - 1) * unit.strideX + unit.poolWinX
    if rows > found[0] or columns > found[1]:
        raise TargetError(
            f"POOL {unit.id}: {unit.outputY}x{unit.outputX} outputs need {rows}x{columns} "
            f"inputs, found {found[0]}x{found[1]}"
        )


def _crop(unit: PoolUnit, image: Wide) -> Wide:
    """Bounds are inclusive; the driver's zero for bottom and right crops nothing."""
    bottom = unit.bottomCrop or unit.inputY - 1
    right = unit.rightCrop or unit.inputX - 1
    return image[unit.topCrop : bottom + 1, unit.leftCrop : right + 1]


def _pad(unit: PoolUnit, image: Wide) -> Wide:
    rows, columns = (unit.topPad, unit.bottomPad), (unit.leftPad, unit.rightPad)
    if not any(rows + columns):
        return image
    return np.pad(image, (rows, columns, (0, 0)), constant_values=_pad_value(unit))


def _pad_value(unit: PoolUnit) -> int:
    """Without a value of its own, a padded position never wins and adds nothing."""
    if unit.pad_val_en:
        return unit.pad_val
    low, high = limits(unit.inbytes_f)
    return {PoolOp.MAX: low, PoolOp.MIN: high}.get(PoolOp(unit.operation), 0)


def _finish_window(unit: PoolUnit, value: Wide) -> Words:
    """Averages are sums times mulval; outputX and outputY of a global pool are not looked at."""
    if unit.operation in (PoolOp.AVG, PoolOp.GAVG):
        value = value * unit.mulval
    shift = round_shift if unit.rounding_o else floor_shift
    return narrow(shift(value, unit.shift_o), unit.outbytes_o, unit.saturation_o).reshape(-1)


def _check(unit: PoolUnit) -> None:
    refuse_fields(unit, "shift_f", "relu_mode_o")
    pads = unit.topPad or unit.bottomPad or unit.leftPad or unit.rightPad
    if unit.operation == PoolOp.AVG and unit.avgnopad and pads:
        refuse_fields(unit, "avgnopad")


# Decompression unit: known by its registers only.


def refuse(unit: Decun) -> TargetError:
    return TargetError(
        "not executed: semantics of DECUN are not known",
        where=f"DECUN {unit.id}",
        hint="compile the network without weight compression",
    )
