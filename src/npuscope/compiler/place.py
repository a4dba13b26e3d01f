"""Placing buffers into pools over their lifetimes.

The order is the vendor compiler's, found by replaying 17 public builds (bank marks exact in 15):
pools outside, buffers by size inside, best fit under the mark reached so far.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain

from msgspec import Struct, field

from npuscope.errors import TargetError
from npuscope.machine.model import Machine, MemoryPool
from npuscope.program.addresses import given_pools
from npuscope.program.model import Buffer, Pool, Program
from npuscope.program.units import Streng
from npuscope.structs import replace

_SPAN = 32  # epochs that share one list of the buffers alive in them
_MOST_SPANS = 8  # what is alive in more stands in one list for all
_NONE: Mapping[str, str] = {}


class PlacedSoFar(Struct):
    """What is placed so far; marks are the highest end reached in each pool.

    A buffer meets few of the many thousand that a large network has: those are found by epoch. One
    that is alive throughout, as parameters are, meets all: for those the union of all ranges is
    kept, without gaps too small to hold an aligned byte.
    """

    alignment: int
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)  # start, end, first, last
    marks: dict[str, int] = field(default_factory=dict)
    alive: dict[int, list[int]] = field(default_factory=dict)  # rows by span of epochs
    long: list[int] = field(default_factory=list)
    union: list[tuple[int, int]] = field(default_factory=list)
    latest_first: int = 0
    earliest_last: int = sys.maxsize

    def add(self, buffer: Buffer, start: int) -> None:
        end = start + buffer.size_bytes
        spans = _spans(buffer)
        for span in spans if len(spans) <= _MOST_SPANS else ():
            self.alive.setdefault(span, []).append(len(self.rows))
        if len(spans) > _MOST_SPANS:
            self.long.append(len(self.rows))
        self.rows.append((start, end, buffer.first, buffer.last))
        self.latest_first = max(self.latest_first, buffer.first)
        self.earliest_last = min(self.earliest_last, buffer.last)
        # Add a range to the union, with all that it touches.
        union, step = self.union, self.alignment
        low = bisect_left(union, start, key=lambda bounds: _align(bounds[1], step))
        high = bisect_right(union, _align(end, step), low, key=lambda bounds: bounds[0])
        if low < high:
            start, end = min(start, union[low][0]), max(end, union[high - 1][1])
        union[low:high] = [(start, end)]

    def busy(self, buffer: Buffer, pool: Pool) -> list[tuple[int, int]]:
        """Ranges in the pool taken by buffers alive at the same time, ends included."""
        low, high = pool.address, pool.address + pool.size_bytes
        return sorted(
            (max(start, low), min(end, high))
            for start, end in self._meeting(buffer)
            if start < high and end > low
        )

    def _meeting(self, buffer: Buffer) -> Iterable[tuple[int, int]]:
        first, last = buffer.first, buffer.last
        throughout = first <= self.earliest_last and last >= self.latest_first
        if throughout and buffer.size_bytes:  # only nothing fits where no byte does
            return self.union
        near = (self.alive.get(span, ()) for span in _spans(buffer))
        rows = map(self.rows.__getitem__, {*self.long, *chain(*near)})
        return (row[:2] for row in rows if row[2] <= last and row[3] >= first)


def _spans(buffer: Buffer) -> range:
    return range(buffer.first // _SPAN, buffer.last // _SPAN + 1)


def place(program: Program, machine: Machine, external: Mapping[str, str] = _NONE) -> Program:
    """Give every buffer a pool and an offset. Buffers that the application gives take no memory
    of the machine: `external` has names for their pools."""
    roots = [buffer for buffer in program.buffers if not buffer.view_of]
    brought = [b for b in roots if b.name in external]
    own = given_pools((external[b.name], b.size_bytes) for b in brought)
    pools = (*program_pools(machine), *own)
    reads = _read_accesses(program, machine) if machine.generation.fewest_reads_first else {}
    activations = [b for b in roots if not b.is_param and b.name not in external]

    # Graph inputs first, then the largest; of equal sizes the one with the fewest `reads`, where
    # they count, then the earlier.
    # Tried on the 17 builds: this order gives the bank marks of 15 of them. By size times lifetime
    # it is 13, by lifetime 12, by time 1; without inputs first 14.
    def rank(unit: list[Buffer]) -> tuple[bool, int, float, int]:
        whole = _whole(unit)
        accesses = sum(reads.get(buffer.name, 0.0) for buffer in unit)
        return whole.name not in program.inputs, -whole.size_bytes, accesses, whole.first

    # What is placed as one: a buffer, or the parts of a block side by side.
    by_block: dict[str, list[Buffer]] = {}
    for buffer in activations:
        by_block.setdefault(buffer.block or buffer.name, []).append(buffer)
    units = sorted(by_block.values(), key=rank)
    memory = PlacedSoFar(machine.placement.alignment_bytes)
    homes = _place_units(units, _ranked(program_pools(machine), machine), memory, machine)
    for buffer, pool in zip(brought, own, strict=True):
        homes[buffer.name] = (pool.name, 0)
        memory.add(buffer, pool.address)
    homes |= _place_parameters([b for b in roots if b.is_param], pools, memory, machine)
    buffers = tuple(_placed_buffer(buffer, homes) for buffer in program.buffers)
    # Marks per real bank; buffers of the virtual pool count in the banks they touch.
    return replace(
        program,
        buffers=buffers,
        pools=tuple(replace(pool, used_bytes=_mark(pool, memory)) for pool in pools),
    )


def _read_accesses(program: Program, machine: Machine) -> dict[str, float]:
    """How often the program reads each of its buffers, by the name of one that is nobody's view.

    What is read in the frames in which it was written counts as adjacent bytes: the vendor's
    compilers store it frame by frame [code: two builds of 3.0].
    """
    rules = machine.placement
    buffers = program.buffer_map()
    roots = {name: buffer.view_of or name for name, buffer in buffers.items()}
    accesses: defaultdict[str, float] = defaultdict(float)
    called: set[str] = set()
    engines: defaultdict[str, list[Streng]] = defaultdict(list)
    for epoch in program.epochs:
        # What a library call writes counts like what it reads [fit: RAM of FastDepth].
        for name in (*epoch.call.inputs, *epoch.call.outputs) if epoch.call else ():
            if name:
                called.add(name)
                accesses[roots[name]] += buffers[name].size_bytes / rules.call_bytes
        for group in epoch.groups or ():
            for unit in group.units:
                if isinstance(unit, Streng):
                    engines[roots[unit.addr_base.buffer]].append(unit)
    for name, users in engines.items():
        runs = {engine.run_bytes for engine in users}
        same_frames = len(runs) == 1 and any(engine.dir for engine in users)
        adjacent = same_frames and name not in called
        for engine in users:
            if not engine.dir:
                run = rules.access_bytes if adjacent or engine.raw else engine.run_bytes
                accesses[name] += engine.total_bytes / run
    return dict(accesses)


def program_pools(machine: Machine) -> tuple[Pool, ...]:
    """The machine's pools, and the virtual one made of neighbouring banks."""
    real = tuple(_pool(memory) for memory in machine.pools)
    names = {pool.name for pool in real if pool.size_bytes}
    parts = [name for name in machine.placement.virtual_pool if name in names]
    if len(parts) < 2:
        return real
    members = [pool for pool in real if pool.name in parts]
    start = min(pool.address for pool in members)
    end = max(pool.address + pool.size_bytes for pool in members)
    # Its rank among the pools decides what is filled first: the banks, or all of them as one.
    scores = [pool.score for pool in members]
    above_worst = machine.generation.virtual_pool_rank == "above_worst"
    virtual = Pool(
        "_".join(parts),
        start,
        end - start,
        machine.placement.virtual_byte_width,
        max(pool.freq_ratio for pool in members),
        score=min(scores) + 1 if above_worst else sum(scores) // len(scores) - 1,
        subpools=tuple(parts),
    )
    return (*real, virtual)


def _pool(memory: MemoryPool) -> Pool:
    return Pool(
        memory.name,
        memory.address,
        memory.size_bytes,
        memory.byte_width,
        memory.freq_ratio,
        memory.writable,
        memory.cacheable,
        memory.score,
        file_name=memory.file,
        relative=memory.relative,
    )


def _ranked(pools: Iterable[Pool], machine: Machine) -> list[Pool]:
    """Writable pools by score; equal banks in the compiler's own order."""
    # A bank is used only when those before it are full at that time: input and output of an epoch
    # are not spread over banks for bandwidth.
    banks = machine.placement.bank_order

    def rank(pool: Pool) -> tuple[int, int]:
        return -pool.score, banks.index(pool.name) if pool.name in banks else len(banks)

    return sorted((p for p in pools if p.writable and p.size_bytes), key=rank)


def _whole(unit: list[Buffer]) -> Buffer:
    """The unit as one buffer: all bytes, from the first epoch to the last."""
    if len(unit) == 1:
        return unit[0]
    return replace(
        unit[0],
        size_bytes=sum(buffer.size_bytes for buffer in unit),
        first=min(buffer.first for buffer in unit),
        last=max(buffer.last for buffer in unit),
    )


def _place_units(
    units: list[list[Buffer]], pools: list[Pool], memory: PlacedSoFar, machine: Machine
) -> dict[str, tuple[str, int]]:
    homes: dict[str, tuple[str, int]] = {}
    remaining = units
    # Pools outside, buffers inside: the virtual pool over several banks is filled only after the
    # banks themselves. One pass over buffers with the pools inside gives 12 of the 17 builds.
    for pool in pools:
        waiting, remaining = remaining, []
        for unit in waiting:
            whole = _whole(unit)
            offset = _fit(whole, pool, memory)
            if offset is None:
                remaining.append(unit)
                continue
            _take(whole, pool, offset, memory)
            for buffer in unit:
                homes[buffer.name] = (pool.name, offset)
                offset += buffer.size_bytes
    if remaining:
        _refuse([_whole(unit) for unit in remaining], pools)
    return homes


def _fit(buffer: Buffer, pool: Pool, memory: PlacedSoFar) -> int | None:
    """The smallest gap below the pool's mark that holds the buffer, else above all busy ones."""
    alignment = memory.alignment
    busy = memory.busy(buffer, pool)
    mark = pool.address + memory.marks.get(pool.name, 0)
    best: tuple[int, int] | None = None
    cursor = pool.address
    for start, end in [*busy, (mark, mark)]:
        begin = _align(cursor, alignment)
        if start - begin >= buffer.size_bytes and (best is None or start - begin < best[0]):
            best = (start - begin, begin)
        cursor = max(cursor, end)
    if best:
        return best[1] - pool.address
    above = _align(max((end for _, end in busy), default=pool.address), alignment)
    # A buffer may not end exactly at the pool's end: in two public builds the vendor's compiler
    # left holes unused that fit to the byte. How wide its margin is, is not known.
    fits = above + buffer.size_bytes < pool.address + pool.size_bytes
    return above - pool.address if fits else None


def _align(address: int, alignment: int) -> int:
    return -(-address // alignment) * alignment


def _take(buffer: Buffer, pool: Pool, offset: int, memory: PlacedSoFar) -> None:
    memory.add(buffer, pool.address + offset)
    memory.marks[pool.name] = max(memory.marks.get(pool.name, 0), offset + buffer.size_bytes)


def _place_parameters(
    buffers: list[Buffer], pools: tuple[Pool, ...], memory: PlacedSoFar, machine: Machine
) -> dict[str, tuple[str, int]]:
    """Weights one behind the other in the pool that prefers constants, largest first.

    Of several such pools one that can only be read comes first: 16 of 16 public builds whose
    external RAM prefers constants too have all weights in flash.
    """
    for_constants = [m for m in machine.pools if m.constants_preferred and m.size_bytes]
    preferred = [m.name for m in sorted(for_constants, key=lambda memory: memory.writable)]
    fallback = [p.name for p in _ranked(pools, machine) if not p.virtual]
    choices = [
        next(pool for pool in pools if pool.name == name)
        for name in dict.fromkeys((*preferred, *fallback))
    ]
    homes: dict[str, tuple[str, int]] = {}
    for buffer in sorted(buffers, key=lambda b: -b.size_bytes):
        for pool in choices:
            if pool.writable:
                offset = _fit(buffer, pool, memory)
            else:
                # Parameters are always live: in a pool of their own the next follows the last.
                offset = _align(memory.marks.get(pool.name, 0), memory.alignment)
                if offset + buffer.size_bytes >= pool.size_bytes:
                    continue
            if offset is not None:
                homes[buffer.name] = (pool.name, offset)
                _take(buffer, pool, offset, memory)
                break
        else:
            _refuse([buffer], list(pools))
    return homes


def _refuse(buffers: list[Buffer], pools: list[Pool]) -> None:
    largest = max(buffers, key=lambda b: b.size_bytes)
    room = max((pool.size_bytes for pool in pools if pool.writable), default=0)
    raise TargetError(
        f"the network does not fit: '{largest.name}' needs {largest.size_bytes:,} bytes and no "
        f"pool has room (largest pool {room:,} bytes; {len(buffers)} buffers do not fit)",
        where="pools",
        hint="use pools with external RAM (the default pools have hyperRAM; a board without it may "
        "get some: --psram NAME), or a smaller input",
    )


def _placed_buffer(buffer: Buffer, homes: dict[str, tuple[str, int]]) -> Buffer:
    """Views are placed with their buffer; a pool that a file refers to as a whole stays."""
    home = homes.get(buffer.view_of or buffer.name)
    return buffer if home is None else buffer.placed(*home)


def _mark(pool: Pool, memory: PlacedSoFar) -> int:
    low, high = pool.address, pool.address + pool.size_bytes
    ends = (min(end, high) for start, end, _, _ in memory.rows if start < high and end > low)
    return max(ends, default=low) - low
