"""From the timeline of an inference to the sections that level and flags ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.buffer_format import Records, collected
from npuscope.families.many_core.records import SECTIONS, SectionId
from npuscope.families.many_core.sim.conditions import Conditions
from npuscope.families.many_core.sim.events import Timeline
from npuscope.families.many_core.sim.plan import CardPlan
from npuscope.families.many_core.sim.pmu import (
    OpActivity,
    RecordColumns,
    activity_of,
    columns_of,
    count_events,
    ddr_rows,
    move_columns,
)


class Origin(Struct, frozen=True):
    """Where an inference stands on the device's own clocks, and when the device was activated."""

    tick: int
    cycle: int
    doorbell: int  # when the host's input rang
    activated: tuple[tuple[int, int], ...]  # by thread of the device: begin and end


class Collector:
    """Makes records of one device; what does not change is worked out once."""

    def __init__(self, plan: CardPlan, device: int, numbers: Sequence[int]) -> None:
        self._plan, self._device, self._numbers = plan, device, numbers
        self._columns: RecordColumns = columns_of(plan, device)
        self._moves = move_columns(self._columns, plan)
        self._ddr = ddr_rows(plan, device)

    def sections(
        self, line: Timeline, conditions: Conditions, origin: Origin
    ) -> dict[SectionId, Records]:
        parts = _Sections(self._plan, self._columns, line, conditions, origin, self._device)
        sources: dict[SectionId, Callable[[], Records]] = {
            SectionId.THREAD_INF: parts.threads,
            SectionId.THREAD_ACT: parts.activations,
            SectionId.PMU_THREAD: parts.thread_counts,
            SectionId.DDR_CORE: lambda: _rows(SectionId.DDR_CORE, self._ddr),
            SectionId.PORT_WAIT: parts.port_waits,
            SectionId.PORT_RING: parts.rings,
            SectionId.SEM_OP: lambda: parts.ops(SectionId.SEM_OP)[self._columns.semaphores],
            SectionId.OP_REC: lambda: parts.ops(SectionId.OP_REC),
            SectionId.DMA_REC: lambda: parts.moves(self._moves),
            SectionId.P2P_REC: lambda: parts.peers(self._numbers),
            SectionId.OP_PMU: parts.op_counts,
        }
        layout = self._plan.layout
        return {key: sources[key]() for key in collected(layout.stats_level, layout)}


class _Sections(Struct):
    plan: CardPlan
    columns: RecordColumns
    line: Timeline
    conditions: Conditions
    origin: Origin
    device: int
    activity: OpActivity | None = None

    def threads(self) -> Records:
        """A thread's inference is from the start of its core to the end of its last op."""
        ends = np.zeros(len(self.columns.threads))
        np.maximum.at(ends, self.columns.span, np.array(self._of(self.line.barrier)))
        clock = self.conditions.clocks[self.device]
        rows = []
        for (core, thread), last in zip(self.columns.threads, ends.tolist(), strict=True):
            start = self.conditions.skew[self.device][core]
            stamps = (start, max(int(last), start))
            ticks = (self.origin.tick + stamp for stamp in stamps)
            cycles = (self.origin.cycle + int(clock.cycles_at(stamp)) for stamp in stamps)
            rows.append((core, thread, 0, *ticks, *cycles))
        return _rows(SectionId.THREAD_INF, rows)

    def activations(self) -> Records:
        spans = zip(self.columns.threads, self.origin.activated, strict=True)
        return _rows(SectionId.THREAD_ACT, [(*place, 0, *span) for place, span in spans])

    def port_waits(self) -> Records:
        """Every thread has a record for every host port; few of them wait."""
        rows = []
        for core, thread in self.columns.threads:
            for port in self.plan.layout.ports:
                key = (self.device, core, thread, port.id)
                if port.kind != "host" and key not in self.line.port_waits:
                    continue
                waits, ticks = self.line.port_waits.get(key, (0, 0.0))
                rows.append((core, thread, port.id, 0, int(waits), 0, int(ticks)))
        return _rows(SectionId.PORT_WAIT, rows)

    def rings(self) -> Records:
        """Each core notices a doorbell of the host's input on its own."""
        ports = [p.id for p in self.plan.layout.ports if p.incoming and p.kind == "host"]
        rows = [
            (port, 0, core, self.origin.doorbell)
            for port in ports
            for core in range(self.plan.cores)
        ]
        return _rows(SectionId.PORT_RING, rows)

    def ops(self, section: SectionId) -> Records:
        columns = self.columns
        records = np.zeros(len(columns.task), SECTIONS[section].dtype)
        records["core"], records["thread"], records["oc"] = columns.core, columns.thread, columns.oc
        stamps = {
            "sync_uc": self.line.sync,
            "start_uc": self.line.start,
            "end_uc": self.line.end,
            "barrier_uc": self.line.barrier,
        }
        for name, times in stamps.items():
            records[name] = self._ticks(self._of(times))
        records["pc"] = np.rint(self._of(self.line.cycles))
        records["flags"] = columns.flags
        return records

    def moves(self, static: list[tuple[int, ...]]) -> Records:
        indices = [task.index for task in self.columns.moves]
        issued = self._ticks([self.line.issued[index] for index in indices])
        ends = self._ticks([self.line.done[index] for index in indices])
        rows = [
            (core, thread, oc, begin, end, size, source, target, entry, 0)
            for (core, thread, oc, size, source, target, entry), begin, end in zip(
                static, issued.tolist(), ends.tolist(), strict=True
            )
        ]
        return _rows(SectionId.DMA_REC, rows)

    def peers(self, numbers: Sequence[int]) -> Records:
        """Both devices record a transfer, each its own part of it."""
        rows = []
        for pair in self.plan.peers:
            source, target = self.plan.tasks[pair.source], self.plan.tasks[pair.target]
            devices = (numbers[source.device], numbers[target.device])
            for task in (source, target):
                transfer = task.op.transfer
                if task.device != self.device or transfer is None:
                    continue
                begin, end = self._ticks([self.line.issued[task.index], self.line.done[task.index]])
                port = transfer.port or 0
                where = (*devices, port, 0, pair.number, task.op.info.oc)
                rows.append((*where, begin, end, transfer.bytes))
        return _rows(SectionId.P2P_REC, rows)

    def thread_counts(self) -> Records:
        events = self.plan.layout.pmu.events
        sums = []
        for column in count_events(events, self._activity()):
            sums.append(np.zeros(len(self.columns.threads), np.int64))
            np.add.at(sums[-1], self.columns.span, column)
        rows = [
            (core, thread, len(events), 0, *(int(column[nth]) for column in sums))
            for nth, (core, thread) in enumerate(self.columns.threads)
        ]
        return _rows(SectionId.PMU_THREAD, rows)

    def op_counts(self) -> Records:
        columns = self.columns
        records = np.zeros(len(columns.task), SECTIONS[SectionId.OP_PMU].dtype)
        records["core"], records["thread"], records["oc"] = columns.core, columns.thread, columns.oc
        counts = count_events(self.plan.layout.pmu.events, self._activity())
        for nth, column in enumerate(counts):
            # The registers have 32 bits and wrap.
            records[f"count{nth}"] = column & 0xFFFFFFFF
        return records

    def _activity(self) -> OpActivity:
        if self.activity is None:
            self.activity = activity_of(self.plan, self.line, self.conditions, self.columns)
        return self.activity

    def _of(self, times: list[float]) -> list[float]:
        return times[self.columns.first : self.columns.first + len(self.columns.task)]

    def _ticks(self, times: Sequence[float]) -> np.ndarray:
        """Whole ticks that have passed: stamps that are equal stay equal, order is kept."""
        return np.floor(np.array(times, np.float64)).astype(np.uint64) + np.uint64(self.origin.tick)


def _rows(section: SectionId, rows: Sequence[tuple[int, ...]]) -> Records:
    return np.array(rows, SECTIONS[section].dtype)
