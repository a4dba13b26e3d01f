"""The op table: ops of a core grouped by label, with rows for waiting and coming together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.manycore.opstats.index import ENGINES, OpIndex
from npuscope.manycore.opstats.model import OpRow
from npuscope.manycore.opstats.runs import OpRuns
from npuscope.manycore.records import PMU_COUNTERS, SectionId
from npuscope.manycore.stats import Stats


def op_rows(stats: Stats, index: OpIndex, runs: OpRuns) -> dict[int, tuple[OpRow, ...]]:
    """Rows by core, the longest first."""
    rows = _label_rows(stats, index, runs)
    if stats.has(SectionId.OP_REC):
        waited = runs.sync_uc > 0
        rows += _pseudo_rows("sync", index, runs.op[waited], runs.sync_uc[waited])
        joined = ~runs.asynchronous
        rows += _pseudo_rows("barrier", index, runs.op[joined], runs.barrier_uc[joined])
    by_core: dict[int, list[OpRow]] = {}
    for row in sorted(rows, key=lambda row: (-row.ucycles, row.details)):
        by_core.setdefault(row.core, []).append(row)
    return {core: tuple(found) for core, found in by_core.items()}


@dataclass(frozen=True, slots=True)
class _Groups:
    """Sums by group; a group's key is core * width + label."""

    key: np.ndarray
    width: int
    size: int

    def sum(self, values: np.ndarray) -> np.ndarray:
        # Doubles hold sums of ticks exactly up to 2**53, some hundred days of cycles.
        return np.bincount(self.key, weights=values, minlength=self.size)

    def count(self) -> np.ndarray:
        return np.bincount(self.key, minlength=self.size)


def _groups(index: OpIndex, op: np.ndarray, of: np.ndarray, width: int) -> _Groups:
    cores = int(index.core.max()) + 1 if len(index.core) else 1
    return _Groups(index.core[op] * width + of[op], width, cores * width)


def _label_rows(stats: Stats, index: OpIndex, runs: OpRuns) -> list[OpRow]:
    groups = _groups(index, runs.op, index.label, len(index.labels))
    out_bytes = index.out_bytes[runs.op]
    counts = groups.count()
    ucycles, pcycles = groups.sum(runs.execute_uc), groups.sum(runs.pc)
    sizes, behind = groups.sum(out_bytes), groups.sum(runs.asynchronous)
    spread = _stddev(groups, runs.pc, out_bytes)
    counters = _counters(stats, index, groups)
    details = [str(label) for label in index.labels]
    return [
        OpRow(
            core=int(g) // groups.width,
            details=details[int(g) % groups.width],
            count=int(counts[g]),
            ucycles=int(ucycles[g]),
            # The core's cycles are those of issuing such an op, not of the transfer.
            pcycles=None if behind[g] else int(pcycles[g]),
            out_bytes=int(sizes[g]) if sizes[g] else None,
            pcycles_per_kb_stddev=None if behind[g] or not sizes[g] else float(spread[g]),
            counters=tuple(int(count) for count in counters[g]) if counters is not None else (),
        )
        for g in np.flatnonzero(counts)
    ]


def _stddev(groups: _Groups, pc: np.ndarray, out_bytes: np.ndarray) -> np.ndarray:
    """Of cycles per KB from op to op, of those that write anything (n, not n - 1)."""
    writes = out_bytes > 0
    rate = pc[writes] * 1024 / out_bytes[writes]
    some = _Groups(groups.key[writes], groups.width, groups.size)
    number = np.maximum(some.count(), 1)
    mean = some.sum(rate) / number
    deviation: np.ndarray = np.sqrt(some.sum((rate - mean[some.key]) ** 2) / number)
    return deviation


def _counters(stats: Stats, index: OpIndex, groups: _Groups) -> np.ndarray | None:
    """PMU counts by group; they add up over the threads of an op."""
    if not stats.has(SectionId.OP_PMU):
        return None
    records = stats.of(SectionId.OP_PMU)
    op = index.rows(records["core"], records["oc"])
    records, op = records[op >= 0], op[op >= 0]
    places = _groups(index, op, index.label, groups.width)
    used = min(len(stats.layout.pmu.events) or PMU_COUNTERS, PMU_COUNTERS)
    return np.stack([places.sum(records[f"count{i}"]) for i in range(used)], axis=1)


def _pseudo_rows(word: str, index: OpIndex, op: np.ndarray, ticks: np.ndarray) -> list[OpRow]:
    groups = _groups(index, op, index.engine, len(ENGINES))
    counts, sums = groups.count(), groups.sum(ticks)
    return [
        OpRow(
            int(g) // groups.width,
            f"{word} {ENGINES[int(g) % groups.width].value}",
            int(counts[g]),
            int(sums[g]),
        )
        for g in np.flatnonzero(counts)
    ]
