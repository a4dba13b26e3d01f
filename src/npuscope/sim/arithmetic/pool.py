"""Pooling unit: a sliding window, or the whole frame at once, channel by channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.errors import TargetError
from npuscope.program.modes import PoolOp
from npuscope.program.units import PoolUnit
from npuscope.sim.arithmetic.streams import (
    Stream,
    Take,
    Wide,
    Words,
    extend,
    floor_shift,
    limits,
    narrow,
    refuse_fields,
    room,
    round_shift,
    shift_peak,
    word_peak,
)


def run_pool(unit: PoolUnit) -> Stream:
    """Frames of inputX x inputY x batchSize, channels interleaved."""
    check_pool(unit)
    while True:
        yield pool((yield Take(0, pool_words(unit)))[None], unit).reshape(-1)


def pool_words(unit: PoolUnit) -> int:
    return unit.inputY * unit.inputX * unit.batchSize


def pool(frames: Words, unit: PoolUnit) -> Words:
    """Frames of output for frames (frames, ...) of input."""
    shape = len(frames), unit.inputY, unit.inputX, unit.batchSize
    image = extend(frames, unit.inbytes_f).reshape(shape).astype(_pool_room(unit))
    return _finish_window(unit, _pool(unit, _crop(unit, image)))


def _pool_room(unit: PoolUnit) -> np.dtype[np.signedinteger[Any]]:
    peak = max(word_peak(unit.inbytes_f), abs(unit.pad_val))
    if unit.operation in (PoolOp.AVG, PoolOp.GAVG):
        taps = unit.inputY * unit.inputX if unit.is_global else unit.poolWinX * unit.poolWinY
        peak *= taps * max(1, abs(unit.mulval))
    return room(shift_peak(peak, unit.shift_o))


def _pool(unit: PoolUnit, image: Wide) -> Wide:
    if not unit.is_global:
        return _combine(unit, _taps(unit, _pad(unit, image)))
    reductions = {PoolOp.GAVG: np.add, PoolOp.GMAX: np.maximum, PoolOp.GMIN: np.minimum}
    reduction = reductions[PoolOp(unit.operation)]
    total: Wide = reduction.reduce(image, axis=(1, 2), dtype=image.dtype)
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
    """One array per window position, each of outputY x outputX."""
    _check_fits(unit, image.shape[1:])
    rows = (unit.outputY - 1) * unit.strideY + 1
    columns = (unit.outputX - 1) * unit.strideX + 1
    return [
        image[:, y : y + rows : unit.strideY, x : x + columns : unit.strideX]
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
    return image[:, unit.topCrop : bottom + 1, unit.leftCrop : right + 1]


def _pad(unit: PoolUnit, image: Wide) -> Wide:
    rows, columns = (unit.topPad, unit.bottomPad), (unit.leftPad, unit.rightPad)
    if not any(rows + columns):
        return image
    frames, height, width, depth = image.shape
    shape = height + sum(rows), width + sum(columns), frames, depth
    padded = np.full(shape, _pad_value(unit), image.dtype).transpose(2, 0, 1, 3)
    padded[:, rows[0] : rows[0] + height, columns[0] : columns[0] + width] = image
    return padded


def _pad_value(unit: PoolUnit) -> int:
    """Without a value of its own, a padded position never wins and adds nothing."""
    if unit.pad_val_en:
        return unit.pad_val
    low, high = limits(unit.inbytes_f)
    return {PoolOp.MAX: low, PoolOp.MIN: high}.get(PoolOp(unit.operation), 0)


def _finish_window(unit: PoolUnit, value: Wide) -> Words:
    """Averages are sums times mulval; a global pool ignores outputX and outputY."""
    if unit.operation in (PoolOp.AVG, PoolOp.GAVG):
        value = value * unit.mulval
    shift = round_shift if unit.rounding_o else floor_shift
    return narrow(shift(value, unit.shift_o), unit.outbytes_o, unit.saturation_o)


def check_pool(unit: PoolUnit) -> None:
    refuse_fields(unit, "shift_f", "relu_mode_o")
    pads = unit.topPad or unit.bottomPad or unit.leftPad or unit.rightPad
    if unit.operation == PoolOp.AVG and unit.avgnopad and pads:
        refuse_fields(unit, "avgnopad")
