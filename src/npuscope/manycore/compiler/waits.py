"""What every step waits for: who wrote what it reads, and who used the memory before it."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.manycore.compiler.draft import Draft
from npuscope.manycore.compiler.kinds import Group
from npuscope.manycore.compiler.vtcm import Placement


@dataclass(frozen=True, slots=True)
class Wait:
    """On a step; `data` tells whether values flow."""

    step: int
    data: bool


def find_waits(draft: Draft, placement: Placement) -> dict[int, tuple[Wait, ...]]:
    """By step. Groups issue in order, so what an earlier op has waited for is not named again."""
    return _Finder(draft, placement).run()


class _Finder:
    def __init__(self, draft: Draft, placement: Placement) -> None:
        self.draft, self.placement = draft, placement
        self.position = {step: i for i, step in enumerate(placement.order)}
        self.writers: dict[int, list[int]] = {}  # buffer -> steps so far
        self.users: dict[int, list[int]] = {}
        self.waited: dict[tuple[int, Group], set[int]] = {}

    def run(self) -> dict[int, tuple[Wait, ...]]:
        found: dict[int, tuple[Wait, ...]] = {}
        for number in self.placement.order:
            found[number] = self._of(number)
            step = self.draft.steps[number]
            for access in step.writes:
                self.writers.setdefault(access.buffer, []).append(number)
            for buffer in {access.buffer for access in (*step.reads, *step.writes)}:
                self.users.setdefault(buffer, []).append(number)
        return found

    def _of(self, number: int) -> tuple[Wait, ...]:
        step = self.draft.steps[number]
        data = {w for access in step.reads for w in self.writers.get(access.buffer, ())}
        data |= set(step.after)
        places = {
            user
            for access in step.writes
            for old in self.placement.replaces.get(access.buffer, ())
            for user in self.users.get(old, ())
        }
        queue = (step.core, step.group)
        known = self.waited.setdefault(queue, set())
        schedule = {w for w in places - data if not self._in_line(w, queue)}
        waits = [Wait(w, True) for w in self._latest(data) if w not in known]
        waits += [Wait(w, False) for w in self._latest(schedule) if w not in known]
        known.update(data, schedule)
        return tuple(waits)

    def _in_line(self, number: int, queue: tuple[int, Group]) -> bool:
        """An op of the same group, which ends before the next one is issued."""
        step = self.draft.steps[number]
        return (step.core, step.group) == queue and step.group is not Group.DMA

    def _latest(self, steps: set[int]) -> list[int]:
        """Of ops that one group runs one after the other only the last; transfers overlap."""
        last: dict[tuple[int, Group], int] = {}
        kept: list[int] = []
        for number in sorted(steps, key=self.position.__getitem__):
            step = self.draft.steps[number]
            if step.group is Group.DMA:
                kept.append(number)
            else:
                last[step.core, step.group] = number
        return sorted([*kept, *last.values()], key=self.position.__getitem__)
