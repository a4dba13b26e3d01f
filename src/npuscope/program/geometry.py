"""Walks through memory: where a stream engine's bytes lie, and the strided copies that library
calls make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from npuscope.errors import TargetError
from npuscope.program.model import Call
from npuscope.program.units import Streng

# Where a stream engine's bytes lie: one walk through memory, used to check and to execute.

Shape = tuple[int, int, int]


def frame_walk(engine: Streng) -> tuple[Shape, Shape]:
    """Elements (rows, columns, depth) of one frame and the byte steps between them."""
    element = engine.element_bytes
    if engine.raw:
        return (1, 1, engine.frame_elements), (0, 0, element)
    line = engine.line_offset or engine.fwidth * engine.batch_offset
    shape = engine.fheight, engine.fwidth, engine.batch_depth
    return shape, (line, engine.batch_offset, element)


def frame_start(engine: Streng, frame: int) -> int:
    """Byte offset of a frame from the engine's base address."""
    step = frame_step(engine)
    loop = engine.frame_loop_cnt
    if not loop:
        return engine.offset_start + frame * step
    return engine.offset_start + frame % loop * step + frame // loop * engine.loop_offset


def reach(engine: Streng) -> tuple[int, int]:
    """Lowest byte and one past the highest byte touched, from the engine's base address."""
    shape, steps = frame_walk(engine)
    if not min(shape):
        return engine.offset_start, engine.offset_start
    ends = [(size - 1) * step for size, step in zip(shape, steps, strict=True)]
    starts = [frame_start(engine, frame) for frame in _extreme_frames(engine)]
    low = min(starts) + sum(min(0, end) for end in ends)
    return low, max(starts) + sum(max(0, end) for end in ends) + engine.element_bytes


def frame_step(engine: Streng) -> int:
    """Bytes from one frame to the next inside a loop."""
    if not engine.continuous:
        return engine.frame_offset
    if engine.raw:
        return engine.frame_elements * engine.element_bytes
    shape, steps = frame_walk(engine)
    return shape[0] * steps[0]


def _extreme_frames(engine: Streng) -> set[int]:
    """Frames that hold the lowest and highest start: corners of the (loop, place) grid."""
    last = engine.frames - 1
    loop = engine.frame_loop_cnt
    if not loop:
        return {0, last}
    corners = {0, loop - 1, last - last % loop, last, last - last % loop - 1}
    if last >= loop:
        corners.add((last // loop - 1) * loop)
    return {frame for frame in corners if 0 <= frame <= last}


# Strided copies: what a library call that only moves data does, byte for byte.
#
# A Call carries each as a tuple of numbers under the names copy0, copy1, ...

_NAME = "copy"
_HEAD = 5


@dataclass(frozen=True, slots=True)
class Copy:
    """Elements of `shape` from one buffer to another; starts and steps are in bytes."""

    source: int  # number of the call's input
    start_in: int
    start_out: int
    element_bytes: int
    shape: tuple[int, ...]
    steps_in: tuple[int, ...]
    steps_out: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def numbers(self) -> tuple[int, ...]:
        head = (self.source, self.start_in, self.start_out, self.element_bytes, len(self.shape))
        return (*head, *self.shape, *self.steps_in, *self.steps_out)


def as_arguments(copies: Iterable[Copy]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((f"{_NAME}{number}", copy.numbers()) for number, copy in enumerate(copies))


def copies_of(call: Call) -> tuple[Copy, ...]:
    """The copies of a call; none where the call is a kernel."""
    return tuple(_copy(call, value) for name, value in call.args if name.startswith(_NAME))


def _copy(call: Call, value: object) -> Copy:
    if not isinstance(value, tuple) or len(value) < _HEAD or len(value) != _HEAD + 3 * value[4]:
        raise TargetError(f"software kernel '{call.kernel}' has a copy that cannot be read")
    source, start_in, start_out, element, rank = value[:_HEAD]
    if not 0 <= source < len(call.inputs) or element not in (1, 2, 4, 8) or min(value) < 0:
        raise TargetError(f"software kernel '{call.kernel}' has a copy that cannot be read")
    parts = [value[_HEAD + rank * n : _HEAD + rank * (n + 1)] for n in range(3)]
    return Copy(source, start_in, start_out, element, *parts)
