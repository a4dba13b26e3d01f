"""Pooling unit: a sliding window, or the whole frame at once, channel by channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.program.modes import PoolOp
from npuscope.program.unit_words import check_pool_size, pool_kept, pool_words
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


def pool(frames: Words, unit: PoolUnit) -> Words:
    """Frames of output for frames (frames, ...) of input."""
    shape = len(frames), unit.inputY, unit.inputX, unit.batchSize
    image = extend(frames, unit.inbytes_f).reshape(shape).astype(_pool_room(unit))
    rows, columns = pool_kept(unit)
    return _finish_window(unit, _pool(unit, image[:, rows, columns]))


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
    rows = (unit.outputY - 1) * unit.strideY + 1
    columns = (unit.outputX - 1) * unit.strideX + 1
    return [
        image[:, y : y + rows : unit.strideY, x : x + columns : unit.strideX]
        for y in range(unit.poolWinY)
        for x in range(unit.poolWinX)
    ]


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
    check_pool_size(unit)
    refuse_fields(unit, "shift_f", "relu_mode_o")
    pads = unit.topPad or unit.bottomPad or unit.leftPad or unit.rightPad
    if unit.operation == PoolOp.AVG and unit.avgnopad and pads:
        refuse_fields(unit, "avgnopad")
