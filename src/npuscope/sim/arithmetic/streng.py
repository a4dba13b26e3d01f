"""Stream engine: frames between memory and a link."""

from __future__ import annotations

import numpy as np

from npuscope.errors import TargetError
from npuscope.program.geometry import frame_start, frame_walk
from npuscope.program.units import Streng
from npuscope.sim.arithmetic.words import Stream, Take, Words, refuse_fields
from npuscope.sim.memory import Memory

_BYTE = np.dtype(np.uint8)


def read(engine: Streng, memory: Memory) -> Stream:
    """Memory to link. A frame is read when it is asked for, never ahead: partial sums that
    another engine stores meanwhile must be seen."""
    _check(engine)
    base = memory.address(engine.addr_base)
    for frame in range(engine.frames):
        yield _load(engine, memory, base + frame_start(engine, frame))


def write(engine: Streng, memory: Memory) -> Stream:
    """Link to memory. Gives each frame it has stored, so that the driver sees progress."""
    _check(engine)
    base = memory.address(engine.addr_base)
    for frame in range(engine.frames):
        words = yield Take(0, engine.frame_elements)
        _store(engine, memory, base + frame_start(engine, frame), words)
        yield words


def _check(engine: Streng) -> None:
    refuse_fields(engine, "noinc", "cipher_en")
    widths = engine.nbits_in, engine.nbits_out
    if engine.nbits_memory not in (8, 16, 24):
        raise TargetError(f"stream engine {engine.id} has elements of {engine.nbits_memory} bits")
    link, stored = widths if engine.dir else widths[::-1]
    # Only a plain copy, and a narrow element at the low end of a wide word, have been seen.
    if link != stored and not (link > stored and engine.align_right):
        raise TargetError(
            f"not executed: stream engine {engine.id} between {stored} bits in memory and "
            f"{link} bits on the link, align_right {engine.align_right}"
        )


def _load(engine: Streng, memory: Memory, address: int) -> Words:
    shape, steps = frame_walk(engine)
    # Without align_right the upper lanes are filled with zeros, whatever the sign.
    signed = engine.align_right and not engine.nbits_unsigned
    if engine.nbits_memory == 24:
        return _load_triples(memory, address, shape, steps, bool(signed))
    dtype = np.dtype(f"<{'i' if signed else 'u'}{engine.element_bytes}")
    return memory.window(address, shape, steps, dtype).astype(np.int32, order="C").reshape(-1)


def _load_triples(
    memory: Memory,
    address: int,
    shape: tuple[int, ...],
    steps: tuple[int, ...],
    signed: bool,
) -> Words:
    triples = memory.window(address, (*shape, 3), (*steps, 1), _BYTE)
    quads = np.zeros((*shape, 4), np.uint8)
    quads[..., :3] = triples
    words = quads.reshape(-1).view("<i4")
    return (words << 8) >> 8 if signed else words


def _store(engine: Streng, memory: Memory, address: int, words: Words) -> None:
    shape, steps = frame_walk(engine)
    if engine.nbits_memory == 24:
        triples = memory.window(address, (*shape, 3), (*steps, 1), _BYTE)
        triples[...] = words.astype("<i4").view(np.uint8).reshape(*shape, 4)[..., :3]
        return
    dtype = np.dtype(f"<i{engine.element_bytes}")
    memory.window(address, shape, steps, dtype)[...] = words.reshape(shape).astype(dtype)
