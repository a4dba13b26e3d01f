"""Byte images of the memory pools, buffers by their layout, and how fast the memory below an engine
is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from npuscope.errors import TargetError
from npuscope.machine.model import Machine, MemoryPool
from npuscope.program.calls import element_type
from npuscope.program.model import Buffer, Pool, Program
from npuscope.program.units import Ref, Streng

# --- Byte images of the memory pools, and buffers read and written by their layout ---
#
# Everything is found by physical address, so a buffer in a virtual pool and one in its subpool
# share their bytes as they do on the device.

Bytes = NDArray[np.uint8]
Span = tuple[int, int]  # first address, and the one after the last

# Engines with 24-bit elements may read up to two bytes past the last pixel.
_SLACK_BYTES = 16

# (N, blocks, pixels, batch) as stored <-> (N, pixels, blocks, batch) as the logical order is.
_SWAP = (0, 2, 1, 3)


class MemoryRegion(Struct):
    """A range of addresses that buffers use; its bytes are allocated at the first access."""

    start: int
    end: int
    image: Bytes | None = None

    def bytes(self) -> Bytes:
        if self.image is None:
            self.image = self._allocate(self.end - self.start + _SLACK_BYTES)
        return self.image

    def _allocate(self, size_bytes: int) -> Bytes:
        try:
            return np.zeros(size_bytes, np.uint8)
        except (MemoryError, ValueError, OverflowError):
            raise TargetError(
                f"this computer cannot allocate {size_bytes} bytes for a pool"
            ) from None


class Memory:
    """The present content of the program's memories."""

    def __init__(self, program: Program) -> None:
        self.buffers = program.buffer_map()
        self._pools = program.pool_map()
        # Union of address ranges; neighbours closer than the slack become one region.
        ranges = [self._range(buffer) for buffer in program.buffers]
        regions: list[MemoryRegion] = []
        for start, end in sorted(ranges):
            if regions and start <= regions[-1].end + _SLACK_BYTES:
                regions[-1].end = max(regions[-1].end, end)
            else:
                regions.append(MemoryRegion(start, end))
        self._regions = regions
        for name, data in program.constants.items():
            self._load(name, data)

    def buffer(self, name: str) -> Buffer:
        buffer = self.buffers.get(name)
        if buffer is None:
            raise TargetError(f"buffer '{name}' is named but not in the program")
        return buffer

    def address(self, place: Ref) -> int:
        """Physical address of a reference."""
        return self._range(self.buffer(place.buffer))[0] + place.offset

    def window(
        self,
        address: int,
        shape: tuple[int, ...],
        steps: tuple[int, ...],
        dtype: np.dtype[np.generic],
    ) -> np.ndarray:
        """A strided view of the memory itself: writing to it stores."""
        return self.windows(shape, steps, dtype)(address)

    def windows(
        self, shape: tuple[int, ...], steps: tuple[int, ...], dtype: np.dtype[np.generic]
    ) -> Callable[[int], np.ndarray]:
        """Such views of one form at many addresses: an engine makes one for every frame."""
        low, high = _extent(shape, steps, dtype)

        def window(address: int) -> np.ndarray:
            start = address + low
            end = address + high
            index = bisect_right(self._regions, start, key=lambda region: region.start) - 1
            if index >= 0 and end <= self._regions[index].end + _SLACK_BYTES:
                region = self._regions[index]
            else:
                raise TargetError(f"bytes {start:#x} to {end:#x} are outside of every buffer")
            return np.ndarray(shape, dtype, region.bytes(), address - region.start, steps)

        return window

    def span(self, address: int, size_bytes: int) -> Bytes:
        """A view of consecutive bytes."""
        return self.window(address, (size_bytes,), (1,), np.dtype(np.uint8))

    def read(self, name: str) -> np.ndarray:
        """A copy of a buffer's values in logical order (N, H, W, C)."""
        buffer = self.buffer(name)
        return self._blocks(buffer).transpose(_SWAP).copy().reshape(buffer.shape)

    def write(self, name: str, values: np.ndarray) -> None:
        """Store values given in logical order."""
        buffer = self.buffer(name)
        blocks = self._blocks(buffer)
        n, groups, pixels, batch = blocks.shape
        logical = np.asarray(values, blocks.dtype).reshape(n, pixels, groups, batch)
        blocks[...] = logical.transpose(_SWAP)

    def _blocks(self, buffer: Buffer) -> np.ndarray:
        """View of a buffer as stored: (N, C / batch, pixels, batch)."""
        shape = stored_shape(buffer)
        dtype = element_type(buffer)
        elements = shape[0] * shape[1] * shape[2] * shape[3]
        if elements * dtype.itemsize > buffer.size_bytes:
            raise TargetError(
                f"buffer '{buffer.name}' of shape {buffer.shape} and {buffer.nbits} bits "
                f"has only {buffer.size_bytes} bytes"
            )
        place = self.address(Ref(buffer.name))
        return self.window(place, (elements,), (dtype.itemsize,), dtype).reshape(shape)

    def _load(self, name: str, data: np.ndarray) -> None:
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        buffer = self.buffer(name)
        if len(raw) > buffer.size_bytes:
            raise TargetError(
                f"constant '{name}' has {len(raw)} bytes, its buffer {buffer.size_bytes}"
            )
        self.span(self.address(Ref(name)), len(raw))[:] = raw

    def _range(self, buffer: Buffer) -> tuple[int, int]:
        pool = self._pools.get(buffer.pool)
        if pool is None:
            raise TargetError(f"buffer '{buffer.name}' is in no pool of the program")
        if not 0 <= buffer.offset <= pool.size_bytes - buffer.size_bytes:
            raise TargetError(f"buffer '{buffer.name}' is outside of pool '{pool.name}'")
        start = pool.address + buffer.offset
        return start, start + buffer.size_bytes


class RecordedMemory(Memory):
    """One that notes the addresses of every view that is made of it."""

    def __init__(self, program: Program) -> None:
        self.spans: set[Span] = set()
        super().__init__(program)

    def windows(
        self, shape: tuple[int, ...], steps: tuple[int, ...], dtype: np.dtype[np.generic]
    ) -> Callable[[int], np.ndarray]:
        low, high = _extent(shape, steps, dtype)
        plain = super().windows(shape, steps, dtype)

        def window(address: int) -> np.ndarray:
            self.spans.add((address + low, address + high))
            return plain(address)

        return window


def _extent(
    shape: tuple[int, ...], steps: tuple[int, ...], dtype: np.dtype[np.generic]
) -> tuple[int, int]:
    """The first byte of a strided view and the one after its last, from its address."""
    low, high = 0, dtype.itemsize
    for count, step in zip(shape, steps, strict=True):
        end = (count - 1) * step
        if end < 0:
            low += end
        else:
            high += end
    return low, high


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Spans in order, those that meet as one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(result[-1][1], end)
        else:
            result.append((start, end))
    return tuple(result)


def stored_shape(buffer: Buffer) -> tuple[int, int, int, int]:
    """(N, C / batch, pixels, batch): blocks of channels, each block channel-last."""
    if len(buffer.shape) < 2:
        return 1, 1, 1, int(np.prod(buffer.shape))
    channels = buffer.shape[-1]
    batch = buffer.batch if 0 < buffer.batch < channels else channels
    if batch and channels % batch:
        raise TargetError(
            f"buffer '{buffer.name}' stores {channels} channels in blocks of {batch}: "
            "a partial block has no known layout"
        )
    pixels = int(np.prod(buffer.shape[1:-1]))
    return buffer.shape[0], channels // max(1, batch), pixels, batch


def to_stored(buffer: Buffer, values: np.ndarray) -> np.ndarray:
    """Values in logical order as they follow each other in memory."""
    n, groups, pixels, batch = stored_shape(buffer)
    return values.reshape(n, pixels, groups, batch).transpose(_SWAP).reshape(-1)


def from_stored(buffer: Buffer, stored: np.ndarray) -> np.ndarray:
    """Values in the order of memory as the logical tensor."""
    return stored.reshape(stored_shape(buffer)).transpose(_SWAP).reshape(buffer.shape)


# --- The physical memory of a stream engine's bytes, and how fast it is ---


class Bank(Struct, frozen=True):
    """A physical memory as the silicon sees it."""

    name: str
    cycles_per_byte: float
    external: bool
    writable: bool
    read_cycles: float = 0.0  # NPU cycles of one burst that is read; external RAM only
    write_cycles: float = 0.0  # and of one that is written
    beat_cycles: float = 0.0  # one word of the bus
    short_cycles: float = 0.0  # one access to less than a word, whose neighbours lie elsewhere
    call_cycles: float = 0.0  # one byte of external RAM that a library call moves
    fetch_cycles: float = 0.0  # one byte of weights that the processor reads through its cache

    @property
    def access_cycles(self) -> float:
        """One burst whose direction is not told."""
        return (self.read_cycles + self.write_cycles) / 2


class Banks:
    """Physical banks by buffer; a buffer in a virtual pool counts where it starts."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self.machine = machine
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
            memory = next(
                (m for m in self.machine.pools if m.address <= start < m.address + m.size_bytes),
                None,
            )
        if memory is None:
            # A pool that the machine does not have: the file's own figures are used.
            rate = pool.freq_ratio / pool.byte_width
            return Bank(pool.name, rate, False, pool.writable, fetch_cycles=rate)
        return bank_of(memory, self.machine)


def retimed(banks: Mapping[str, Bank], machine: Machine) -> dict[str, Bank]:
    """The same banks on a machine with other speeds; foreign ones keep their file's figures."""
    memories = {memory.name: memory for memory in machine.pools}
    return {
        name: bank_of(memories[name], machine) if name in memories else bank
        for name, bank in banks.items()
    }


def bank_of(memory: MemoryPool, machine: Machine) -> Bank:
    timing = machine.timing
    external_ram = memory.cacheable and memory.writable
    road = machine.paths[memory.path]
    # The RAM takes its time for an access: the NPU's clock decides only how many cycles that is.
    factor = machine.generation.external_factor * road.wait * machine.clocks.npu_mhz / 1000
    read = timing.external_read_ns * factor if external_ram else 0.0
    write = timing.external_write_ns * factor if external_ram else 0.0
    rate = machine.cycles_per_byte(memory.path)
    lead = 0.0  # every line of the processor's cache waits for its first byte
    if memory.cacheable and (caches := machine.core_caches):
        lead = rate * road.bytes_per_cycle * caches.lead_cycles / caches.line_bytes
    return Bank(
        memory.name,
        rate,
        memory.cacheable,
        memory.writable,
        read,
        write,
        rate * machine.stream.busif_bytes,
        rate * road.bytes_per_cycle * road.access,
        (read + write) / 2 / timing.external_call_bytes + rate if external_ram else 0.0,
        rate + lead,
    )
