"""Order of the units of work: tile by tile, and another tile's where an engine would be idle.

A short run of the program with the machine's rates. Who is first in rank goes first; a later unit
goes before it only on an engine that is free, and only while VTCM has room for what it makes."""

from __future__ import annotations

from heapq import heappop, heappush

from msgspec import Struct, field

from npuscope.families.many_core.compiler.draft import Draft, Role, Unit
from npuscope.families.many_core.compiler.kinds import GroupNumber
from npuscope.families.many_core.machine import CoreMachine

# Units that are looked at beyond the first one that waits: more make no better order.
_WINDOW = 48
_KEPT = (Role.OUTPUT, Role.RECEIVED, Role.BLOCKED)


def schedule(draft: Draft, machine: CoreMachine) -> None:
    """Puts the units of a draft in the order in which they are worked on."""
    units = [unit for unit in draft.units if unit.loads or unit.work]
    units.sort(key=lambda unit: unit.rank)
    draft.units = [units[number] for number in _Run(draft, units, machine).order()]


class _Job(Struct):
    """A unit with what it takes, waits for, and does to the memory of the fullest core."""

    engine: GroupNumber
    cycles: float
    waits: int = 0
    releases: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)  # buffers


class _Run:
    def __init__(self, draft: Draft, units: list[Unit], machine: CoreMachine) -> None:
        self.draft, self.machine = draft, machine
        self.jobs = [self._job(unit) for unit in units]
        self.readers: dict[int, int] = {}  # by buffer: jobs that still need it
        self._link(units)
        # The rest of VTCM is for constants that are on their way.
        self.room = machine.memory.vtcm_bytes * machine.memory.activation_share
        self.used: dict[int, int] = {}  # bytes by core
        self._present: set[int] = set()  # buffers that were written

    def _job(self, unit: Unit) -> _Job:
        machine = self.machine
        cycles: dict[tuple[int, GroupNumber], float] = {}
        for number in unit.work:
            step = self.draft.steps[number]
            size, place = step.out_bytes, (step.core, step.group)
            if step.group is GroupNumber.DMA:
                own = size * machine.core_hz / machine.multicast_bytes_per_s()
            else:
                own = machine.pcycles(step.kind, size, step.macs, step.dtypes[0], step.shape)
            cycles[place] = cycles.get(place, 0.0) + own
        engine, most = GroupNumber.DMA, 0.0
        for (_, group), duration in cycles.items():
            if duration > most:
                engine, most = group, duration
        return _Job(engine, most)

    def _link(self, units: list[Unit]) -> None:
        """Who reads or adds to what another one writes waits for it."""
        owner = {step: job for job, unit in enumerate(units) for step in (*unit.loads, *unit.work)}
        writers: dict[int, list[int]] = {}
        for number in sorted(owner):
            for access in self.draft.steps[number].writes:
                writers.setdefault(access.buffer, []).append(number)
        sources: list[set[int]] = [set() for _ in units]
        for number, job in owner.items():
            step = self.draft.steps[number]
            for access in step.reads:
                sources[job].update(owner[w] for w in writers.get(access.buffer, ()) if w < number)
            sources[job].update(owner[w] for w in step.after)
            uses = self.jobs[job].uses
            for access in (*step.writes, *step.reads):
                buffer = access.buffer
                if self.draft.buffers[buffer].role in _KEPT and buffer not in uses:
                    uses.append(buffer)
                    self.readers[buffer] = self.readers.get(buffer, 0) + 1
        for job, before in enumerate(sources):
            for source in before - {job}:
                self.jobs[source].releases.append(job)
                self.jobs[job].waits += 1

    def order(self) -> list[int]:
        jobs: list[int] = []
        ready = sorted(job for job, one in enumerate(self.jobs) if not one.waits)
        free = dict.fromkeys(GroupNumber, 0.0)
        running: list[tuple[float, int]] = []
        now = 0.0
        while len(jobs) < len(self.jobs):
            job = self._choose(ready, free, now, bool(running))
            if job is None:
                now, ended = heappop(running)
                for number in self.jobs[ended].uses:
                    self.readers[number] -= 1
                    if not self.readers[number]:
                        buffer = self.draft.buffers[number]
                        self.used[buffer.core] -= buffer.bytes
                for other in self.jobs[ended].releases:
                    self.jobs[other].waits -= 1
                    if not self.jobs[other].waits:
                        ready.append(other)
                ready.sort()
                continue
            ready.remove(job)
            for number in self.jobs[job].uses:
                if number not in self._present:
                    self._present.add(number)
                    buffer = self.draft.buffers[number]
                    self.used[buffer.core] = self.used.get(buffer.core, 0) + buffer.bytes
            jobs.append(job)
            end = now + self.jobs[job].cycles
            free[self.jobs[job].engine] = end
            heappush(running, (end, job))
        return jobs

    def _choose(
        self, ready: list[int], free: dict[GroupNumber, float], now: float, busy: bool
    ) -> int | None:
        """The first in rank whose engine is free; with nothing at work, the first of all."""
        if not ready:
            return None
        first = ready[0]
        for job in ready[:_WINDOW]:
            one = self.jobs[job]
            if free[one.engine] <= now and (job == first or self._fits(one)):
                return job
        return None if busy else first

    def _fits(self, job: _Job) -> bool:
        grown: dict[int, int] = {}
        for number in job.uses:
            buffer = self.draft.buffers[number]
            if number not in self._present:
                grown[buffer.core] = grown.get(buffer.core, 0) + buffer.bytes
        return all(self.used.get(core, 0) + more <= self.room for core, more in grown.items())
