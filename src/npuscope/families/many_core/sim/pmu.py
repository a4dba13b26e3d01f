"""Counts of PMU events, from what the threads of a device did.

Which events a real recipe holds is not published; codes are those of the same processor family."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.layout import Engine
from npuscope.families.many_core.program import Space
from npuscope.families.many_core.records import ASYNCHRONOUS, PMU_COUNTERS
from npuscope.families.many_core.sim.conditions import Conditions
from npuscope.families.many_core.sim.events import Timeline
from npuscope.families.many_core.sim.plan import CardPlan, Task

# --- What the records of all inferences have in common, as columns ---

Column = np.ndarray
_NO_ENTRY = 0xFFFF  # in the record: this transfer is not a multicast


class RecordColumns(Struct, frozen=True):
    """Rows are op records (one per thread), transfers and threads of one device."""

    first: int  # row of the plan that is row 0 here
    core: Column
    thread: Column
    oc: Column
    flags: Column
    task: Column  # number in the plan
    is_first: Column  # the record of the first thread of its op
    semaphores: Column  # rows of ops that increment one
    moves: tuple[Task, ...]  # tasks that move bytes
    threads: tuple[tuple[int, int], ...]  # (core, thread)
    span: Column  # by row: place of its thread in `threads`


def columns_of(plan: CardPlan, device: int) -> RecordColumns:
    tasks = [task for task in plan.tasks if task.device == device]
    rows = [(task, nth) for task in tasks for nth in range(task.rows)]
    threads = tuple((c, t.id) for c in range(plan.cores) for t in plan.layout.threads)
    places = {place: number for number, place in enumerate(threads)}
    owners = [(task.op.core, plan.queues[task.queue].threads[nth]) for task, nth in rows]
    return RecordColumns(
        tasks[0].row if tasks else 0,
        np.array([core for core, _ in owners], np.int64),
        np.array([thread for _, thread in owners], np.int64),
        np.array([task.op.info.oc for task, _ in rows], np.int64),
        np.array([ASYNCHRONOUS if task.asynchronous else 0 for task, _ in rows], np.int64),
        np.array([task.index for task, _ in rows], np.int64),
        np.array([nth == 0 for _, nth in rows], bool),
        np.flatnonzero([task.op.semaphore is not None for task, _ in rows]),
        tuple(task for task in tasks if task.op.transfer is not None),
        threads,
        np.array([places[owner] for owner in owners], np.int64),
    )


def move_columns(columns: RecordColumns, plan: CardPlan) -> list[tuple[int, ...]]:
    """Core, thread, op, bytes, ends and multicast entry of each transfer."""
    rows: list[tuple[int, ...]] = []
    for task in columns.moves:
        transfer = task.op.transfer
        if transfer is None:
            continue
        entry = _NO_ENTRY if transfer.multicast is None else transfer.multicast
        thread = plan.queues[task.queue].threads[0]
        ends = (int(transfer.source), int(transfer.target))
        rows.append((task.op.core, thread, task.op.info.oc, transfer.bytes, *ends, entry))
    return rows


def ddr_rows(plan: CardPlan, device: int) -> list[tuple[int, ...]]:
    """By core: bytes read and written in DDR, received and sent by multicast."""
    sums = [[0, 0, 0, 0] for _ in range(plan.cores)]
    for task in plan.tasks:
        if task.device != device:
            continue
        from_ddr, to_ddr = ddr_bytes(task)
        sums[task.op.core][0] += from_ddr
        sums[task.op.core][1] += to_ddr
        transfer = task.op.transfer
        if transfer is not None and transfer.receivers:
            sums[task.op.core][3] += transfer.bytes
            for core, row in enumerate(sums):
                if transfer.receivers >> core & 1 and core != task.op.core:
                    row[2] += transfer.bytes
    return [(core, 0, *row) for core, row in enumerate(sums)]


def ddr_bytes(task: Task) -> tuple[int, int]:
    """Read and written by one op: by its transfer, or by its threads where they reach there."""
    transfer, info = task.op.transfer, task.op.info
    if transfer is not None:
        read = transfer.bytes if transfer.source is Space.DDR else 0
        return read, transfer.bytes if transfer.target is Space.DDR else 0
    # The buffer itself is not part of the network's traffic.
    return (0, 0) if task.is_end else (info.rd_bytes, info.wr_bytes)


class OpActivity(Struct, frozen=True):
    """By op record: cycles at work by engine, cycles of waiting, MACs, bytes on the bus."""

    hvx: Column
    hvx_moving: Column  # cycles with accesses to VTCM under way
    hmx: Column
    dma: Column
    executed: Column
    weight_wait: Column
    activation_wait: Column
    fixed_macs: Column
    float_macs: Column
    read: Column
    written: Column


# Bursts of a bus by size; what is left over goes in beats.
_BURSTS, _BEAT = (256, 128, 64, 32), 8


def _bursts(size: Column, burst: int) -> Column:
    larger = burst * 2
    rest = size % larger if larger in _BURSTS else size
    whole: Column = rest // burst
    return whole


def _accesses(size: Column) -> Column:
    beats: Column = -(-(size % _BURSTS[-1]) // _BEAT)
    for burst in _BURSTS:
        beats = beats + _bursts(size, burst)
    return beats


_Count = Callable[[OpActivity], Column]
EVENTS: dict[int, _Count] = {
    0x3: lambda a: a.executed,  # packets: one per cycle
    0x40: lambda a: _accesses(a.read),
    0x41: lambda a: _bursts(a.read, 32),
    0xCE: lambda a: _bursts(a.read, 64),
    0x3F: lambda a: _bursts(a.read, 128),
    0xCD: lambda a: _bursts(a.read, 256),
    0x42: lambda a: _accesses(a.written),
    0x43: lambda a: _bursts(a.written, 32),
    0xCF: lambda a: _bursts(a.written, 64),
    0x46: lambda a: _bursts(a.written, 128),
    0x55: lambda a: _bursts(a.written, 256),
    0x100: lambda a: a.hvx,  # HVX active
    0x105: lambda a: a.hvx_moving,  # HVX has accesses to VTCM under way
    0x111: lambda a: a.hvx - a.hvx_moving // 2,  # HVX packets: half of the accesses stall
    0x200: lambda a: a.hmx,  # HMX active
    0x205: lambda a: a.fixed_macs + a.float_macs,
    0x209: lambda a: a.activation_wait,
    0x20A: lambda a: a.weight_wait,
    0x211: lambda a: a.fixed_macs,
    0x212: lambda a: a.float_macs,
    0x214: lambda a: a.hmx + a.activation_wait + a.weight_wait,  # HMX clocked
    0x240: lambda a: a.dma,  # DMA active
}


def not_modelled(events: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(
        f"event {event:X} is not modelled: it counts 0" for event in events if event not in EVENTS
    )


def count_events(events: tuple[int, ...], activity: OpActivity) -> list[Column]:
    """Eight columns by op record; those not in use are zero."""
    nothing = np.zeros_like(activity.hvx)
    columns = [EVENTS[event](activity) if event in EVENTS else nothing for event in events]
    return [*columns, *[nothing] * (PMU_COUNTERS - len(columns))]


def activity_of(
    plan: CardPlan, line: Timeline, conditions: Conditions, columns: RecordColumns
) -> OpActivity:
    rows = len(columns.task)
    place = slice(columns.first, columns.first + rows)
    cycles = np.rint(np.array(line.cycles[place])).astype(np.int64)
    tasks = [plan.tasks[index] for index in columns.task]
    engines = np.array([list(Engine).index(plan.queues[t.queue].engine) for t in tasks], np.int64)
    # Storing the stats buffer is work of the scalar core.
    own = ~np.array([task.is_end for task in tasks], bool)
    hvx, hmx = (
        own & (engines == list(Engine).index(engine)) for engine in (Engine.HVX, Engine.HMX)
    )
    first = columns.is_first
    by_weights = _waits_for_weights(plan, line, tasks)
    waited = _waited_cycles(line, conditions, tasks, place) * hmx
    macs = first * np.array([task.op.info.macs for task in tasks], np.int64)
    dtypes = [task.op.info.dtypes for task in tasks]
    floating = np.array([not d or d[0].startswith(("float", "bfloat")) for d in dtypes], bool)
    incoming, outgoing = (np.array(column, np.int64) for column in _bus_bytes(tasks))
    # Accesses to VTCM of each thread of an op.
    counts = [_ACCESSES * task.op.info.out_bytes // _VECTOR // max(task.rows, 1) for task in tasks]
    return OpActivity(
        hvx * cycles,
        hvx * np.minimum(cycles, np.array(counts, np.int64)),
        hmx * cycles,
        first * _moving_cycles(line, conditions, tasks),
        cycles,
        waited * by_weights,
        waited * ~by_weights,
        macs * ~floating,
        macs * floating,
        incoming * first,
        outgoing * first,
    )


_VECTOR = 128  # bytes
# A vector of output is written, and at least one of input read for it.
_ACCESSES = 2


def _bus_bytes(tasks: list[Task]) -> tuple[list[int], list[int]]:
    """Read and written outside the core: DDR, peers, and VTCM of other cores."""
    incoming, outgoing = [], []
    for task in tasks:
        transfer = task.op.transfer
        if transfer is None:
            reads, writes = ddr_bytes(task)
        else:
            reads = transfer.bytes if transfer.source is not Space.VTCM else 0
            outside = transfer.target is not Space.VTCM or bool(transfer.receivers)
            writes = transfer.bytes if outside else 0
        incoming.append(reads)
        outgoing.append(writes)
    return incoming, outgoing


def _moving_cycles(line: Timeline, conditions: Conditions, tasks: list[Task]) -> Column:
    cycles = []
    for task in tasks:
        clock, index = conditions.clocks[task.device], task.index
        moved = task.op.transfer is not None
        begin, end = line.issued[index], line.done[index]
        cycles.append(round(clock.cycles_at(end) - clock.cycles_at(begin)) if moved else 0)
    return np.array(cycles, np.int64)


def _waited_cycles(
    line: Timeline, conditions: Conditions, tasks: list[Task], place: slice
) -> Column:
    spans = zip(tasks, line.sync[place], line.start[place], strict=True)
    cycles = [
        round(conditions.clocks[t.device].cycles_at(b) - conditions.clocks[t.device].cycles_at(a))
        for t, a, b in spans
    ]
    return np.array(cycles, np.int64)


def _waits_for_weights(plan: CardPlan, line: Timeline, tasks: list[Task]) -> Column:
    """Whether what came last of all that an op waits for was a transfer."""
    keys = {(task.device, *task.op.key): task for task in plan.tasks}
    by_transfer = []
    for task in tasks:
        sources = [keys[task.device, core, oc] for core, oc in task.op.waits_for]
        last = max(sources, key=lambda source: line.done[source.index], default=None)
        by_transfer.append(last is not None and last.op.transfer is not None)
    return np.array(by_transfer, bool)
