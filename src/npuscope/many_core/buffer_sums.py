"""Sums of a buffer's op records by core, thread and kind of op."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.many_core.buffer_check import CHUNK, chunks
from npuscope.many_core.buffer_format import OpIndex, Records, Stats, op_index
from npuscope.many_core.records import SectionId

_SMALL_TABLE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """One row for each (core, thread, kind) that has records, in that order of columns."""

    core: np.ndarray
    thread: np.ndarray
    kind: tuple[str, ...]
    count: np.ndarray
    ucycles: np.ndarray  # of execution
    pcycles: np.ndarray
    sync_ucycles: np.ndarray  # waiting for operands
    barrier_ucycles: np.ndarray  # waiting for the group


def sums(stats: Stats) -> Sums:
    """Of all ops from level 70 on, of semaphore ops at level 50; validated records only."""
    ops = op_index(stats.layout, stats.specialization)
    section = SectionId.OP_REC if stats.has(SectionId.OP_REC) else SectionId.SEM_OP
    cells, cell_of = _cells(ops)
    threads = len(stats.layout.threads)
    totals = _totals(stats.of(section), ops, cell_of, len(cells) * threads)
    used = np.flatnonzero(totals[0])
    cell, thread = np.divmod(used, threads)
    ids = np.array([entry.id for entry in stats.layout.threads])
    core, kind = np.divmod(cells[cell], max(len(ops.kinds), 1))
    order = np.lexsort((kind, ids[thread], core))
    columns = [total[used][order] for total in totals]
    names = tuple(ops.kinds[i] for i in kind[order])
    return Sums(core[order], ids[thread][order], names, *columns)


def _cells(ops: OpIndex) -> tuple[np.ndarray, np.ndarray]:
    """The (core, kind) pairs that may occur, and which of them each op belongs to."""
    kinds = max(len(ops.kinds), 1)
    pairs = ops.cores * kinds + ops.kind_of
    every = ops.layout.cores * kinds
    if every * len(ops.layout.threads) <= _SMALL_TABLE:
        return np.arange(every), pairs
    cells, cell_of = np.unique(pairs, return_inverse=True)
    return cells, cell_of.astype(np.int64)


def _totals(records: Records, ops: OpIndex, cell_of: np.ndarray, size: int) -> list[np.ndarray]:
    """Count, execution ticks, cycles, ticks of waiting for operands and for the group."""
    threads = len(ops.layout.threads)
    totals = [np.zeros(size, np.int64) for _ in range(5)]
    for part in chunks(records, max(CHUNK, size)):
        place = cell_of[ops.find(part["core"], part["oc"])] * threads
        place += ops.threads[part["thread"]]
        totals[0] += np.bincount(place, minlength=size)
        start, end = part["start_uc"], part["end_uc"]
        spans = (end - start, part["pc"], start - part["sync_uc"], part["barrier_uc"] - end)
        for total, span in zip(totals[1:], spans, strict=True):
            # Doubles hold these sums exactly: no single number reaches 2^53.
            total += np.bincount(place, span, size).astype(np.int64)
    return totals
