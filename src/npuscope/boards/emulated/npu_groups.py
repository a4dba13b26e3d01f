"""From registers to work: the units that run, lifted to a group, and what the simulator counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

import numpy as np
from msgspec import Struct

from npuscope.boards.emulated.memory import COEFFICIENT_BYTES, UnitMemory
from npuscope.errors import DeviceError, NpuscopeError
from npuscope.machine.model import Machine
from npuscope.program.ec_blob.lift import lift_unit
from npuscope.program.ec_blob.register_file import RegisterFile, lift_links
from npuscope.program.ec_blob.registers import page_name, page_of
from npuscope.program.ec_blob.tables import Tables
from npuscope.program.model import Epoch, EpochKind, Group, Program
from npuscope.program.units import Ref, Streng, Unit
from npuscope.sim.counters import EpochCounters
from npuscope.sim.debug_unit import Activity, DebugUnit, Level
from npuscope.sim.epochs import count_epochs
from npuscope.sim.run import run_epoch
from npuscope.structs import replace

Key = tuple[Hashable, ...]
# A quarter of the room: the longest vectors of a group always find place behind it.
_MOST_COEFFICIENTS = COEFFICIENT_BYTES // 4
_MOST_GROUPS = 4096
# What registers raise that no driver would write.
_NO_SENSE = (ValueError, LookupError, ArithmeticError, MemoryError)
_SWITCH = page_of("STRSWITCH", 0)


class UnitGroup(Struct, frozen=True):
    """Units that are on together; equal registers give equal work."""

    key: Key
    group: Group

    @property
    def engines_out(self) -> int:
        """Bits of the engines that store: each tells by an interrupt when it has ended."""
        engines = (unit for unit in self.group.units if isinstance(unit, Streng) and unit.dir)
        return sum(1 << engine.id for engine in engines)

    @property
    def pages(self) -> tuple[int, ...]:
        return tuple(page_of(unit.unit, unit.id) for unit in self.group.units)


class Groups:
    """Lifts, runs and counts groups; what is equal between inferences is done once."""

    def __init__(self, memory: UnitMemory, machine: Machine) -> None:
        self._memory = memory
        self._machine = machine
        self._forget()

    def _forget(self) -> None:
        self._tables = Tables()
        self._work: dict[Key, UnitGroup] = {}
        self._counted: dict[tuple[bool, tuple[Key, ...]], EpochCounters] = {}

    def lift(self, file: RegisterFile) -> UnitGroup:
        """The units that are on now."""
        units = ((page, *_words(file, page)) for page in file.enabled)
        key = (*units, _words(file, _SWITCH))
        if key not in self._work:
            if self._tables.size_bytes > _MOST_COEFFICIENTS or len(self._work) >= _MOST_GROUPS:
                self._forget()
            self._work[key] = UnitGroup(key, self._lifted(file))
        return self._work[key]

    def run(self, work: UnitGroup) -> None:
        """Data only: read, compute, store."""
        try:
            run_epoch(_epoch((work.group,)), self._memory)
        except NpuscopeError as error:
            names = ", ".join(f"{unit.unit} {unit.id}" for unit in work.group.units)
            raise DeviceError(
                f"the NPU stopped: {error.message}", where=names, hint=error.hint
            ) from error

    def count(self, work: tuple[UnitGroup, ...], blob: bool) -> EpochCounters:
        """Time and counters of one epoch: one group, or all of one label in a blob."""
        key = blob, tuple(part.key for part in work)
        if key not in self._counted:
            epoch = _epoch(tuple(part.group for part in work), 0 if blob else None)
            try:
                buffers = tuple(self._memory.buffers.values())
                name, generation = self._machine.name, self._machine.generation.name
                self._counted[key] = count_epochs(
                    Program(
                        "", name, generation, True, self._memory.pools, buffers, (epoch,), (), ()
                    ),
                    self._machine,
                )[0]
            except _NO_SENSE as error:
                raise DeviceError(f"units that cannot be timed: {error}", where="NPU") from error
        return self._counted[key]

    def _lifted(self, file: RegisterFile) -> Group:
        names = ", ".join(page_name(page) for page in file.enabled)
        try:
            units = tuple(self._unit(file, page) for page in file.enabled)
            return Group(units, lift_links(file.switch))
        except NpuscopeError as error:
            raise DeviceError(f"the NPU cannot run: {error.message}", where=names) from error
        except _NO_SENSE as error:
            raise DeviceError(f"registers contradict each other: {error}", where=names) from error

    def _unit(self, file: RegisterFile, page: int) -> Unit:
        unit = lift_unit(file, page, self._memory.place, self._keep)
        if isinstance(unit, Streng) and unit.dir:
            pool = unit.addr_base.buffer
            if self._memory.buffers[pool].is_param:
                raise DeviceError(f"stream engine {unit.id} writes to {pool}, which is read only")
        return unit

    def _keep(self, name: str, values: np.ndarray) -> Ref:
        before = len(self._tables.buffers)
        place = self._tables.keep(f"@{before}.{name}", values)
        for buffer in self._tables.buffers[before:]:
            self._memory.load(buffer.offset, values)
            self._memory.set_coefficients(self._tables.pool(), [buffer])
        return place


def _epoch(groups: tuple[Group, ...], blob: int | None = None) -> Epoch:
    return Epoch(0, 0, EpochKind.HW, blob=blob, groups=groups)


def _words(file: RegisterFile, page: int) -> tuple[Hashable, ...]:
    registers = frozenset(file.registers.get(page, {}).items())
    return registers, frozenset(file.memory(page).items())


# The NPU's clock: what runs takes its cycles, and the debug unit sees them pass.

_NOTHING = Level(0, 0)
# A processor that goes on without looking: so long after the last start units begin anyway.
SETTLE_CYCLES = 2000


class _Running(Struct):
    """Something at work, what is left of it, and the interrupts that it raises when it ends."""

    whole: Activity
    left: Activity
    interrupts: int


class NpuTime:
    """NPU cycles since power-up. Work is queued and ends when its time has come.

    Signals are known for a whole activity only. When the clock is read in the middle of one,
    cycles have passed but its own signals show first at its end.

    The debug unit measures the work and not the processor's way to its counters, as on the
    simulated board: work begins with the last look at the unit right after a start, and nothing
    is counted from its end until the unit is asked again.
    """

    def __init__(self, unit: DebugUnit) -> None:
        self.unit = unit
        self.now = 0
        self.busy_cycles = 0
        self._queue: deque[_Running] = deque()
        self._begun = 0
        self._over = False  # work ended, and nobody has looked

    @property
    def is_busy(self) -> bool:
        return bool(self._queue)

    @property
    def end(self) -> int | None:
        """When the work that is first in the queue ends."""
        return self.now + self._queue[0].left.cycles if self._queue else None

    def start(self, activities: Iterable[tuple[Activity, int]]) -> None:
        """Work one after the other, from now on, each with its interrupts."""
        self._begun, self._over = self.now, False
        for activity, interrupts in activities:
            self._queue.append(_Running(activity, activity, interrupts))
            self.busy_cycles += activity.cycles

    def stop(self) -> None:
        """What is at work is given up."""
        self._queue.clear()

    def look(self, cycle: int) -> int:
        """The debug unit is asked; gives the interrupts that were raised meanwhile."""
        raised = self.advance_to(cycle)
        if self._queue and cycle - self._begun <= SETTLE_CYCLES:
            self._queue[0].left = self._queue[0].whole
        self._over = False
        return raised

    def advance_to(self, cycle: int) -> int:
        """Let time pass; gives the interrupts that were raised meanwhile."""
        raised = 0
        while self._queue and self.now + self._queue[0].left.cycles <= cycle:
            finished = self._queue.popleft()
            self.now += finished.left.cycles
            self.unit.advance(finished.left)
            raised |= finished.interrupts
            self._over = not self._queue
        if cycle > self.now:
            cycles = cycle - self.now
            self.now += cycles
            if self._queue:
                running = self._queue[0]
                levels = dict.fromkeys(running.left.levels, _NOTHING)
                self.unit.advance(Activity(cycles, levels))
                running.left = replace(running.left, cycles=running.left.cycles - cycles)
            elif not self._over:
                self.unit.advance(Activity(cycles))
        return raised
