"""Pooling unit: a sliding window, or the whole frame at once, channel by channel."""

from __future__ import annotations

import numpy as np

from npuscope.errors import TargetError
from npuscope.program.modes import PoolOp
from npuscope.program.units import Pool
from npuscope.sim.arithmetic.rounding import floor_shift, limits, narrow, round_shift
from npuscope.sim.arithmetic.words import Stream, Take, Wide, Words, extend, refuse_fields


def run(unit: Pool) -> Stream:
    """Frames of inputX x inputY x batchSize, channels interleaved."""
    _check(unit)
    while True:
        words = yield Take(0, unit.inputY * unit.inputX * unit.batchSize)
        image = extend(words, unit.inbytes_f).reshape(unit.inputY, unit.inputX, unit.batchSize)
        yield _finish(unit, _pool(unit, _crop(unit, image.astype(np.int64))))


def _pool(unit: Pool, image: Wide) -> Wide:
    if not unit.is_global:
        return _combine(unit, _taps(unit, _pad(unit, image)))
    pixels = image.reshape(-1, unit.batchSize)
    reductions = {PoolOp.GAVG: np.add, PoolOp.GMAX: np.maximum, PoolOp.GMIN: np.minimum}
    total: Wide = reductions[PoolOp(unit.operation)].reduce(pixels, axis=0)
    return total


def _combine(unit: Pool, taps: list[Wide]) -> Wide:
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


def _taps(unit: Pool, image: Wide) -> list[Wide]:
    """One array a window position, each of outputY x outputX."""
    _check_fits(unit, image.shape)
    rows = (unit.outputY - 1) * unit.strideY + 1
    columns = (unit.outputX - 1) * unit.strideX + 1
    return [
        image[y : y + rows : unit.strideY, x : x + columns : unit.strideX]
        for y in range(unit.poolWinY)
        for x in range(unit.poolWinX)
    ]


def _check_fits(unit: Pool, found: tuple[int, ...]) -> None:
    rows = (unit.outputY - 1) * unit.strideY + unit.poolWinY
    columns = (unit.outputX - 1) * unit.strideX + unit.poolWinX
    if rows > found[0] or columns > found[1]:
        raise TargetError(
            f"POOL {unit.id}: {unit.outputY}x{unit.outputX} outputs need {rows}x{columns} "
            f"inputs, found {found[0]}x{found[1]}"
        )


def _crop(unit: Pool, image: Wide) -> Wide:
    """Bounds are inclusive; the driver's zero for bottom and right crops nothing."""
    bottom = unit.bottomCrop or unit.inputY - 1
    right = unit.rightCrop or unit.inputX - 1
    return image[unit.topCrop : bottom + 1, unit.leftCrop : right + 1]


def _pad(unit: Pool, image: Wide) -> Wide:
    rows, columns = (unit.topPad, unit.bottomPad), (unit.leftPad, unit.rightPad)
    if not any(rows + columns):
        return image
    return np.pad(image, (rows, columns, (0, 0)), constant_values=_pad_value(unit))


def _pad_value(unit: Pool) -> int:
    """Without a value of its own, a padded position never wins and adds nothing."""
    if unit.pad_val_en:
        return unit.pad_val
    low, high = limits(unit.inbytes_f)
    return {PoolOp.MAX: low, PoolOp.MIN: high}.get(PoolOp(unit.operation), 0)


def _finish(unit: Pool, value: Wide) -> Words:
    """Averages are sums times mulval; outputX and outputY of a global pool are not looked at."""
    if unit.operation in (PoolOp.AVG, PoolOp.GAVG):
        value = value * unit.mulval
    shift = round_shift if unit.rounding_o else floor_shift
    return narrow(shift(value, unit.shift_o), unit.outbytes_o, unit.saturation_o).reshape(-1)


def _check(unit: Pool) -> None:
    refuse_fields(unit, "shift_f", "relu_mode_o")
    pads = unit.topPad or unit.bottomPad or unit.leftPad or unit.rightPad
    if unit.operation == PoolOp.AVG and unit.avgnopad and pads:
        refuse_fields(unit, "avgnopad")
