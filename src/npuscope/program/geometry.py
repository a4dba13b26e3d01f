"""Where a stream engine's bytes lie: one walk through memory, used to check and to execute."""

from __future__ import annotations

from npuscope.program.units import Streng

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
