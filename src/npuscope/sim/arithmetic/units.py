"""Arithmetic, activation, pooling and decompression units."""

from __future__ import annotations

import numpy as np

from npuscope.errors import TargetError
from npuscope.lean_dataclass import dataclass
from npuscope.program.modes import ActivOp, ArithOp, Bcast, PoolOp
from npuscope.program.units import Activ, Arith, Decun, PoolUnit, Ref
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

# --- Arithmetic unit: element-wise ops of X (port 0) and Y (port 1), 16-bit coefficients ---

# Coefficients are scalars, or vectors that follow the broadcast counters.


@dataclass(frozen=True, slots=True)
class Coefficients:
    """A, B and C in 64 bits, each of one entry or of one per step of the broadcast."""

    unit: Arith
    a: Wide
    b: Wide
    c: Wide

    def of_frame(self, frame: int) -> tuple[Wide, Wide, Wide]:
        """As arrays that broadcast against (fHeight, fWidth, batchDepth)."""
        if self.unit.scalar:
            return self.a, self.b, self.c
        index = _index(self.unit, frame)
        picked = [vector[index] if vector.size > 1 else vector for vector in (self.a, self.b)]
        c = self.c[index] if self.c.size > 1 else self.c
        return picked[0], picked[1], c


def load(unit: Arith, memory: Memory) -> Coefficients:
    a = _entry(unit, memory, unit.A_vector, unit.A_scalar, unit.vec_precision[0])
    b = _entry(unit, memory, unit.B_vector, unit.B_scalar, unit.vec_precision[1])
    c = _entry(unit, memory, unit.C_vector, unit.C_scalar, unit.vec_precision[2])
    if unit.C_vector and not unit.scalar and unit.C_scalar == -1:
        c = -c  # the driver's way to ask for a negated vector
    if not unit.combinebc:
        return Coefficients(unit, _short(a), _short(b), _short(c))
    return Coefficients(unit, _short(a), b, c if _has_c_vector(unit) else _pair(b, c))


def _entry(unit: Arith, memory: Memory, vector: Ref | None, scalar: int, bits: int) -> Wide:
    if unit.scalar or vector is None:
        return np.array([scalar], np.int64)
    length = _length(unit)
    raw = memory.span(memory.address(vector), length * bits // 8)
    return raw.view(f"<i{bits // 8}").astype(np.int64)


def _has_c_vector(unit: Arith) -> bool:
    return unit.C_vector is not None and not unit.scalar


def _short(value: Wide) -> Wide:
    """Coefficient registers hold 16 bits."""
    return value.astype(np.int16).astype(np.int64)


def _pair(b: Wide, c: Wide) -> Wide:
    """{B,C}: one two's-complement number of 32 bits."""
    return ((b << 16) | (c & 0xFFFF)).astype(np.int32).astype(np.int64)


def _length(unit: Arith) -> int:
    lengths = {
        Bcast.CHAN: unit.fChannels,
        Bcast.HEIGHT: unit.fHeight,
        Bcast.WIDTH: unit.fWidth,
        Bcast.HEIGHT_WIDTH: unit.fHeight * unit.fWidth,
        Bcast.SCALAR: 1,
    }
    if unit.bcast not in lengths:
        raise refuse_operation(unit, f"vectors with bcast {unit.bcast}")
    return lengths[Bcast(unit.bcast)]


def _index(unit: Arith, frame: int) -> Wide:
    """Which entry each element uses, as an array that broadcasts over a frame."""
    height, width, batch = unit.fHeight, unit.fWidth, unit.batchDepth
    if unit.bcast == Bcast.HEIGHT:
        return np.arange(height).reshape(height, 1, 1)
    if unit.bcast == Bcast.WIDTH:
        return np.arange(width).reshape(1, width, 1)
    if unit.bcast == Bcast.HEIGHT_WIDTH:
        return np.arange(height * width).reshape(height, width, 1)
    if unit.bcast == Bcast.CHAN:
        return (frame * batch + np.arange(batch)) % unit.fChannels
    return np.zeros(1, np.int64)


# The shifts of the products round regardless of the output stage: seen on silicon for Ax, assumed
# to be the same for By. They have names of their own so that a test can swap one of them.
round_ax = round_shift
round_by = round_shift

_SEEN = (ArithOp.AFFINE, ArithOp.MUL, ArithOp.MIN, ArithOp.MAX, ArithOp.CLIP)


def run(unit: Arith, has_y: bool, memory: Memory) -> Stream:
    """Frames of fWidth x fHeight x batchDepth; frames as they come if there is no geometry."""
    _check(unit, has_y)
    coefficients = load(unit, memory)
    words = unit.fWidth * unit.fHeight * unit.batchDepth
    frame = 0
    while True:
        x = yield Take(0, words)
        y = None
        if has_y and not unit.combinebc:
            y = yield Take(1, unit.batchDepth if _broadcasts(unit) else len(x))
            if _broadcasts(unit):
                y = np.tile(y, len(x) // unit.batchDepth)
        value = _operate(unit, _operand(unit, x, unit.inbytes_x), y, coefficients, frame)
        yield _finish(unit, value.reshape(-1))
        frame += 1


def _broadcasts(unit: Arith) -> bool:
    """Port Y brings one value per channel, which the unit keeps for the whole frame.

    Documented for up to 512 entries; how registers select a streamed vector is our interpretation.
    """
    return bool(unit.dualinput and unit.scalar and unit.bcast == Bcast.CHAN)


def _operand(unit: Arith, words: Words, nbytes: int) -> Wide:
    """The values, in frame shape where vectors need it."""
    values = extend(words, nbytes or 2).astype(np.int64)
    if unit.scalar:
        return values
    return values.reshape(unit.fHeight, unit.fWidth, unit.batchDepth)


def _operate(
    unit: Arith, x: Wide, y_words: Words | None, coefficients: Coefficients, frame: int
) -> Wide:
    a, b, c = coefficients.of_frame(frame)
    constant = c << unit.C_shift
    y = None if y_words is None else _operand(unit, y_words, unit.inbytes_y)
    if unit.operation == ArithOp.AFFINE:
        return _affine(unit, a * x, None if y is None else b * y, constant)
    if unit.operation == ArithOp.CLIP:
        return x
    # One-operand MIN and MAX do not occur in vendor code; here the constant takes the place of Y.
    second = constant if y is None else y
    if unit.operation == ArithOp.MUL:
        return x * second
    return np.minimum(x, second) if unit.operation == ArithOp.MIN else np.maximum(x, second)


def _affine(unit: Arith, ax: Wide, by: Wide | None, constant: Wide) -> Wide:
    total = round_ax(ax, unit.Ax_shift) + constant
    return total if by is None else total + round_by(by, unit.By_shift)


def _finish(unit: Arith, value: Wide) -> Words:
    shift = round_shift if unit.rounding_o else floor_shift
    result = shift(value, unit.shift_o)
    if unit.clipout or unit.operation == ArithOp.CLIP:
        result = np.clip(result, unit.clipmin, unit.clipmax)
    return narrow(result, unit.outbytes_o, unit.saturation_o)


def _check(unit: Arith, has_y: bool) -> None:
    refuse_fields(unit, "shift_x", "shift_y", "relu_mode_o")
    if unit.operation not in _SEEN:
        raise refuse_operation(unit, ArithOp(unit.operation).name)
    if unit.operation == ArithOp.MUL and (not has_y or unit.combinebc):
        raise TargetError(f"ARITH {unit.id}: MUL needs a second stream at port 1")
    if unit.dualinput and not has_y:
        raise TargetError(f"ARITH {unit.id}: dualinput is set, but nothing feeds port 1")
    if not unit.scalar and not unit.fWidth * unit.fHeight * unit.batchDepth:
        raise TargetError(f"ARITH {unit.id}: vectors need fWidth, fHeight and batchDepth")


# --- Activation unit: ReLU kinds, and a piecewise quadratic function on 8-bit values ---

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
        yield _activ_words(unit, _threshold(unit, x.astype(np.int64)))


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
    return _activ_words(unit, quadratic)


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


def _activ_words(unit: Activ, value: Wide) -> Words:
    shift = round_shift if unit.rounding_o else floor_shift
    return narrow(shift(value, unit.shift_o), unit.outbytes_o, unit.saturation_o)


# --- Pooling unit: a sliding window, or the whole frame at once, channel by channel ---


def run_pool(unit: PoolUnit) -> Stream:
    """Frames of inputX x inputY x batchSize, channels interleaved."""
    _check_pool(unit)
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
    """One array per window position, each of outputY x outputX."""
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
    """Averages are sums times mulval; a global pool ignores outputX and outputY."""
    if unit.operation in (PoolOp.AVG, PoolOp.GAVG):
        value = value * unit.mulval
    shift = round_shift if unit.rounding_o else floor_shift
    return narrow(shift(value, unit.shift_o), unit.outbytes_o, unit.saturation_o).reshape(-1)


def _check_pool(unit: PoolUnit) -> None:
    refuse_fields(unit, "shift_f", "relu_mode_o")
    pads = unit.topPad or unit.bottomPad or unit.leftPad or unit.rightPad
    if unit.operation == PoolOp.AVG and unit.avgnopad and pads:
        refuse_fields(unit, "avgnopad")


# --- Decompression unit: only its registers are known ---


def refuse(unit: Decun) -> TargetError:
    return TargetError(
        "not executed: semantics of DECUN are not known",
        where=f"DECUN {unit.id}",
        hint="compile the network without weight compression",
    )
