"""Coefficients of the arithmetic unit: scalars, or vectors that follow the broadcast counters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.program.modes import Bcast
from npuscope.program.units import Arith, Ref
from npuscope.sim.arithmetic.words import Wide, refuse_operation
from npuscope.sim.memory import Memory


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
