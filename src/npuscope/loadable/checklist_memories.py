"""The memories a network touches, and what each needs before the NPU may use it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from npuscope.errors import NpuscopeError
from npuscope.machine.load import DEFAULT_MACHINE, load_machine
from npuscope.machine.model import MemoryPool, secure_alias
from npuscope.program.ec_blob.tables import COEFFICIENT_POOL
from npuscope.program.model import Buffer, Epoch, EpochKind, Pool, Program
from npuscope.program.units import Ref, Streng

# --- Who reads and writes which bytes, epoch by epoch: the NPU or the CPU ---


class Agent(Enum):
    NPU = "NPU"
    CPU = "CPU"


_WINDOW_BITS = 28  # one external memory has a window of 256 MiB, the internal ones share one


class ByteSpan(Struct, frozen=True):
    start: int
    end: int

    def touches(self, other: ByteSpan) -> bool:
        return self.start < other.end and other.start < self.end


class TimedAccess(Struct, frozen=True):
    """`position` counts epochs in the order in which they run."""

    position: int
    agent: Agent
    writes: bool
    span: ByteSpan


class Traffic:
    """The accesses of a program, by absolute address. Memory is used again, so time counts."""

    def __init__(self, program: Program) -> None:
        self._pools = {pool.name: pool.address for pool in program.pools}
        self._buffers = program.buffer_map()
        self.accesses = tuple(
            access
            for position, epoch in enumerate(program.executed)
            for access in self._of_epoch(position, epoch)
        )

    def span_of(self, buffer: Buffer, offset: int = 0) -> ByteSpan:
        start = self._pools.get(buffer.pool, 0) + buffer.offset
        return ByteSpan(start + offset, start + buffer.size_bytes)

    def read_by_npu(self, span: ByteSpan, after: int) -> bool:
        """Whether the NPU reads the bytes behind an epoch, before they are replaced."""
        for access in self.accesses:
            if access.position > after and access.span.touches(span):
                if access.writes:
                    return False
                if access.agent is Agent.NPU:
                    return True
        return False

    def writer(self, span: ByteSpan, before: int) -> Agent | None:
        """Who wrote the bytes last before an epoch; None if they were not written."""
        writes = [a for a in self.accesses if a.writes and a.position < before]
        return next((a.agent for a in reversed(writes) if a.span.touches(span)), None)

    def _of_epoch(self, position: int, epoch: Epoch) -> Iterator[TimedAccess]:
        """Reads come before writes: an epoch may work in place."""
        agent = Agent.CPU if epoch.kind is EpochKind.SW else Agent.NPU
        reads, writes = self._touched(epoch)
        yield from (TimedAccess(position, agent, False, span) for span in reads)
        yield from (TimedAccess(position, agent, True, span) for span in writes)

    def _touched(self, epoch: Epoch) -> tuple[list[ByteSpan], list[ByteSpan]]:
        if epoch.groups is None and epoch.call is None:
            return self._by_lifetime(epoch)
        call = epoch.call
        engines = [unit for unit in epoch.units if isinstance(unit, Streng)]
        reads = [Ref(name) for name in (call.inputs if call else ())]
        writes = [Ref(name) for name in (call.outputs if call else ())]
        reads += [unit.addr_base for unit in engines if not unit.dir]
        writes += [unit.addr_base for unit in engines if unit.dir]
        return self._spans(reads), self._spans(writes)

    def _by_lifetime(self, epoch: Epoch) -> tuple[list[ByteSpan], list[ByteSpan]]:
        """Without registers: what is born in an epoch is written there, what ends is read."""
        live = [b for b in self._buffers.values() if not b.is_param and not b.view_of]
        reads = [b for b in live if b.first < epoch.number <= b.last]
        writes = [b for b in live if epoch.number <= b.first <= epoch.last_number]
        return [self.span_of(b) for b in reads], [self.span_of(b) for b in writes]

    def _spans(self, places: list[Ref]) -> list[ByteSpan]:
        places_of_buffers = [place for place in places if place.buffer in self._buffers]
        return [
            self.span_of(self._buffers[place.buffer], place.offset) for place in places_of_buffers
        ]


_OPEN = "give the NPU access: RIF (RISAF regions, the NPU as a master)"
_MAPPED = "in memory-mapped mode before the NPU is initialised"
# Banks that are off after a reset; the others run the firmware.
_ASLEEP = ("AXISRAM2", "AXISRAM3", "AXISRAM4", "AXISRAM5", "AXISRAM6")
_STEPS = {
    "xspi2": (f"flash: {_MAPPED}", _OPEN),
    "xspi1": (f"external RAM: initialised and {_MAPPED} (USE_EXT_SRAM in ST's projects)", _OPEN),
}


class UsedMemory(Struct, frozen=True):
    """A bank or an external chip; `used_bytes` counts each byte once."""

    name: str
    address: int
    used_bytes: int
    pools: tuple[str, ...]
    steps: tuple[str, ...]


class _Piece(Struct, frozen=True):
    bank: MemoryPool
    pool: str
    start: int
    end: int


def memories(program: Program) -> tuple[UsedMemory, ...]:
    """In the order of their addresses."""
    try:
        machine = load_machine(program.machine)
    except NpuscopeError:
        machine = load_machine(DEFAULT_MACHINE)
    banks = sorted(machine.pools, key=lambda pool: pool.address)
    pools = program.pool_map()
    pieces = [
        piece
        for buffer in program.buffers
        if not buffer.view_of and buffer.size_bytes and buffer.pool != COEFFICIENT_POOL
        if buffer.pool in pools
        for piece in _pieces(buffer, pools[buffer.pool], banks)
    ]
    touched = {piece.bank.name: piece.bank for piece in pieces}
    ordered = sorted(touched.values(), key=lambda bank: bank.address)
    return tuple(_memory(bank, [p for p in pieces if p.bank == bank]) for bank in ordered)


def _pieces(buffer: Buffer, pool: Pool, banks: list[MemoryPool]) -> list[_Piece]:
    """A buffer by banks: one in a virtual pool may cross several."""
    start = secure_alias(pool.address + buffer.offset)
    end = start + buffer.size_bytes
    inside = [bank for bank in banks if bank.address >> _WINDOW_BITS == start >> _WINDOW_BITS]
    if not inside:
        return []
    # A pool may begin before the one of the default file, in flash behind another application.
    starts = [0, *(bank.address for bank in inside[1:]), 1 << 32]
    return [
        _Piece(bank, pool.name, max(start, low), min(end, high))
        for bank, low, high in zip(inside, starts, starts[1:], strict=False)
        if start < high and end > low
    ]


def _memory(bank: MemoryPool, pieces: list[_Piece]) -> UsedMemory:
    names = tuple(dict.fromkeys(piece.pool for piece in pieces))
    first = min(piece.start for piece in pieces)
    total = reached = 0
    for piece in sorted(pieces, key=lambda piece: piece.start):
        total += max(0, piece.end - max(piece.start, reached))
        reached = max(reached, piece.end)
    return UsedMemory(bank.file, first, total, names, _steps(bank))


def _steps(bank: MemoryPool) -> tuple[str, ...]:
    if bank.path in _STEPS:
        return _STEPS[bank.path]
    power = ("power it up: clear SRAMSD of this bank in RAMCFG",) if bank.file in _ASLEEP else ()
    return (*power, _OPEN)
