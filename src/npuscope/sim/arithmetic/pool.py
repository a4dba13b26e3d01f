"""Pooling unit: a sliding window, or the whole frame at once, channel by channel."""

from __future__ import annotations

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
    peak = max(word_peak(unit.inbytes_f), abs(unit.pad_val))
    if unit.operation in (PoolOp.AVG, PoolOp.GAVG):
        taps = unit.inputY * unit.inputX if unit.is_global else unit.poolWinX * unit.poolWinY
        peak *= taps * max(1, abs(unit.mulval))
    image = (
        extend(frames, unit.inbytes_f).reshape(shape).astype(room(shift_peak(peak, unit.shift_o)))
    )
    rows, columns = pool_kept(unit)
    image = image[:, rows, columns]
    # Averages are sums times mulval; a global pool ignores outputX and outputY.
    if unit.is_global:
        reductions = {PoolOp.GAVG: np.add, PoolOp.GMAX: np.maximum, PoolOp.GMIN: np.minimum}
        reduction = reductions[PoolOp(unit.operation)]
        value: Wide = reduction.reduce(image, axis=(1, 2), dtype=image.dtype)
    else:
        value = _windowed(unit, _pad(unit, image))
    if unit.operation in (PoolOp.AVG, PoolOp.GAVG):
        value = value * unit.mulval
    shift = round_shift if unit.rounding_o else floor_shift
    return narrow(shift(value, unit.shift_o), unit.outbytes_o, unit.saturation_o)


def _windowed(unit: PoolUnit, image: Wide) -> Wide:
    """Tap by tap, which is faster than a view of all windows: one array per window position, each
    of outputY x outputX."""
    rows = (unit.outputY - 1) * unit.strideY + 1
    columns = (unit.outputX - 1) * unit.strideX + 1
    taps = [
        image[:, y : y + rows : unit.strideY, x : x + columns : unit.strideX]
        for y in range(unit.poolWinY)
        for x in range(unit.poolWinX)
    ]
    total = taps[0].copy()
    for tap in taps[1:]:
        if unit.operation == PoolOp.MAX:
            np.maximum(total, tap, out=total)
        elif unit.operation == PoolOp.MIN:
            np.minimum(total, tap, out=total)
        else:
            total += tap
    return total


def _pad(unit: PoolUnit, image: Wide) -> Wide:
    rows, columns = (unit.topPad, unit.bottomPad), (unit.leftPad, unit.rightPad)
    if not any(rows + columns):
        return image
    frames, height, width, depth = image.shape
    shape = height + sum(rows), width + sum(columns), frames, depth
    # Without a value of its own, a padded position never wins and adds nothing.
    low, high = limits(unit.inbytes_f)
    idle = {PoolOp.MAX: low, PoolOp.MIN: high}.get(PoolOp(unit.operation), 0)
    value = unit.pad_val if unit.pad_val_en else idle
    padded = np.full(shape, value, image.dtype).transpose(2, 0, 1, 3)
    padded[:, rows[0] : rows[0] + height, columns[0] : columns[0] + width] = image
    return padded


def check_pool(unit: PoolUnit) -> None:
    check_pool_size(unit)
    refuse_fields(unit, "shift_f", "relu_mode_o")
    pads = unit.topPad or unit.bottomPad or unit.leftPad or unit.rightPad
    if unit.operation == PoolOp.AVG and unit.avgnopad and pads:
        refuse_fields(unit, "avgnopad")
