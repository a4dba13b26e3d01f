"""The NPU's clock: what runs takes its cycles, and the debug unit sees them pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from npuscope.sim.debug_unit import Activity, DebugUnit, Level

_NOTHING = Level(0, 0)


@dataclass(slots=True)
class _Running:
    """Something at work, and the interrupts that it raises when it ends."""

    activity: Activity
    interrupts: int


class Timeline:
    """NPU cycles since power-up. Work is queued and ends when its time has come.

    Signals are known for a whole activity only. When the clock is read in the middle of one,
    cycles have passed but its own signals show first at its end.
    """

    def __init__(self, unit: DebugUnit) -> None:
        self.unit = unit
        self.busy_cycles = 0
        self._queue: deque[_Running] = deque()

    @property
    def now(self) -> int:
        return self.unit.npu_cycles

    @property
    def is_busy(self) -> bool:
        return bool(self._queue)

    @property
    def end(self) -> int | None:
        """When the work that is first in the queue ends."""
        return self.now + self._queue[0].activity.cycles if self._queue else None

    def start(self, activities: Iterable[tuple[Activity, int]]) -> None:
        """Work one after the other, from now on, each with its interrupts."""
        for activity, interrupts in activities:
            self._queue.append(_Running(activity, interrupts))
            self.busy_cycles += activity.cycles

    def stop(self) -> None:
        """What is at work is given up."""
        self._queue.clear()

    def advance_to(self, cycle: int) -> int:
        """Let time pass; gives the interrupts that were raised meanwhile."""
        raised = 0
        while self._queue and self.now + self._queue[0].activity.cycles <= cycle:
            done = self._queue.popleft()
            self.unit.advance(done.activity)
            raised |= done.interrupts
        if cycle > self.now:
            self._pass(cycle - self.now)
        return raised

    def _pass(self, cycles: int) -> None:
        if not self._queue:
            self.unit.advance(Activity(cycles))
            return
        running = self._queue[0]
        held = dict.fromkeys(running.activity.levels, _NOTHING)
        self.unit.advance(Activity(cycles, held))
        running.activity = replace(running.activity, cycles=running.activity.cycles - cycles)
