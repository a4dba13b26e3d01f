"""Arithmetic, activation and decompression units."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.errors import TargetError
from npuscope.program.modes import ActivOp, ArithOp, Bcast
from npuscope.program.unit_words import arith_words, broadcasts, takes_y
from npuscope.program.units import Activ, Arith, Decun, Ref
from npuscope.sim.arithmetic.convacc import ClampTally
from npuscope.sim.arithmetic.streams import (
    ANY_FRAME,
    Stream,
    Take,
    Wide,
    Words,
    extend,
    floor_shift,
    in_blocks,
    limits,
    narrow,
    refuse_fields,
    refuse_operation,
    room,
    round_shift,
    shift_peak,
    word_peak,
    word_type,
)
from npuscope.sim.memory import Bytes, Memory

# --- Arithmetic unit: element-wise ops of X (port 0) and Y (port 1), 16-bit coefficients ---

# Coefficients are scalars, or vectors that follow the broadcast counters.


class Coefficients(Struct, frozen=True):
    """A, B and C in 64 bits, each of one entry or of one per step of the broadcast."""

    unit: Arith
    a: Wide
    b: Wide
    c: Wide

    def of_frames(self, first: int, count: int) -> tuple[Wide, Wide, Wide]:
        """As arrays that broadcast against (frames, fHeight, fWidth, batchDepth)."""
        if self.unit.scalar:
            return self.a, self.b, self.c
        index = _index(self.unit, first, count)
        a, b, c = (v[index] if v.size > 1 else v for v in (self.a, self.b, self.c))
        return a, b, c


def load(unit: Arith, memory: Memory) -> Coefficients:
    a = _entry(unit, memory, unit.A_vector, unit.A_scalar, unit.vec_precision[0])
    b = _entry(unit, memory, unit.B_vector, unit.B_scalar, unit.vec_precision[1])
    c = _entry(unit, memory, unit.C_vector, unit.C_scalar, unit.vec_precision[2])
    if unit.C_vector and not unit.scalar and unit.C_scalar == -1:
        c = -c  # the driver's way to ask for a negated vector
    if not unit.combinebc:
        return Coefficients(unit, _short(a), _short(b), _short(c))
    return Coefficients(
        unit, _short(a), b, c if unit.C_vector is not None and not unit.scalar else _pair(b, c)
    )


def _entry(unit: Arith, memory: Memory, vector: Ref | None, scalar: int, bits: int) -> Wide:
    if unit.scalar or vector is None:
        return np.array([scalar], np.int64)
    lengths = {
        Bcast.CHAN: unit.fChannels,
        Bcast.HEIGHT: unit.fHeight,
        Bcast.WIDTH: unit.fWidth,
        Bcast.HEIGHT_WIDTH: unit.fHeight * unit.fWidth,
        Bcast.SCALAR: 1,
    }
    if unit.bcast not in lengths:
        raise refuse_operation(unit, f"vectors with bcast {unit.bcast}")
    length = lengths[Bcast(unit.bcast)]
    raw = memory.span(memory.address(vector), length * bits // 8)
    return raw.view(f"<i{bits // 8}").astype(np.int64)


def _short(value: Wide) -> Wide:
    """Coefficient registers hold 16 bits."""
    return value.astype(np.int16).astype(np.int64)


def _pair(b: Wide, c: Wide) -> Wide:
    """{B,C}: one two's-complement number of 32 bits."""
    return ((b << 16) | (c & 0xFFFF)).astype(np.int32).astype(np.int64)


def _index(unit: Arith, first: int, count: int) -> Wide:
    """Which entry each element uses, as an array that broadcasts over frames."""
    height, width, batch = unit.fHeight, unit.fWidth, unit.batchDepth
    if unit.bcast == Bcast.HEIGHT:
        return np.arange(height).reshape(height, 1, 1)
    if unit.bcast == Bcast.WIDTH:
        return np.arange(width).reshape(1, width, 1)
    if unit.bcast == Bcast.HEIGHT_WIDTH:
        return np.arange(height * width).reshape(height, width, 1)
    if unit.bcast == Bcast.CHAN:
        channels = (first * batch + np.arange(count * batch)) % unit.fChannels
        return channels.reshape(count, 1, 1, batch)
    return np.zeros(1, np.int64)


# The shifts of the products round regardless of the output stage: seen on silicon for Ax, assumed
# to be the same for By. They have names of their own so that a test can swap one of them.
round_ax = round_shift
round_by = round_shift

_SEEN = (ArithOp.AFFINE, ArithOp.MUL, ArithOp.MIN, ArithOp.MAX, ArithOp.CLIP)


def run(unit: Arith, has_y: bool, memory: Memory, tally: ClampTally) -> Stream:
    """Frames of fWidth x fHeight x batchDepth; frames as they come if there is no geometry."""
    check(unit, has_y)
    coefficients = load(unit, memory)
    frame = 0
    while True:
        x = yield Take(0, arith_words(unit))
        y = None
        if takes_y(unit, has_y):
            y = (yield Take(1, unit.batchDepth if broadcasts(unit) else len(x)))[None]
        yield compute(coefficients, x[None], y, tally, frame).reshape(-1)
        frame += 1


def compute(
    coefficients: Coefficients, x: Words, y: Words | None, tally: ClampTally, first: int = 0
) -> Words:
    """Frames of output for frames of X and Y (frames, ...), the first of which has a number."""
    unit = coefficients.unit
    if broadcasts(unit):
        x = x.reshape(len(x), -1, unit.batchDepth)
    elif not unit.scalar:
        x = x.reshape(len(x), unit.fHeight, unit.fWidth, unit.batchDepth)
    offset = _offset(coefficients) if y is None else None
    if offset is not None:
        return in_blocks(partial(_moved, unit, offset), word_type(unit.outbytes_o), x)
    kind = _room(coefficients)
    vectors = [v.astype(kind) for v in coefficients.of_frames(first, len(x))]
    if y is not None:
        vectors.append(y.reshape(len(y), 1, -1) if broadcasts(unit) else y.reshape(x.shape))
    return in_blocks(partial(_values, unit, tally), word_type(unit.outbytes_o), x, *vectors)


def _offset(coefficients: Coefficients) -> int | None:
    """All that a unit adds, where its factor and its shift undo each other."""
    unit = coefficients.unit
    if unit.operation != ArithOp.AFFINE or not unit.scalar or unit.Ax_shift or unit.C_shift < 0:
        return None
    factor, constant = int(coefficients.a[0]), int(coefficients.c[0]) << unit.C_shift
    one = 1 << max(0, unit.shift_o)
    whole = unit.shift_o >= 0 and factor == one and not constant % one
    return constant // one if whole and not unit.clipout else None


def _moved(unit: Arith, offset: int, words: Words) -> Words:
    peak = word_peak(unit.inbytes_x or 2) + abs(offset)
    x = extend(words, unit.inbytes_x or 2).astype(room(peak))
    x += offset
    return narrow(x, unit.outbytes_o, unit.saturation_o)


def _values(
    unit: Arith,
    tally: ClampTally,
    x_words: Words,
    a: Wide,
    b: Wide,
    c: Wide,
    y_words: Words | None = None,
) -> Words:
    kind = a.dtype
    x: Wide = extend(x_words, unit.inbytes_x or 2).astype(kind)
    y = None if y_words is None else extend(y_words, unit.inbytes_y or 2).astype(kind)
    shift = round_shift if unit.rounding_o else floor_shift
    value = shift(_operate(unit, x, y, (a, b, c)), unit.shift_o)
    if unit.clipout:
        value = np.clip(value, unit.clipmin, unit.clipmax)
    words = narrow(value, unit.outbytes_o, unit.saturation_o)
    if unit.saturation_o and unit.outbytes_o == 2:
        # Where kernel pieces are joined or sums scaled before the bias, as within a convolution.
        low, high = limits(2)
        tally.outputs += value.size
        tally.clamped += int(np.count_nonzero((value < low) | (value > high)))
    return words


def _room(coefficients: Coefficients) -> np.dtype[np.signedinteger[Any]]:
    """The type that holds every intermediate of any operation of this unit."""
    unit = coefficients.unit
    x, y = word_peak(unit.inbytes_x or 2), word_peak(unit.inbytes_y or 2)
    a, b, c = (
        int(np.abs(v).max(initial=0)) for v in (coefficients.a, coefficients.b, coefficients.c)
    )
    constant = c << unit.C_shift if unit.C_shift >= 0 else c
    if unit.operation == ArithOp.AFFINE:
        ax, by = shift_peak(a * x, unit.Ax_shift), shift_peak(b * y, unit.By_shift)
        total = ax + constant + (0 if unit.combinebc else by)
    else:
        total = x * y + constant
    return room(shift_peak(total, unit.shift_o), abs(unit.clipmin), abs(unit.clipmax))


def _operate(unit: Arith, x: Wide, y: Wide | None, vectors: tuple[Wide, Wide, Wide]) -> Wide:
    a, b, c = vectors
    constant = c << unit.C_shift
    if unit.operation == ArithOp.AFFINE:
        # In place: the products are nobody else's.
        by = None if y is None else b * y
        total = round_ax(a * x, unit.Ax_shift)
        total += constant
        if by is not None:
            total += round_by(by, unit.By_shift)
        return total
    if unit.operation == ArithOp.CLIP:
        # The coefficients are the bounds; the clip range belongs to `clipout` alone.
        return np.clip(x, a, c)
    # One-operand MIN and MAX do not occur in vendor code; here the constant takes the place of Y.
    second = constant if y is None else y
    if unit.operation == ArithOp.MUL:
        return x * second
    extreme = np.minimum if unit.operation == ArithOp.MIN else np.maximum
    result: Wide = extreme(x, second)
    return result


def check(unit: Arith, has_y: bool) -> None:
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
_ROM1_ROWS = 128  # more than an entry of ROM0 can name


def run_activ(unit: Activ, memory: Memory) -> Stream:
    """Element by element: the unit has no geometry, frames pass as they come."""
    function = activation(unit, memory)
    while True:
        yield function((yield Take(0, ANY_FRAME)))


def activation(unit: Activ, memory: Memory) -> Callable[[Words], Words]:
    """The unit as a function of words."""
    refuse_fields(unit, "shift_f", "relu_mode_o", "fsub")
    if unit.operation == ActivOp.FUNC:
        # The function of all 256 inputs, by x + 128.
        if unit.inbytes_f != 1 or not unit.signedop:
            raise refuse_operation(unit, "FUNC on other than signed 8-bit values")
        x = np.arange(-128, 128, dtype=np.int64)
        raw = _rom(unit, memory, unit.ROM1_vector, unit.ROM1_nbytes)
        # ROM0 splits the range: bits 7..6 log2 of a segment's parts, 5..0 its first row.
        u = np.arange(256, dtype=np.int64)
        rest_bits = 8 - unit.bwidth
        rom = _rom(unit, memory, unit.ROM0_vector, unit.ROM0_nbytes).astype(np.int64)
        entry: Wide = rom[u >> rest_bits]
        parts_log2, first_row = entry >> 6, entry & 0x3F
        # A segment of fewer values than parts cannot be split further: the shift stops at 0.
        part: Wide = (u & ((1 << rest_bits) - 1)) >> np.maximum(rest_bits - parts_log2, 0)
        # Damaged tables name rows that were not loaded: what these hold is not known, so zeros.
        loaded = raw.view("<i2").reshape(-1, _ROM1_ROW)
        rows = np.zeros((_ROM1_ROWS, _ROM1_ROW), np.int64)
        rows[: len(loaded)] = loaded
        a, b, c = rows[first_row + part].T
        quadratic = a * x * x + (b << unit.shift_b) * x + (c << unit.shift_c)
        # By the byte itself: that of 0 comes first, that of -128 after that of 127.
        table = np.roll(_activ_words(unit, quadratic), 128)
        return lambda words: table.take(extend(words, 1).view(np.uint8))
    if unit.operation not in (ActivOp.RELU, ActivOp.TRELU):
        raise refuse_operation(unit, ActivOp(unit.operation).name)
    return partial(_rectify, unit)


def _rectify(unit: Activ, words: Words) -> Words:
    peak = max(word_peak(unit.inbytes_f), abs(unit.parameter), abs(unit.parameter_2))
    x = extend(words, unit.inbytes_f).astype(room(shift_peak(peak, unit.shift_o)))
    # TRELU keeps what exceeds `parameter`, the rest becomes `parameter_2`.
    return _activ_words(
        unit,
        np.maximum(x, 0)
        if unit.operation == ActivOp.RELU
        else np.where(x > unit.parameter, x, unit.parameter_2),
    )


def _rom(unit: Activ, memory: Memory, vector: Ref | None, nbytes: int) -> Bytes:
    if vector is None or not nbytes:
        raise TargetError(f"ACTIV {unit.id}: FUNC needs both tables")
    return memory.span(memory.address(vector), nbytes)


def _activ_words(unit: Activ, value: Wide) -> Words:
    shift = round_shift if unit.rounding_o else floor_shift
    return narrow(shift(value, unit.shift_o), unit.outbytes_o, unit.saturation_o)


# --- Decompression unit: only its registers are known ---


def refuse(unit: Decun) -> TargetError:
    return TargetError(
        "not executed: semantics of DECUN are not known",
        where=f"DECUN {unit.id}",
        hint="compile the network without weight compression",
    )
