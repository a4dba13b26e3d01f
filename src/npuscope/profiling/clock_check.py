"""Do the pools that a compiler assumed fit the clocks of the board?

`freqRatio` is NPU clock by memory clock, `byteWidth` is bytes per memory clock. The compiler's
max_cycles are made of both, so a pool file for other clocks makes every comparison with it skewed.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npuscope.boards.device import BoardClocks as BoardClocks
from npuscope.machine.load import load_machine
from npuscope.machine.model import Clocks, Machine, MemoryPool, secure_alias
from npuscope.program.model import Epoch, Pool, Program
from npuscope.structs import replace
from npuscope.text import safe_terminal

# Pool files round to two decimals: 1.11 stands for 1000 / 900.
_TOLERANCE = 0.01
_CLOCK_NAMES = {"nic_mhz": "NIC", "noc_mhz": "NOC"}


class Misfit(Struct, frozen=True):
    """Pools behind one road that state the same wrong speed."""

    pools: tuple[Pool, ...]
    clock: str
    clock_mhz: float
    npu_mhz: float
    byte_width: float

    @property
    def freq_ratio(self) -> float:
        return self.npu_mhz / self.clock_mhz

    @property
    def stated_by_right(self) -> float:
        """Cycles per byte as stated, relative to those the clocks give."""
        pool = self.pools[0]
        return pool.freq_ratio / pool.byte_width / (self.freq_ratio / self.byte_width)


def clock_warnings(program: Program, board: Machine | Clocks | BoardClocks) -> tuple[str, ...]:
    """One sentence per road whose pools state another speed than the clocks give it.

    A program without max_cycles has no estimate to be wrong.
    """
    if not any(epoch.claims.max_cycles for epoch in program.epochs):
        return ()
    return tuple(_sentence(misfit, program) for misfit in clock_misfits(program, board))


def clock_misfits(program: Program, board: Machine | Clocks | BoardClocks) -> tuple[Misfit, ...]:
    machine = _machine(board)
    groups: dict[tuple[str, float, int], list[Pool]] = {}
    for pool in _used(program):
        road = _road(pool, machine)
        stated = pool.freq_ratio > 0 and pool.byte_width > 0
        if road is None or not stated:
            continue
        # A board may leave a clock out: 0.
        if machine.clocks.npu_mhz and getattr(machine.clocks, machine.paths[road].clock):
            # Banks of one road with the same figures are one sentence, not four.
            groups.setdefault((road, pool.freq_ratio, pool.byte_width), []).append(pool)
    misfits, clocks = [], machine.clocks
    for (road, _, _), pools in groups.items():
        path = machine.paths[road]
        mhz = getattr(clocks, path.clock), clocks.npu_mhz
        misfits.append(Misfit(tuple(pools), path.clock, *mhz, path.bytes_per_cycle))
    return tuple(row for row in misfits if abs(row.stated_by_right - 1) > _TOLERANCE)


def _machine(board: Machine | Clocks | BoardClocks) -> Machine:
    """Clocks alone stand for the default board at these clocks."""
    if isinstance(board, Machine):
        return board
    machine = load_machine()
    if isinstance(board, BoardClocks):
        hertz = (board.mcu_hz, board.npu_hz, board.noc_hz, board.nic_hz)
        mcu, npu, noc, nic = (value / 1e6 for value in hertz)
        board = Clocks(mcu, npu, noc, nic, machine.clocks.xspi_mhz)
    return replace(machine, clocks=board)


def _used(program: Program) -> Iterator[Pool]:
    """Pools with bytes moved in them. A virtual pool's figures come from those of its parts."""
    names = {access.pool for epoch in program.epochs for access in epoch.claims.accesses}
    names |= {buffer.pool for buffer in program.buffers}
    parts = {part for pool in program.pools if pool.name in names for part in pool.subpools}
    for pool in program.pools:
        if pool.name in names | parts and not pool.virtual:
            yield pool


def _road(pool: Pool, machine: Machine) -> str | None:
    """The machine's road to an on-chip pool. None outside: there the ratio of a pool file also
    stands for latency and commands, so clocks alone do not give the right one."""
    same = next((own for own in machine.pools if own.name == pool.name), None)
    near = same or _bank_at(pool.address, machine)
    if pool.cacheable or (near is not None and near.cacheable):
        return None
    return near.path if near else machine.cache.path if _on_chip(pool, machine) else None


def _bank_at(address: int, machine: Machine) -> MemoryPool | None:
    """A pool kept for firmware has size 0: it reaches up to the next one."""
    secure = secure_alias(address)
    rows = sorted(machine.pools, key=lambda pool: pool.address)
    below = [pool for pool in rows if pool.address <= secure]
    if not below:
        return None
    nearest = below[-1]
    inside = not nearest.size_bytes or secure < nearest.address + nearest.size_bytes
    return nearest if inside else None


def _on_chip(pool: Pool, machine: Machine) -> bool:
    """Beside the banks, in their window of 256 MiB: the cache used as plain memory."""
    windows = {own.address >> 28 for own in machine.pools if not own.cacheable}
    return secure_alias(pool.address) >> 28 in windows


def _sentence(misfit: Misfit, program: Program) -> str:
    names = ", ".join(safe_terminal(pool.name) for pool in misfit.pools)
    pool, off = misfit.pools[0], misfit.stated_by_right - 1
    clock = _CLOCK_NAMES.get(misfit.clock, misfit.clock)
    way = "high" if off > 0 else "low"
    rated = [epoch for epoch in program.epochs if epoch.claims.max_cycles]
    pools = {pool.name for pool in misfit.pools}
    number = sum(_decides(pools, misfit, epoch) for epoch in rated)
    return (
        f"{names}: the compiler assumed freqRatio {pool.freq_ratio:g} and byteWidth "
        f"{pool.byte_width}, the clocks give {misfit.freq_ratio:.3g} and {misfit.byte_width:g} "
        f"(NPU {misfit.npu_mhz:g} MHz by {clock} {misfit.clock_mhz:g} MHz): memory terms of "
        f"max_cycles are {abs(off):.1%} too {way}, which decides max_cycles in "
        f"{number} of {len(rated)} epochs"
    )


def _decides(names: set[str], misfit: Misfit, epoch: Epoch) -> bool:
    """Is the estimate of the epoch that of moving bytes in one of these pools?"""
    claims, pool = epoch.claims, misfit.pools[0]
    beta = pool.freq_ratio / pool.byte_width
    terms = [
        max((a.reads + a.writes) * beta, a.read_cycles, a.write_cycles)
        for a in claims.accesses
        if a.pool in names
    ]
    # The compiler rounds; where memory and computation tie, computation decides just as well.
    most = max(terms, default=0.0)
    return most + 1 >= claims.max_cycles > claims.compute_cycles
