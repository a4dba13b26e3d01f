"""Transfers that ops started and that went on by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npuscope.manycore.opstats.index import OpIndex
from npuscope.manycore.opstats.runs import OpRuns, elapsed, find_runs, occurrence
from npuscope.manycore.records import SectionId
from npuscope.manycore.stats import Records, Stats


@dataclass(frozen=True, slots=True)
class Transfers:
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
    found = find_runs(runs, transfers.op, transfers.sample)
    mine = found >= 0
    mine[mine] = runs.asynchronous[found[mine]]
    took = np.full(len(runs.op), -1, np.int64)
    np.maximum.at(took, found[mine], transfers.ucycles[mine])
    return replace(runs, execute_uc=np.where(took >= 0, took, runs.execute_uc))
