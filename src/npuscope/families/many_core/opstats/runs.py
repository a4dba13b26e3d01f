"""Ops as they ran: one row per run of an op, of one thread or of its whole thread group."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.buffer_format import Records, Stats
from npuscope.families.many_core.opstats.index import OpIndex, op_key
from npuscope.families.many_core.records import ASYNCHRONOUS, SATURATED, SectionId
from npuscope.structs import replace


class OpRuns(Struct, frozen=True):
    """Columns in the order of op and sample. `*_at` are ticks, the others durations.

    Of a thread group the longest durations are kept, and the stamps between which any of its
    threads was at it.
    """

    op: np.ndarray  # row of the index
    sample: np.ndarray
    thread: np.ndarray  # the first of the group
    sync_at: np.ndarray
    start_at: np.ndarray
    end_at: np.ndarray
    arrive_at: np.ndarray  # at the barrier, the first thread of the group
    barrier_at: np.ndarray
    execute_uc: np.ndarray
    pc: np.ndarray
    sync_uc: np.ndarray
    barrier_uc: np.ndarray
    asynchronous: np.ndarray
    unknown: int  # records of ops that the program does not have
    saturated: int  # records whose counter had reached its end

    @property
    def joined(self) -> np.ndarray:
        """Runs with a barrier: all but transfers that nobody waits for."""
        joins: np.ndarray = ~self.asynchronous | (self.barrier_uc > 0)
        return joins


def op_records(stats: Stats) -> Records:
    """Records of ops, with those of semaphore ops that stand in a section of their own."""
    ops, semaphores = stats.of(SectionId.OP_REC), stats.of(SectionId.SEM_OP)
    if not len(semaphores) or not len(ops):
        return semaphores if len(semaphores) else ops
    # The same op may stand in both: what is in the fuller section is not counted again.
    new = ~np.isin(op_key(semaphores["core"], semaphores["oc"]), op_key(ops["core"], ops["oc"]))
    return np.concatenate([ops, semaphores[new]])


def op_runs(stats: Stats, index: OpIndex, *, by_thread: bool = False) -> OpRuns:
    """Runs of all ops, one per thread group or one per thread."""
    records = op_records(stats)
    op = index.rows(records["core"], records["oc"])
    valid = op >= 0
    if not valid.all():
        records, op = records[valid], op[valid]
    keys = [op, records["sample"], records["thread"]]
    order = np.lexsort(keys[::-1])
    reduce = _Grouping(order, boundaries(*(key[order] for key in keys[: 3 if by_thread else 2])))
    asynchronous = index.asynchronous[op] | ((records["flags"] & ASYNCHRONOUS) != 0)
    return OpRuns(
        op=reduce.first(op),
        sample=reduce.first(records["sample"].astype(np.int64)),
        thread=reduce.least(records["thread"].astype(np.int64)),
        sync_at=reduce.least(_ticks(records, "sync_uc")),
        start_at=reduce.least(_ticks(records, "start_uc")),
        end_at=reduce.most(_ticks(records, "end_uc")),
        arrive_at=reduce.least(_ticks(records, "end_uc")),
        barrier_at=reduce.most(_ticks(records, "barrier_uc")),
        execute_uc=reduce.most(elapsed(records, "start_uc", "end_uc")),
        pc=reduce.most(records["pc"].astype(np.int64)),
        sync_uc=reduce.most(elapsed(records, "sync_uc", "start_uc")),
        barrier_uc=reduce.most(elapsed(records, "end_uc", "barrier_uc")),
        asynchronous=reduce.first(asynchronous),
        unknown=int((~valid).sum()),
        saturated=int(((records["flags"] & SATURATED) != 0).sum()),
    )


def elapsed(records: Records, begin: str, end: str) -> np.ndarray:
    """Ticks between two stamps; never negative, even in a damaged file."""
    passed: np.ndarray = np.maximum(_ticks(records, end) - _ticks(records, begin), 0)
    return passed


def _ticks(records: Records, name: str) -> np.ndarray:
    ticks: np.ndarray = records[name].astype(np.int64)
    return ticks


class _Grouping(Struct, frozen=True):
    """The order that brings records of one run together, and where each run begins."""

    order: np.ndarray
    starts: np.ndarray

    def first(self, values: np.ndarray) -> np.ndarray:
        firsts: np.ndarray = values[self.order][self.starts]
        return firsts

    def least(self, values: np.ndarray) -> np.ndarray:
        return _reduced(np.minimum, values, self)

    def most(self, values: np.ndarray) -> np.ndarray:
        return _reduced(np.maximum, values, self)


def _reduced(how: np.ufunc, values: np.ndarray, grouping: _Grouping) -> np.ndarray:
    if not len(values):
        return values
    reduced: np.ndarray = how.reduceat(values[grouping.order], grouping.starts)
    return reduced


def boundaries(*columns: np.ndarray) -> np.ndarray:
    """Where a row differs from the one before, in any of the sorted columns."""
    first = np.zeros(len(columns[0]), bool)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(first)


def occurrence(op: np.ndarray, thread: np.ndarray) -> np.ndarray:
    """The ordinal of each record among those of its op and thread, in the order of the file.

    Records without a sample number are matched to runs by it.
    """
    order = np.lexsort((thread, op))
    starts = boundaries(op[order], thread[order])
    lengths = np.diff(np.append(starts, len(order)))
    turns = np.empty(len(order), np.int64)
    turns[order] = np.arange(len(order)) - np.repeat(starts, lengths)
    return turns


def find_runs(runs: OpRuns, op: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """The row of each run, the first of its threads; -1 where there is none."""
    if not len(runs.op) or not len(op):
        return np.full(len(op), -1, np.int64)
    span = int(max(runs.sample.max(), sample.max())) + 1
    keys, lookup = runs.op * span + runs.sample, op * span + sample
    place = np.minimum(np.searchsorted(keys, lookup), len(keys) - 1)
    return np.where(keys[place] == lookup, place, -1)


# --- Asynchronous transfers ---


class Transfers(Struct, frozen=True):
    """Records of the DMA engine with the op and the run that they belong to."""

    records: Records
    op: np.ndarray
    sample: np.ndarray

    @property
    def ucycles(self) -> np.ndarray:
        return elapsed(self.records, "issue_uc", "done_uc")


def transfers_of(stats: Stats, index: OpIndex) -> Transfers:
    records = stats.of(SectionId.DMA_REC)
    op = index.rows(records["core"], records["oc"])
    records, op = records[op >= 0], op[op >= 0]
    return Transfers(records, op, occurrence(op, records["thread"]))


def until_done(runs: OpRuns, transfers: Transfers) -> OpRuns:
    """Asynchronous ops take until their transfer ended, not only until they were issued."""
    place = find_runs(runs, transfers.op, transfers.sample)
    mine = place >= 0
    mine[mine] = runs.asynchronous[place[mine]]
    took = np.full(len(runs.op), -1, np.int64)
    np.maximum.at(took, place[mine], transfers.ucycles[mine])
    return replace(runs, execute_uc=np.where(took >= 0, took, runs.execute_uc))
