"""The memories a network touches, and what each needs before the NPU may use it."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.errors import NpuscopeError
from npuscope.machine.load import DEFAULT_MACHINE, load_machine
from npuscope.machine.model import MemoryPool
from npuscope.program.ec_blob.tables import COEFFICIENT_POOL
from npuscope.program.model import Buffer, Pool, Program

_OPEN = "open it to the NPU: RIF (RISAF regions, the NPU as a master)"
_MAPPED = "in memory-mapped mode before the NPU is initialised"
# Banks that are off after a reset; the others run the firmware.
_ASLEEP = ("AXISRAM2", "AXISRAM3", "AXISRAM4", "AXISRAM5", "AXISRAM6")
_STEPS = {
    "xspi2": (f"flash: {_MAPPED}", _OPEN),
    "xspi1": (f"external RAM: initialised and {_MAPPED} (USE_EXT_SRAM in ST's projects)", _OPEN),
}
# Secure and non-secure addresses of the internal RAMs differ in this bit.
_SECURE_BIT = 1 << 28
_WINDOW_SHIFT = 28
_INTERNAL_ALIAS = 0x2


@dataclass(frozen=True, slots=True)
class Memory:
    """A bank or an external chip; `used_bytes` counts each byte once."""

    name: str
    address: int
    used_bytes: int
    pools: tuple[str, ...]
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    bank: MemoryPool
    pool: str
    start: int
    end: int


def memories(program: Program) -> tuple[Memory, ...]:
    """In the order of their addresses."""
    banks = _banks(program)
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


def _banks(program: Program) -> list[MemoryPool]:
    try:
        machine = load_machine(program.machine)
    except NpuscopeError:
        machine = load_machine(DEFAULT_MACHINE)
    return sorted(machine.pools, key=lambda pool: pool.address)


def _pieces(buffer: Buffer, pool: Pool, banks: list[MemoryPool]) -> list[_Piece]:
    """A buffer by banks: one in a virtual pool may cross several."""
    start = _secure(pool.address + buffer.offset)
    end = start + buffer.size_bytes
    inside = [bank for bank in banks if bank.address >> _WINDOW_SHIFT == start >> _WINDOW_SHIFT]
    if not inside:
        return []
    # A pool may begin before the one of the default file, in flash behind another application.
    starts = [0, *(bank.address for bank in inside[1:]), 1 << 32]
    return [
        _Piece(bank, pool.name, max(start, low), min(end, high))
        for bank, low, high in zip(inside, starts, starts[1:], strict=False)
        if start < high and end > low
    ]


def _secure(address: int) -> int:
    return address | _SECURE_BIT if address >> _WINDOW_SHIFT == _INTERNAL_ALIAS else address


def _memory(bank: MemoryPool, pieces: list[_Piece]) -> Memory:
    names = tuple(dict.fromkeys(piece.pool for piece in pieces))
    first = min(piece.start for piece in pieces)
    return Memory(bank.file, first, _union(pieces), names, _steps(bank))


def _union(pieces: list[_Piece]) -> int:
    total = reached = 0
    for piece in sorted(pieces, key=lambda piece: piece.start):
        total += max(0, piece.end - max(piece.start, reached))
        reached = max(reached, piece.end)
    return total


def _steps(bank: MemoryPool) -> tuple[str, ...]:
    if bank.path in _STEPS:
        return _STEPS[bank.path]
    power = ("power it: clear SRAMSD of this bank in RAMCFG",) if bank.file in _ASLEEP else ()
    return (*power, _OPEN)
