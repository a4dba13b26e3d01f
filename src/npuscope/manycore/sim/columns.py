"""What the records of a device have in common from one inference to the next, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.manycore.program import Space
from npuscope.manycore.records import ASYNCHRONOUS
from npuscope.manycore.sim.plan import Plan, Task

Column = np.ndarray
_NO_ENTRY = 0xFFFF


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows are op records (one a thread), transfers and threads of one device."""

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


def columns_of(plan: Plan, device: int) -> Columns:
    tasks = [task for task in plan.tasks if task.device == device]
    rows = [(task, nth) for task in tasks for nth in range(task.rows)]
    threads = tuple((c, t.id) for c in range(plan.cores) for t in plan.layout.threads)
    places = {place: number for number, place in enumerate(threads)}
    owners = [(task.op.core, plan.queues[task.queue].threads[nth]) for task, nth in rows]
    return Columns(
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


def move_columns(columns: Columns, plan: Plan) -> list[tuple[int, ...]]:
    """Core, thread, op, bytes, ends and multicast entry of each transfer."""
    found: list[tuple[int, ...]] = []
    for task in columns.moves:
        transfer = task.op.transfer
        if transfer is None:
            continue
        entry = _NO_ENTRY if transfer.multicast is None else transfer.multicast
        thread = plan.queues[task.queue].threads[0]
        ends = (int(transfer.source), int(transfer.target))
        found.append((task.op.core, thread, task.op.info.oc, transfer.bytes, *ends, entry))
    return found


def ddr_rows(plan: Plan, device: int) -> list[tuple[int, ...]]:
    """By core: bytes read and written in DDR, received and sent by multicast."""
    sums = [[0, 0, 0, 0] for _ in range(plan.cores)]
    for task in plan.tasks:
        if task.device != device:
            continue
        read, written = ddr_bytes(task)
        sums[task.op.core][0] += read
        sums[task.op.core][1] += written
        transfer = task.op.transfer
        if transfer is not None and transfer.receivers:
            _add_multicast(sums, task.op.core, transfer.receivers, transfer.bytes)
    return [(core, 0, *row) for core, row in enumerate(sums)]


def _add_multicast(sums: list[list[int]], sender: int, receivers: int, size: int) -> None:
    sums[sender][3] += size
    for core, row in enumerate(sums):
        if receivers >> core & 1 and core != sender:
            row[2] += size


def ddr_bytes(task: Task) -> tuple[int, int]:
    """Read and written by one op: by its transfer, or by its threads where they reach there."""
    transfer, info = task.op.transfer, task.op.info
    if transfer is not None:
        read = transfer.bytes if transfer.source is Space.DDR else 0
        return read, transfer.bytes if transfer.target is Space.DDR else 0
    # The buffer itself is not part of the network's traffic.
    return (0, 0) if task.is_end else (info.rd_bytes, info.wr_bytes)
