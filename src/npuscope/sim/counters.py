"""What the device counts while an epoch runs: cycles by phase, engines, cache, bursts by their
length."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import numpy as np
from msgspec import Struct

from npuscope.machine.model import Machine
from npuscope.program.addresses import frame_step, frame_walk
from npuscope.program.units import Streng

# --- Bus traffic of a stream engine: bursts by length, and the cache lines it touches ---
#
# A contiguous run of bytes is rounded to 8-byte beats and cut at 64-byte boundaries; whole blocks
# go as one burst of 8 beats, the rest as 4, 2 and 1. Runs are counted by where they start inside a
# 64-byte block, so a frame of a million pixels costs no more than one.

BLOCK = 64
BEAT = 8
Bursts = tuple[int, int, int, int]


class Runs(Struct, frozen=True):
    """Contiguous runs of one engine: their length, and how many start at each block offset."""

    length: int
    starts: np.ndarray  # counts by start address modulo 64

    @property
    def count(self) -> int:
        return int(self.starts.sum())


def engine_runs(engine: Streng, address: int) -> Runs:
    """All runs of an engine over the epoch, re-reads included."""
    length, axes = _frame_runs(engine)
    starts = np.zeros(BLOCK, np.int64)
    for offset, loops in _frames(engine):
        # Histogram of start addresses modulo 64 over nested loops of (count, step).
        nested = [*axes, *loops]
        histogram = np.zeros(BLOCK, np.int64)
        histogram[(address + offset) % BLOCK] = 1
        for count, step in nested:
            if count == 1:
                continue
            shifts = np.bincount(np.arange(min(count, BLOCK)) * step % BLOCK, minlength=BLOCK)
            # Steps repeat modulo 64 after at most 64 iterations.
            if count > BLOCK:
                whole, rest = divmod(count, BLOCK)
                part = np.bincount(np.arange(rest) * step % BLOCK, minlength=BLOCK)
                shifts = shifts * whole + part
            # Starts moved by every shift: a convolution modulo 64.
            histogram = np.asarray(histogram @ shifts[_TURNED])
        starts += histogram
    return Runs(length, starts)


def _frame_runs(engine: Streng) -> tuple[int, list[tuple[int, int]]]:
    """Length of a contiguous run inside a frame, and the loops over such runs."""
    (rows, columns, depth), (line_step, pixel_step, element) = frame_walk(engine)
    pixel = depth * element
    if pixel_step != pixel and columns > 1:
        return pixel, [(columns, pixel_step), (rows, line_step)]
    line = pixel * columns
    if line_step != line and rows > 1:
        return line, [(rows, line_step)]
    return line * rows, []


def _frames(engine: Streng) -> list[tuple[int, list[tuple[int, int]]]]:
    """Where frames start: (offset, loops of (count, step)); the last loop may be incomplete."""
    frames, loop, step = engine.frames, engine.frame_loop_cnt, frame_step(engine)
    if not loop:
        return [(0, [(frames, step)])]
    turns, rest = divmod(frames, loop)
    whole = [(0, [(loop, step), (turns, engine.loop_offset)])] if turns else []
    cut = [(turns * engine.loop_offset, [(rest, step)])] if rest else []
    return whole + cut


_TURNED = (np.arange(BLOCK)[np.newaxis, :] - np.arange(BLOCK)[:, np.newaxis]) % BLOCK


def count_bursts(runs: Runs) -> Bursts:
    one, two, four, eight = (int(count) for count in runs.starts @ _bursts_by_start(runs.length))
    return one, two, four, eight


@lru_cache(maxsize=4096)
def _bursts_by_start(length: int) -> np.ndarray:
    """Bursts of 1, 2, 4 and 8 beats of one run, for every start in a block."""
    start = np.arange(BLOCK)
    end = start + length
    whole = np.maximum(0, (end - BLOCK) // BLOCK)
    head = _beats(start, np.minimum(end, BLOCK))
    tail = _beats(BLOCK * (1 + whole), end)
    counts = np.zeros((BLOCK, 4), np.int64)
    counts[:, 3] = whole
    for beats in (head, tail):
        for column, size in ((3, 8), (2, 4), (1, 2), (0, 1)):
            counts[:, column] += beats // size
            beats = beats % size
    return counts


def _beats(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.where(high > low, -(-high // BEAT) - low // BEAT, 0)


def lines_touched(runs: Runs, line_bytes: int) -> int:
    """Cache lines fetched when nothing is kept between runs."""
    starts = np.arange(BLOCK)
    lines = (starts % line_bytes + runs.length - 1) // line_bytes + 1
    return int((runs.starts * lines).sum())


# --- What the device counts while an epoch runs ---


class Bound(Enum):
    """The port or resource that sets an epoch's time (its choked port)."""

    FEATURES = "features"
    WEIGHTS = "weights"
    OUTPUT = "output"
    ACCUMULATOR = "accumulator"
    ARITH_VECTOR = "arith_vector"
    BANK = "bank"
    BUSIF = "busif"
    FLASH = "flash"
    EXTERNAL_RAM = "external_ram"
    CPU = "cpu"
    CONTROL = "control"
    UNKNOWN = "unknown"  # counted on a device, without the program that ran


class EngineActivity(Struct, frozen=True):
    """One stream engine: how long it was not stalled, and what it moved where."""

    id: int
    dir: str  # "i" memory to NPU, "o" NPU to memory
    busif: int
    active_cycles: int
    pool: str
    bytes: int


class BusTraffic(Struct, frozen=True):
    """Bursts on one bus interface, counted by length: 1, 2, 4 and 8 beats of 8 bytes."""

    id: int
    read_bursts: tuple[int, int, int, int]
    write_bursts: tuple[int, int, int, int]

    @property
    def read_bytes(self) -> int:
        return _burst_bytes(self.read_bursts)

    @property
    def write_bytes(self) -> int:
        return _burst_bytes(self.write_bursts)


def _burst_bytes(bursts: tuple[int, int, int, int]) -> int:
    return sum(8 * beats * count for beats, count in zip((1, 2, 4, 8), bursts, strict=True))


class CacheCounts(Struct, frozen=True):
    """NPU cache monitors of one epoch."""

    read_hit: int = 0
    read_miss: int = 0
    read_alloc_miss: int = 0
    read_evict: int = 0
    write_hit: int = 0
    write_miss: int = 0
    write_alloc_miss: int = 0
    write_through: int = 0


class PoolTraffic(Struct, frozen=True):
    """Bytes moved between the NPU (or CPU kernel) and one pool."""

    pool: str
    read_bytes: int
    write_bytes: int


class EpochCounters(Struct, frozen=True):
    """One epoch of one run. pre and post are MCU cycles, core is NPU cycles."""

    number: int
    last_number: int
    pre_cycles: float
    core_cycles: float
    post_cycles: float
    bound: Bound
    engines: tuple[EngineActivity, ...] = ()
    busif: tuple[BusTraffic, ...] = ()
    cache: CacheCounts = CacheCounts()
    traffic: tuple[PoolTraffic, ...] = ()
    core_mcu_cycles: float | None = None  # the core as a board's MCU counted it, where one did


# --- Of all engines of an epoch together ---

_NO_BURSTS: Bursts = (0, 0, 0, 0)


def bus_traffic(
    engines: list[Streng], runs: list[Runs], machine: Machine
) -> tuple[BusTraffic, ...]:
    """Bursts by interface and direction."""
    totals: dict[tuple[int, int], Bursts] = {}
    for engine, moved in zip(engines, runs, strict=True):
        key = (machine.stream.busif(engine.id), engine.dir)
        bursts = count_bursts(moved)
        total = totals.get(key, _NO_BURSTS)
        totals[key] = tuple(a + b for a, b in zip(total, bursts, strict=True))  # type: ignore[assignment]
    interfaces = range(-(-machine.units["STRENG"] // machine.stream.engines_per_busif))
    return tuple(
        BusTraffic(i, totals.get((i, 0), _NO_BURSTS), totals.get((i, 1), _NO_BURSTS))
        for i in interfaces
    )


def cache_counts(engines: list[Streng], runs: list[Runs], machine: Machine) -> CacheCounts:
    """Lines of cacheable reads: all miss unless the engine allocates and comes back."""
    miss = alloc_miss = hit = 0
    line = machine.cache.line_bytes
    for engine, moved in zip(engines, runs, strict=True):
        if not engine.cacheable or engine.dir:
            continue
        lines = lines_touched(moved, line)
        if engine.cache_allocate:
            first = min(lines, -(-_footprint(engine) // line))
            alloc_miss += first
            hit += lines - first
        else:
            miss += lines
    return CacheCounts(read_hit=hit, read_miss=miss + alloc_miss, read_alloc_miss=alloc_miss)


def _footprint(engine: Streng) -> int:
    """Different bytes that an engine reads."""
    return engine.frame_bytes * engine.distinct_frames
