"""A board with faults, for the judge of `triage`: the simulated NPU behind hooks that a fault sets.

Nothing here knows the causes that `triage` tries. RAM stays as it is between runs, as on a board.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import msgspec
import numpy as np

from npuscope.program.calls import element_type
from npuscope.program.model import Buffer, Program, images
from npuscope.program.units import Ref
from npuscope.sim.memory import Memory, stored_shape, to_stored
from npuscope.sim.run import run_epoch, written
from npuscope.structs import replace

Bytes = np.ndarray
Supply = Callable[[str, Bytes, Bytes, Bytes], Bytes]
FlashChange = Callable[[str, Bytes], Bytes]
Result = Callable[[str, Bytes, Bytes], Bytes]
MARKER = 0x55


class Kind(msgspec.Struct, frozen=True):
    """A kind of fault; `causes` are the ids that name it, empty where only `where` is judged."""

    name: str
    where: str
    install: Callable[[Board, np.random.Generator], str]
    causes: tuple[str, ...] = ()
    parts: tuple[Kind, ...] = ()  # of two faults at once


class Ram:
    """Buffers of the network by name, while it runs."""

    def __init__(self, program: Program, memory: Memory) -> None:
        self._memory = memory
        self.names = [b.name for b in program.buffers if not b.is_param]

    def get(self, name: str) -> Bytes:
        return self._span(name).copy()

    def set(self, name: str, values: Bytes) -> None:
        self._span(name)[:] = values

    def _span(self, name: str) -> Bytes:
        buffer = self._memory.buffer(name)
        return self._memory.span(self._memory.address(Ref(name)), buffer.size_bytes)


class Seen(msgspec.Struct, frozen=True):
    """All that one run lets one see."""

    output: dict[str, Bytes]
    output_ram: dict[str, Bytes]
    input: dict[str, Bytes]
    input_ram: dict[str, Bytes]
    buffers: dict[str, Bytes]
    fresh: dict[str, Bytes]  # what the NPU wrote as result


class Board:
    """`supply`, `fetch`, `flash`, `flash_read`, `epoch`, `settle` and `read` are the hooks."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.inputs, self.outputs = program.inputs, program.outputs
        self._buffers = program.buffer_map()
        self._images = {p: np.frombuffer(d, np.uint8) for p, d in images(program).items()}
        self.pools = tuple(self._images)
        self.supply: Supply | None = None
        self.fetch: Supply | None = None
        self.flash: FlashChange | None = None
        self.flash_read: FlashChange | None = None
        self.epoch: Callable[[int, list[str], Ram], None] | None = None
        self.settle: Result | None = None
        self.read: Result | None = None
        self.instead: Program | None = None  # another programme that runs
        self.other: Program | None = None  # the build before, with the same borders
        self.cpu_view: Callable[[str, Bytes], Bytes] | None = None  # of buffers that keep a pattern
        self.bus: Callable[[str, Bytes], Bytes] | None = None  # what the NPU may read of an input
        self.flash_is_mapped = True
        self.marks_inputs = False  # nobody writes the input buffer

    def shape(self, name: str) -> tuple[int, ...]:
        return self._buffers[name].shape

    def dtype(self, name: str) -> np.dtype:
        return element_type(self._buffers[name])

    def size(self, name: str) -> int:
        return int(np.prod(stored_shape(self._buffers[name]))) * self.dtype(name).itemsize

    def address(self, name: str) -> int:
        buffer = self._buffers[name]
        return self.program.pool(buffer.pool).address + buffer.offset

    def image(self, pool: str) -> Bytes:
        return self._images[pool]

    def other_image(self, pool: str) -> Bytes:
        """Weights of the build before."""
        assert self.other is not None
        return np.frombuffer(images(self.other)[pool], np.uint8)

    def buffer(self, name: str) -> Buffer:
        return self._buffers[name]

    def stored(self, name: str, values: np.ndarray) -> Bytes:
        """Values of the network's axes as bytes in the order of memory."""
        flat = np.ascontiguousarray(to_stored(self._buffers[name], values))
        return flat.view(np.uint8).reshape(-1)

    def weights(self, pool: str) -> Bytes:
        """As the CPU reads them; another programme comes with its own."""
        image = self._images[pool].copy()
        if self.instead is not None:
            image = np.frombuffer(images(self.instead).get(pool, b""), np.uint8).copy()
        return image if self.flash is None else self.flash(pool, image)

    # --- Runs: RAM goes from one to the next ---

    def session(self, frames: list[dict[str, Bytes]], again: bool = False) -> list[Seen]:
        """The frames one after the other; `again` runs the last one twice, without a refill."""
        memory = self._powered()
        seen: list[Seen] = []
        before = {name: np.zeros(self.size(name), np.uint8) for name in self.inputs}
        results = {name: np.zeros(self.size(name), np.uint8) for name in self.outputs}
        for number, frame in enumerate([*frames, *frames[-1:]] if again else frames):
            refill = number < len(frames)
            one = self._run(memory, frame if refill else None, before, results)
            seen.append(one)
            before, results = frame, one.fresh
        return seen

    def marker(self, frame: dict[str, Bytes]) -> tuple[str, ...]:
        """Buffers in which the CPU finds the pattern after a run."""
        memory = self._powered()
        for buffer in self.program.buffers:
            if not buffer.is_param:
                start = memory.address(Ref(buffer.name))
                memory.span(start, buffer.size_bytes)[:] = MARKER
        pattern = {name: np.full(self.size(name), MARKER, np.uint8) for name in self.outputs}
        one = self._run(memory, frame, frame, pattern)
        names = [b.name for b in self.program.buffers if not b.is_param]
        kept = []
        for name in names:
            values = memory.span(memory.address(Ref(name)), self._buffers[name].size_bytes)
            if name in self.outputs:
                values = one.output[name]
            if self.cpu_view is not None:
                values = self.cpu_view(name, values.copy())
            is_kept = bool((values == MARKER).all())
            if name in self.inputs:
                is_kept = self.marks_inputs
            if is_kept:
                kept.append(name)
        return tuple(kept)

    def crc(self, pool: str) -> str:
        return f"{zlib.crc32(self.weights(pool).tobytes()):08x}"

    def constants(self) -> dict[str, Bytes]:
        """Weights as the NPU reads them."""
        program = self.instead or self.program
        buffers, changed = program.buffer_map(), {}
        for pool, data in images(program).items():
            image = np.frombuffer(data, np.uint8)
            for change in (self.flash, self.flash_read):
                image = image if change is None else change(pool, image.copy())
            changed[pool] = image
        cuts = {
            name: (buffers[name].pool, buffers[name].offset, data.nbytes)
            for name, data in program.constants.items()
        }
        return {name: changed[pool][at : at + size] for name, (pool, at, size) in cuts.items()}

    def supplied(self, name: str, frame: Bytes, before: Bytes, ram: Bytes | None = None) -> Bytes:
        there = np.zeros_like(frame) if ram is None else ram
        if self.supply is None:
            return frame
        return self.supply(name, frame.copy(), before.copy(), there)

    def fetched(self, name: str, given: Bytes, before: Bytes, ram: Bytes | None = None) -> Bytes:
        there = np.zeros_like(given) if ram is None else ram
        if self.fetch is None:
            return given
        return self.fetch(name, given.copy(), before.copy(), there)

    def finished(
        self, stored: dict[str, Bytes], results: dict[str, Bytes]
    ) -> tuple[dict[str, Bytes], dict[str, Bytes]]:
        """Results in RAM, and as the program reads them."""
        if self.settle is not None:
            stored = {n: self.settle(n, v.copy(), results[n].copy()) for n, v in stored.items()}
        read = dict(stored)
        if self.read is not None:
            read = {n: self.read(n, v.copy(), results[n].copy()) for n, v in stored.items()}
        return stored, read

    def _powered(self) -> Memory:
        return Memory(replace(self.instead or self.program, constants=self.constants()))

    def _run(
        self,
        memory: Memory,
        frame: dict[str, Bytes] | None,
        before: dict[str, Bytes],
        results: dict[str, Bytes],
    ) -> Seen:
        program = self.instead or self.program
        ram = Ram(program, memory)
        given, found = {}, {}
        for name in self.inputs:
            place, size = memory.address(Ref(name)), self.size(name)
            there = memory.span(place, size).copy()
            if frame is None:
                given[name] = found[name] = there
                continue
            given[name] = self.supplied(name, frame[name], before[name], there)
            data = found[name] = self.fetched(name, given[name], before[name], there)
            memory.span(place, size)[:] = data if self.bus is None else self.bus(name, data.copy())
        buffers: dict[str, Bytes] = {}
        for epoch in program.executed:
            run_epoch(epoch, memory)
            names = list(written(epoch))
            if self.epoch is not None:
                self.epoch(epoch.number, names, ram)
            buffers |= {name: ram.get(name) for name in names}
        stored = {n: memory.span(memory.address(Ref(n)), self.size(n)).copy() for n in self.outputs}
        fresh = {name: values.copy() for name, values in stored.items()}
        stored, read = self.finished(stored, results)
        return Seen(read, stored, given, found, buffers, fresh)
