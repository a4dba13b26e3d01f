"""All frames of an engine at once: its walk through memory as one array."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.program.addresses import frame_starts, frame_step, frame_walk
from npuscope.program.units import Streng
from npuscope.sim.arithmetic import streams
from npuscope.sim.arithmetic.plan import ByFramesError, Frames, Walk
from npuscope.sim.arithmetic.streams import Words
from npuscope.sim.memory import Memory

# What NumPy may spend to find out whether two walks meet.
_OVERLAP_WORK = 1 << 14


def view(engine: Streng, memory: Memory, walk: Walk) -> np.ndarray:
    """The places of a walk in memory itself."""
    base = memory.address(engine.addr_base) + engine.offset_start
    return memory.windows(*walk)(base)


def walk_of(engine: Streng, frames: int) -> Walk:
    """(turns, frames of a loop, rows, columns, depth), the bytes between them, and their type."""
    streams.check(engine)
    shape, steps = frame_walk(engine)
    loop = min(engine.frame_loop_cnt or frames, frames)
    turns = -(-frames // loop)
    if turns * loop > engine.frames:
        raise ByFramesError
    kind = streams.memory_type(engine)
    return (turns, loop, *shape), (engine.loop_offset, frame_step(engine), *steps), kind


def load(engine: Streng, walk: np.ndarray, frames: int) -> Frames:
    """The frames of a walk; what is read again at the same place is kept once."""
    turns, loop = walk.shape[:2]
    if not walk.strides[0]:
        walk = walk[:1]
    if not walk.strides[1]:
        walk = walk[:, :1]
    values = streams.loaded(engine, walk)
    kept_turns, per_turn = values.shape[:2]
    values = values.reshape(kept_turns * per_turn, *values.shape[2:])
    if len(values) == turns * loop:
        return Frames(values).first(frames)
    turn, place = np.divmod(np.arange(frames), loop)
    return Frames(
        values, np.minimum(turn, kept_turns - 1) * per_turn + np.minimum(place, per_turn - 1)
    )


def store(engine: Streng, memory: Memory, walk: np.ndarray, words: Words) -> None:
    """Frames (frames, ...) to memory, the last one of a place over those before."""
    if apart(walk):
        walk[...] = streams.as_stored(engine, words.reshape(walk.shape))
        return
    base, storer = memory.address(engine.addr_base), streams.storer(engine, memory)
    last = {start: number for number, start in enumerate(frame_starts(engine))}
    for start, number in sorted(last.items(), key=lambda entry: entry[1]):
        storer(base + start, words[number])


def apart(walk: np.ndarray) -> bool:
    """No two elements of the walk share a byte."""
    reach = walk.itemsize
    for step, count in sorted(zip(map(abs, walk.strides), walk.shape, strict=True)):
        if count > 1:
            if step < reach:
                return False
            reach = step * count
    return True


def meet(one: Any, other: Any) -> bool:
    """Whether two walks share a byte, or may: a hard question is answered by yes."""
    if not np.may_share_memory(one, other):
        return False
    try:
        return bool(np.shares_memory(one, other, _OVERLAP_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def same(one: Streng, other: Streng, memory: Memory) -> bool:
    """Two engines visit the same places in the same order, each element once in a frame."""
    walks = [
        (
            memory.address(engine.addr_base) + engine.offset_start,
            frame_walk(engine),
            frame_step(engine),
            engine.loop_offset,
            engine.frame_loop_cnt,
        )
        for engine in (one, other)
    ]
    shape, steps = frame_walk(one)
    plain = steps[1] >= shape[2] * steps[2] and steps[0] >= shape[1] * steps[1]
    return walks[0] == walks[1] and plain
