"""A program in the making: buffers, steps that read and write them, units of work in order.

Cores are numbered through all devices here: core 17 of a device with 16 is core 1 of device 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from npuscope.manycore.compiler.boxes import Box, Shape
from npuscope.manycore.compiler.kinds import Group


class Role(Enum):
    """What a buffer holds; the value is the word in an operand's description."""

    OUTPUT = "Activation"  # a core's part of what an op made
    RECEIVED = "Received"  # parts that other cores made
    BLOCKED = "Blocked"  # the same values in blocks of 32 channels
    CONSTANT = "Constant"  # loaded from DDR
    INPUT = "Input"  # loaded from DDR
    IN_DDR = "Placeholder"  # constants, inputs and outputs where they lie in DDR


@dataclass(frozen=True, slots=True)
class Buffer:
    """`family` names the buffers of all cores that are spilled together."""

    id: int
    core: int
    tensor: str
    box: Box
    bytes: int
    dtype: str
    role: Role
    family: str


@dataclass(frozen=True, slots=True)
class Access:
    """How much of a buffer a step reads or writes."""

    buffer: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a transfer between devices."""

    device: int
    transaction: int


@dataclass(frozen=True, slots=True)
class Step:
    """One op of one core before it has a number and its waits."""

    core: int
    group: Group
    kind: str  # of transfers: what it is while nothing is spilled
    name: str
    shape: Shape
    dtypes: tuple[str, ...]
    out_bytes: int
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    origin: tuple[str, ...]
    macs: int = 0
    attributes: str = ""
    port_wait: int | None = None
    semaphore: int | None = None
    after: tuple[int, ...] = ()  # steps that must have ended, whatever they wrote
    sends_to: Peer | None = None
    receives_from: Peer | None = None


@dataclass(slots=True)
class Unit:
    """Steps that belong together: loads may run ahead, work may not."""

    loads: list[int] = field(default_factory=list)
    work: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that ops made: by core its part and the buffer that holds it."""

    tensor: str
    pieces: dict[int, tuple[Box, int]]
    blocked: bool  # in blocks of 32 channels


class Draft:
    """What lowering fills."""

    def __init__(self, cores: int, devices: int) -> None:
        self.cores, self.devices = cores, devices
        self.buffers: list[Buffer] = []
        self.steps: list[Step] = []
        self.units: list[Unit] = [Unit()]
        self.values: dict[str, Value] = {}
        self.in_ddr: dict[str, int] = {}  # tensor -> its buffer in DDR
        self.loaded: dict[tuple[object, ...], int] = {}  # what is in VTCM already
        self.writers: dict[int, list[int]] = {}  # buffer -> steps
        self.transactions = 0
        self.warnings: list[str] = []

    @property
    def unit(self) -> Unit:
        return self.units[-1]

    def next_unit(self) -> None:
        if self.unit.work:
            self.units.append(Unit())

    def device(self, core: int) -> int:
        return core // self.cores

    def local(self, core: int) -> int:
        return core % self.cores

    def add_buffer(
        self, core: int, tensor: str, box: Box, size: int, dtype: str, role: Role, family: str
    ) -> Buffer:
        made = Buffer(len(self.buffers), core, tensor, box, size, dtype, role, family)
        self.buffers.append(made)
        return made

    def add_load(self, step: Step) -> int:
        return self._add(step, self.unit.loads)

    def add_work(self, step: Step) -> int:
        return self._add(step, self.unit.work)

    def _add(self, step: Step, queue: list[int]) -> int:
        number = len(self.steps)
        self.steps.append(step)
        queue.append(number)
        for access in step.writes:
            self.writers.setdefault(access.buffer, []).append(number)
        return number

    def cover(self, buffers: Iterable[int], origin: tuple[str, ...]) -> None:
        """An op that needs no work is told on the steps that made what it looks at."""
        for buffer in buffers:
            for number in self.writers.get(buffer, ()):
                step = self.steps[number]
                told = tuple(name for name in origin if name not in step.origin)
                self.steps[number] = replace(step, origin=(*step.origin, *told))
