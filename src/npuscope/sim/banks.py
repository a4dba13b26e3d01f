"""Where a stream engine's bytes really are, and how fast that memory is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from npuscope.machine.model import Machine, MemoryPool
from npuscope.program.model import Buffer, Pool, Program
from npuscope.program.units import Streng


@dataclass(frozen=True, slots=True)
class Bank:
    """A physical memory as the silicon sees it."""

    name: str
    cycles_per_byte: float
    external: bool
    writable: bool
    access_cycles: tuple[float, float] | None = None  # one element read, one written
    short_access_cycles: float = 1.0  # one channel of one pixel, the next one lying apart


class Banks:
    """Physical banks by buffer; a buffer in a virtual pool counts where it starts."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self._machine = machine
        self._buffers: Mapping[str, Buffer] = program.buffer_map()
        self._pools: Mapping[str, Pool] = program.pool_map()
        self._memories = {memory.name: memory for memory in machine.pools}
        self._known: dict[str, Bank] = {}

    def address(self, engine: Streng) -> int:
        buffer = self._buffers[engine.addr_base.buffer]
        start = self._pools[buffer.pool].address + buffer.offset
        return start + engine.addr_base.offset + engine.offset_start

    def of(self, engine: Streng) -> Bank:
        return self.of_buffer(engine.addr_base.buffer)

    def of_buffer(self, name: str) -> Bank:
        if name not in self._known:
            self._known[name] = self._find(self._buffers[name])
        return self._known[name]

    def by_name(self) -> dict[str, Bank]:
        """All banks asked for so far."""
        return {bank.name: bank for bank in self._known.values()}

    def _find(self, buffer: Buffer) -> Bank:
        pool = self._pools[buffer.pool]
        memory = self._memories.get(pool.name)
        if memory is None:
            start = pool.address + buffer.offset
            memory = next((m for m in self._machine.pools if _holds(m, start)), None)
        if memory is None:
            # A pool that the machine does not know: go by the file's own figures.
            return Bank(pool.name, pool.freq_ratio / pool.byte_width, False, pool.writable)
        return _bank(memory, self._machine)


def retimed(banks: Mapping[str, Bank], machine: Machine) -> dict[str, Bank]:
    """The same banks on a machine of other speeds; foreign ones keep their file's figures."""
    memories = {memory.name: memory for memory in machine.pools}
    return {
        name: _bank(memories[name], machine) if name in memories else bank
        for name, bank in banks.items()
    }


def _bank(memory: MemoryPool, machine: Machine) -> Bank:
    timing = machine.timing
    external_ram = memory.cacheable and memory.writable
    access = (timing.external_read_cycles, timing.external_write_cycles)
    return Bank(
        memory.name,
        machine.cycles_per_byte(memory.path),
        memory.cacheable,
        memory.writable,
        access if external_ram else None,
        machine.paths[memory.path].access,
    )


def _holds(memory: MemoryPool, address: int) -> bool:
    return memory.address <= address < memory.address + memory.size_bytes
