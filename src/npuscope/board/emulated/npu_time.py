"""The NPU's clock: what runs takes its cycles, and the debug unit sees them pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from npuscope.sim.debug_unit import Activity, DebugUnit, Level

_NOTHING = Level(0, 0)
# A processor that goes on without looking: so long after the last start units begin anyway.
SETTLE_CYCLES = 2000


@dataclass(slots=True)
class _Running:
    """Something at work, what is left of it, and the interrupts that it raises when it ends."""

    whole: Activity
    left: Activity
    interrupts: int


class Timeline:
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
            done = self._queue.popleft()
            self.now += done.left.cycles
            self.unit.advance(done.left)
            raised |= done.interrupts
            self._over = not self._queue
        if cycle > self.now:
            self._pass(cycle - self.now)
        return raised

    def _pass(self, cycles: int) -> None:
        self.now += cycles
        if self._queue:
            running = self._queue[0]
            held = dict.fromkeys(running.left.levels, _NOTHING)
            self.unit.advance(Activity(cycles, held))
            running.left = replace(running.left, cycles=running.left.cycles - cycles)
        elif not self._over:
            self.unit.advance(Activity(cycles))
