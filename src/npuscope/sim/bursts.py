"""Bus traffic of a stream engine: bursts by length, and the cache lines it touches.

A contiguous run of bytes is rounded to 8-byte beats and cut at 64-byte boundaries; whole blocks
go as one burst of 8 beats, the rest as 4, 2 and 1. Runs are counted by where they start inside a
64-byte block, so a frame of a million pixels costs no more than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from npuscope.program.units import Streng

BLOCK = 64
BEAT = 8
Bursts = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Runs:
    """Contiguous runs of one engine: their length, and how many start at each block offset."""

    length: int
    starts: np.ndarray  # counts by start address modulo 64

    @property
    def count(self) -> int:
        return int(self.starts.sum())


def engine_runs(engine: Streng, address: int) -> Runs:
    """All runs of an engine over the epoch, re-reads included."""
    element = engine.element_bytes
    if engine.raw:
        length = engine.frame_elements * element
        step = length if engine.continuous else engine.frame_offset
        return Runs(length, _spread(address, [(engine.frames, step)]))
    pixel = engine.batch_depth * element
    line_step = engine.line_offset or engine.fwidth * engine.batch_offset
    frames = _frame_steps(engine)
    if engine.batch_offset != pixel:
        axes = [(engine.fwidth, engine.batch_offset), (engine.fheight, line_step)]
        return Runs(pixel, _spread(address, [*axes, *frames]))
    line = pixel * engine.fwidth
    if line_step != line:
        return Runs(line, _spread(address, [(engine.fheight, line_step), *frames]))
    return Runs(line * engine.fheight, _spread(address, frames))


def _frame_steps(engine: Streng) -> list[tuple[int, int]]:
    loop = engine.frame_loop_cnt
    if not loop:
        return [(engine.frames, engine.frame_offset)]
    return [(loop, engine.frame_offset), (-(-engine.frames // loop), engine.loop_offset)]


def _spread(address: int, axes: list[tuple[int, int]]) -> np.ndarray:
    """Histogram of start addresses modulo 64 over nested loops of (count, step)."""
    histogram = np.zeros(BLOCK, np.int64)
    histogram[address % BLOCK] = 1
    for count, step in axes:
        shifts = np.bincount(np.arange(min(count, BLOCK)) * step % BLOCK, minlength=BLOCK)
        # Steps repeat modulo 64 after 64 turns at the latest.
        if count > BLOCK:
            whole, rest = divmod(count, BLOCK)
            part = np.bincount(np.arange(rest) * step % BLOCK, minlength=BLOCK)
            shifts = shifts * whole + part
        histogram = _circular(histogram, shifts)
    return histogram


_TURNED = (np.arange(BLOCK)[np.newaxis, :] - np.arange(BLOCK)[:, np.newaxis]) % BLOCK


def _circular(histogram: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Starts moved by every shift: a convolution modulo 64."""
    return np.asarray(histogram @ shifts[_TURNED])


def count_bursts(runs: Runs) -> Bursts:
    total = np.zeros(4, np.int64)
    for start in np.flatnonzero(runs.starts):
        total += runs.starts[start] * np.array(_run_bursts(int(start), runs.length))
    one, two, four, eight = (int(n) for n in total)
    return one, two, four, eight


@lru_cache(maxsize=4096)
def _run_bursts(start: int, length: int) -> Bursts:
    end = start + length
    head_end = min(end, BLOCK)
    whole = max(0, (end - BLOCK) // BLOCK)
    tail_start = BLOCK * (1 + whole)
    counts = [0, 0, 0, whole]
    for low, high in ((start, head_end), (tail_start, end)):
        beats = -(-high // BEAT) - low // BEAT if high > low else 0
        for index, size in ((3, 8), (2, 4), (1, 2), (0, 1)):
            counts[index] += beats // size
            beats %= size
    return counts[0], counts[1], counts[2], counts[3]


def lines_touched(runs: Runs, line_bytes: int) -> int:
    """Cache lines fetched when nothing is kept between runs."""
    starts = np.arange(BLOCK)
    lines = (starts % line_bytes + runs.length - 1) // line_bytes + 1
    return int((runs.starts * lines).sum())
