"""A program in the making: buffers, steps that read and write them, units of work in order.

Cores are numbered through all devices here: core 17 of a device with 16 is core 1 of device 1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import permutations

from msgspec import Struct, field

from npuscope.families.many_core.compiler.boxes import Box, Shape, elements, full, shape_of
from npuscope.families.many_core.compiler.depth_first import BatchParts
from npuscope.families.many_core.compiler.kinds import (
    COPY_IN,
    GroupNumber,
    device_dtype,
    size_bytes,
)
from npuscope.families.many_core.layout import CorePort
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.program import Made
from npuscope.graph.model import Graph
from npuscope.structs import replace

# --- Ports of a device: to the host, and one pair per direction to every other device ---

# Numbers of the open runtime: 100 is the host's input, 101 its output.
INPUT_PORT, OUTPUT_PORT = 100, 101
_FIRST_PEER_PORT = 102
INPUT_SEMAPHORE_NUMBER, OUTPUT_SEMAPHORE_NUMBER = 0, 1


def ports(devices: int) -> tuple[CorePort, ...]:
    """Of the host; then, of each two devices, where bytes leave one and arrive at the other."""
    rows = [
        CorePort(INPUT_PORT, True, "host", "Host_IO_Port"),
        CorePort(OUTPUT_PORT, False, "host", "Host_IO_Port"),
    ]
    for a, b in permutations(range(devices), 2):
        rows.append(CorePort(leaving(devices, a, b), False, "p2p", f"{a}->{b}", b))
        rows.append(CorePort(arriving(devices, a, b), True, "p2p", f"{b}<-{a}", a))
    return tuple(rows)


def leaving(devices: int, source: int, target: int) -> int:
    return _FIRST_PEER_PORT + 2 * (source * (devices - 1) + target - (target > source))


def arriving(devices: int, source: int, target: int) -> int:
    return leaving(devices, source, target) + 1


class Role(Enum):
    """What a buffer holds; the value is the word in an operand's description."""

    OUTPUT = "Activation"  # a core's part of what an op made
    RECEIVED = "Received"  # parts that other cores made
    BLOCKED = "Blocked"  # the same values in blocks of 32 channels
    CONSTANT = "Constant"  # loaded from DDR
    INPUT = "Input"  # loaded from DDR
    IN_DDR = "Placeholder"  # constants, inputs and outputs where they lie in DDR


class DraftBuffer(Struct, frozen=True):
    """`family` names the buffers of all cores that are spilled together."""

    id: int
    core: int
    tensor: str
    box: Box
    bytes: int
    dtype: str
    role: Role
    family: str


class BufferAccess(Struct, frozen=True):
    """How much of a buffer a step reads or writes; `view` is what the buffer holds as seen by
    the step: a part of a tensor, where that is not the buffer's own (a reshaped one)."""

    buffer: int
    bytes: int
    view: tuple[str, Box] | None = None


class PeerEnd(Struct, frozen=True):
    """The other end of a transfer between devices."""

    device: int
    transaction: int


class CoreStep(Struct, frozen=True):
    """One op of one core before it has a number and its waits."""

    core: int
    group: GroupNumber
    kind: str  # of transfers: what it is while nothing is spilled
    name: str
    shape: Shape
    dtypes: tuple[str, ...]
    out_bytes: int
    reads: tuple[BufferAccess, ...]
    writes: tuple[BufferAccess, ...]
    origin: tuple[str, ...]
    macs: int = 0
    attributes: str = ""
    port_wait: int | None = None
    semaphore: int | None = None
    after: tuple[int, ...] = ()  # steps that must have ended, whatever they wrote
    makes: Made | None = None
    sends_to: PeerEnd | None = None
    receives_from: PeerEnd | None = None


Rank = tuple[int, int, int]  # chain of ops that goes tile by tile, tile, op


class Unit(Struct):
    """Steps that belong together: loads may run ahead, work may not."""

    loads: list[int] = field(default_factory=list)
    work: list[int] = field(default_factory=list)
    rank: Rank = (0, 0, 0)


Piece = tuple[Box, int]  # a part of a tensor and the buffer that holds it


class PlacedValue(Struct, frozen=True):
    """A tensor that ops made: by core its pieces, one per tile."""

    tensor: str
    pieces: dict[int, tuple[Piece, ...]]
    blocked: bool  # in blocks of 32 channels
    chain: int = -1  # first op of the chain that it was made in, tile by tile

    def all_pieces(self) -> Iterator[tuple[int, Box, int]]:
        for core, pieces in self.pieces.items():
            for box, buffer in pieces:
                yield core, box, buffer


class Draft:
    """What lowering fills."""

    def __init__(
        self,
        cores: int,
        devices: int,
        most_splits: int | None = None,
        batch_parts: dict[int, BatchParts] | None = None,
        stages: dict[int, tuple[int, ...]] | None = None,
    ) -> None:
        self.cores, self.devices = cores, devices
        self.most_splits = most_splits  # of the channels of a product
        self.batch_parts = batch_parts or {}  # by number of an op
        self.stages = stages or {}  # by number of an op its devices, where not all share it
        self.buffers: list[DraftBuffer] = []
        self.steps: list[CoreStep] = []
        self.units: list[Unit] = [Unit()]
        self.values: dict[str, PlacedValue] = {}
        self.in_ddr: dict[str, int] = {}  # tensor -> its buffer in DDR
        self.loaded: dict[tuple[object, ...], int] = {}  # what is in VTCM already
        # By core, source buffer and tensor: what was sent to the core before.
        self.received: dict[tuple[int, int, str], list[Piece]] = {}
        self.writers: dict[int, list[int]] = {}  # buffer -> steps
        self.transactions = 0
        self.loads = 0  # of one core for others
        self.rank: Rank = (0, 0, 0)  # of the units that are made now
        self.warnings: list[str] = []

    @property
    def unit(self) -> Unit:
        return self.units[-1]

    def next_unit(self) -> None:
        if self.unit.work or self.unit.loads:
            self.units.append(Unit())
        self.unit.rank = self.rank

    def cores_for(self, number: int) -> tuple[int, ...]:
        """Those that may work on an op, of all of its devices."""
        devices = self.stages.get(number, range(self.devices))
        return tuple(device * self.cores + core for device in devices for core in range(self.cores))

    def device(self, core: int) -> int:
        return core // self.cores

    def local(self, core: int) -> int:
        return core % self.cores

    def add_buffer(
        self, core: int, tensor: str, box: Box, size: int, dtype: str, role: Role, family: str
    ) -> DraftBuffer:
        buffer = DraftBuffer(len(self.buffers), core, tensor, box, size, dtype, role, family)
        self.buffers.append(buffer)
        return buffer

    def next_loader(self, cores: Iterable[int]) -> int:
        """Cores take turns in loading what several of them need."""
        able = sorted(cores)
        self.loads += 1
        return able[self.loads % len(able)]

    def add_load(self, step: CoreStep) -> int:
        return self._add(step, self.unit.loads)

    def add_work(self, step: CoreStep) -> int:
        return self._add(step, self.unit.work)

    def _add(self, step: CoreStep, queue: list[int]) -> int:
        number = len(self.steps)
        self.steps.append(step)
        queue.append(number)
        for access in step.writes:
            self.writers.setdefault(access.buffer, []).append(number)
        return number

    def cover(self, buffers: Iterable[int], origin: tuple[str, ...]) -> None:
        """An op that needs no work is named on the steps that made its input."""
        for buffer in buffers:
            for number in self.writers.get(buffer, ()):
                step = self.steps[number]
                missing = tuple(name for name in origin if name not in step.origin)
                self.steps[number] = replace(step, origin=(*step.origin, *missing))


# --- What all parts of the lowering share ---

Origin = tuple[str, ...]
Operands = dict[int, tuple[BufferAccess, ...]]  # by core what it reads


class DraftContext(Struct, frozen=True):
    graph: Graph
    draft: Draft
    machine: CoreMachine

    def bytes_of(self, name: str, box: Box | None) -> int:
        return 0 if box is None else size_bytes(self.graph.tensors[name], elements(box))

    def dtype(self, name: str) -> str:
        return device_dtype(self.graph.tensors[name])

    def buffer(self, core: int, name: str, box: Box, role: Role, tile: int = 0) -> BufferAccess:
        """A new buffer for a part of a tensor."""
        size = self.bytes_of(name, box)
        family = f"{name}{f' tile {tile}' if tile else ''} ({role.value.lower()})"
        buffer = self.draft.add_buffer(core, name, box, size, self.dtype(name), role, family)
        return BufferAccess(buffer.id, size)

    def whole(self, buffer: int) -> BufferAccess:
        return BufferAccess(buffer, self.draft.buffers[buffer].bytes)

    def in_ddr(self, name: str) -> int:
        """The buffer in DDR of a constant, an input or an output."""
        places = self.draft.in_ddr
        if name not in places:
            box = full(self.graph.tensors[name].shape)
            places[name] = self.buffer(-1, name, box, Role.IN_DDR).buffer
        return places[name]

    def move(
        self,
        core: int,
        kind: str,
        part: tuple[str, Box],
        reads: tuple[BufferAccess, ...],
        writes: tuple[BufferAccess, ...],
        origin: Origin,
    ) -> CoreStep:
        """A transfer of a part of a tensor."""
        name, box = part
        size, dtypes = self.bytes_of(name, box), (self.dtype(name),)
        shape, moved = shape_of(box), Made(None, box)
        return CoreStep(
            core,
            GroupNumber.DMA,
            kind,
            name,
            shape,
            dtypes,
            size,
            reads,
            writes,
            origin,
            makes=moved,
        )

    def copy_in(self, core: int, name: str, box: Box, target: int, origin: Origin) -> CoreStep:
        """A part of what lies in DDR into a buffer."""
        size = self.bytes_of(name, box)
        reads = (BufferAccess(self.in_ddr(name), size),)
        return self.move(core, COPY_IN, (name, box), reads, (BufferAccess(target, size),), origin)

    def work(
        self,
        core: int,
        kind: str,
        title: str,
        part: tuple[str, Box],
        reads: tuple[BufferAccess, ...],
        target: BufferAccess,
        origin: Origin,
    ) -> CoreStep:
        """An op of the HVX threads that makes a part of a tensor."""
        name, box = part
        sources = (self.draft.buffers[access.buffer].dtype for access in reads[:1])
        dtypes = tuple(dict.fromkeys((*sources, self.dtype(name))))
        shape, size, moved = shape_of(box), self.bytes_of(name, box), Made(None, box)
        return CoreStep(
            core,
            GroupNumber.HVX,
            kind,
            title,
            shape,
            dtypes,
            size,
            reads,
            (target,),
            origin,
            makes=moved,
        )
