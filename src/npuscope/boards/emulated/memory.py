"""Addresses and memories of the emulated board: one set of bytes for the processor, the NPU's units
and the host."""

from __future__ import annotations

import mmap

import numpy as np
from msgspec import Struct

from npuscope.errors import DeviceError, TargetError
from npuscope.machine.model import Machine, non_secure_alias
from npuscope.program.ec_blob.tables import COEFFICIENT_POOL
from npuscope.program.model import Buffer, Pool
from npuscope.program.units import Ref
from npuscope.sim.memory import Bytes, Memory, MemoryRegion
from npuscope.structs import replace

# Addresses of the emulated board: the same numbers as firmware/board/emulated/hardware.h.

FIRMWARE_ADDRESS = 0x34000000
FIRMWARE_BYTES = 0x00060000
EXEC_RAM_ADDRESS = 0x34060000
EXEC_RAM_BYTES = 0x000A0000
POOLS_ADDRESS = 0x34100000
INTERNAL_RAM_END = 0x343C0000
EXTERNAL_RAM_ADDRESS = 0x90000000
EXTERNAL_RAM_BYTES = 0x02000000
NETWORK_RAM_ADDRESS = EXTERNAL_RAM_ADDRESS
NETWORK_RAM_BYTES = 0x01B00000
FLASH_ADDRESS = 0x70000000
FLASH_BYTES = 0x08000000

NPU_ADDRESS = 0x580E0000
NPU_BYTES = 0x20000  # 32 pages
CACHE_ADDRESS = 0x580DFC00
UART_ADDRESS = 0x52001000
UART_RECEIVED = 1 << 5
UART_ROOM = 1 << 7
DWT_ADDRESS = 0xE0001000
CYCLE_COUNTER_ADDRESS = 0xE0001004
SYSTEM_ADDRESS = 0xE000E000  # SysTick, NVIC, SCB

NPU_INTERRUPT = 53
UART_INTERRUPT = 159
MAILBOX_ADDRESS = 0x91F00000

PAGE_BYTES = 0x1000


class Stretch(Struct, frozen=True):
    """A memory of the board; code runs from any of them."""

    name: str
    address: int
    size_bytes: int
    writable: bool = True

    @property
    def end(self) -> int:
        return self.address + self.size_bytes

    def holds(self, address: int, size_bytes: int) -> bool:
        return self.address <= address and address + size_bytes <= self.end


def memories_of(secure: bool = True) -> tuple[Stretch, ...]:
    """What code of one world reaches: the internal RAM has another address in the other."""
    if secure:
        return MEMORIES
    return tuple(replace(part, address=non_secure_alias(part.address)) for part in MEMORIES)


MEMORIES = (
    Stretch("internal RAM", FIRMWARE_ADDRESS, INTERNAL_RAM_END - FIRMWARE_ADDRESS),
    Stretch("flash", FLASH_ADDRESS, FLASH_BYTES, writable=False),
    Stretch("external RAM", EXTERNAL_RAM_ADDRESS, EXTERNAL_RAM_BYTES),
)


# The board's memories: one set of bytes for the processor, the NPU's units and the host.

# What units hold has no address on the device; here it has the one that no memory starts at.
COEFFICIENT_BYTES = 1 << 24


class BoardMemory:
    """All memories, taken from the system page by page as they are touched."""

    def __init__(self, memories: tuple[Stretch, ...] = MEMORIES) -> None:
        self.memories = memories
        # A page more than the device has: engines may look some bytes past the end.
        self._images = {
            m.address: np.frombuffer(mmap.mmap(-1, m.size_bytes + PAGE_BYTES), np.uint8)
            for m in memories
        }

    @property
    def secure(self) -> bool:
        return self.memories[0].address == FIRMWARE_ADDRESS

    def image(self, memory: Stretch) -> Bytes:
        return self._images[memory.address]

    def read(self, address: int, size_bytes: int) -> bytes:
        return self._span(address, size_bytes).tobytes()

    def write(self, address: int, data: bytes) -> None:
        """From outside, so flash too."""
        self._span(address, len(data))[:] = np.frombuffer(data, np.uint8)

    def _span(self, address: int, size_bytes: int) -> Bytes:
        for memory in self.memories:
            if size_bytes >= 0 and memory.holds(address, size_bytes):
                start = address - memory.address
                return self.image(memory)[start : start + size_bytes]
        raise DeviceError(f"{size_bytes} bytes at {address:#x} are in no memory of the board")


def flash_beats(machine: Machine, size_bytes: int) -> float:
    """Clocks of the flash that so many bytes take on its wires."""
    flash = next(pool for pool in machine.pools if pool.address >> 28 == FLASH_ADDRESS >> 28)
    return size_bytes / machine.paths[flash.path].bytes_per_cycle


class FetchCost:
    """What the processor takes from flash: a line of code or data that its caches do not hold costs
    the way from there. Which line makes room is not documented; here it is the oldest."""

    def __init__(self, machine: Machine) -> None:
        self.cycles = 0  # of the processor, since power-up
        self.read_before = 0  # lines of data that are taken as held when they are first read
        self._code: dict[int, None] = {}
        self._data: dict[int, None] = {}
        self._caches = machine.core_caches
        if self._caches is not None:
            beats = flash_beats(machine, self._caches.line_bytes) + self._caches.lead_cycles
            self._lines = self._caches.size_bytes // self._caches.line_bytes
            self._line_cycles = round(beats * machine.clocks.mcu_mhz / machine.clocks.xspi_mhz)

    def code(self, address: int, size_bytes: int) -> None:
        self._take(self._code, address, size_bytes)

    def data(self, address: int, size_bytes: int) -> None:
        self._take(self._data, address, size_bytes)

    def forget_start(self) -> None:
        """Data was read while nobody watched: what fits the cache is taken as held."""
        self.read_before = self._lines if self._caches is not None else 0

    def _take(self, lines: dict[int, None], address: int, size_bytes: int) -> None:
        if self._caches is None:
            return
        width = self._caches.line_bytes
        for line in range(address // width, (address + size_bytes - 1) // width + 1):
            if line not in lines:
                lines[line] = None
                if lines is self._data and self.read_before:
                    self.read_before -= 1
                else:
                    self.cycles += self._line_cycles
                if len(lines) > self._lines:
                    del lines[next(iter(lines))]


class UnitMemory(Memory):
    """The same bytes as the NPU's units see them: whole pools as buffers, and coefficients."""

    def __init__(self, board: BoardMemory, machine: Machine) -> None:
        self.board = board
        self.pools = _pools(machine, board.memories)
        self._pools = {pool.name: pool for pool in self.pools}
        self.buffers = {pool.name: _whole(pool) for pool in self.pools}
        self._coefficients = MemoryRegion(0, COEFFICIENT_BYTES)
        regions = [MemoryRegion(m.address, m.end, board.image(m)) for m in board.memories]
        self._regions = sorted([self._coefficients, *regions], key=lambda region: region.start)

    def place(self, address: int) -> Ref:
        """Where an engine starts, as a place in one of the pools."""
        for pool in self.pools:
            if pool.address <= address < pool.address + pool.size_bytes:
                return Ref(pool.name, address - pool.address)
        raise TargetError(f"a stream engine starts at {address:#x}, which is unmapped")

    def set_coefficients(self, pool: Pool, buffers: list[Buffer]) -> None:
        """The coefficients known now; their bytes are written by `load`."""
        self._pools[COEFFICIENT_POOL] = pool
        self.buffers.update({buffer.name: buffer for buffer in buffers})

    def load(self, offset: int, values: np.ndarray) -> None:
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self._coefficients.bytes()[offset : offset + len(raw)] = raw


def _pools(machine: Machine, memories: tuple[Stretch, ...]) -> tuple[Pool, ...]:
    """The machine's pools, made to cover all that is there: what no pool holds belongs to the
    nearest one below, or to the first one of its memory."""
    banks = sorted(machine.pools, key=lambda pool: pool.address)
    pools = []
    for memory in memories:
        inside = [p for p in banks if memory.address <= p.address < memory.end]
        starts = [memory.address, *(p.address for p in inside[1:]), memory.end]
        for pool, start, end in zip(inside, starts, starts[1:], strict=False):
            pools.append(
                Pool(
                    pool.name,
                    start,
                    end - start,
                    pool.byte_width,
                    pool.freq_ratio,
                    writable=memory.writable,
                    cacheable=pool.cacheable,
                )
            )
    return tuple(pools)


def _whole(pool: Pool) -> Buffer:
    return Buffer(
        pool.name,
        pool.size_bytes,
        (pool.size_bytes,),
        8,
        pool.size_bytes,
        pool=pool.name,
        last=1 << 15,
        is_param=not pool.writable,
    )
