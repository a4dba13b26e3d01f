"""Spans and clocks that follow from the slices of a vendor trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.manycore.adapters.columns import Columns
from npuscope.manycore.adapters.lanes import ResolvedLanes
from npuscope.manycore.adapters.model import OpRow, Totals
from npuscope.manycore.records import UTIMER_HZ


def totals_of(columns: Columns, lanes: ResolvedLanes) -> Totals:
    """From first start to last end of the cores: of their execution rows where there are any."""
    lane, start = np.asarray(columns.lane), np.asarray(columns.start)
    ends = start + np.asarray(columns.us)
    of_core = np.array([row.core is not None for row in lanes.rows])[lane]
    execution = of_core & (lanes.core[lane] < 0)
    chosen = execution if execution.any() else of_core
    us = float(ends[chosen].max() - start[chosen].min())
    return Totals(us, round(us * UTIMER_HZ / 1e6))


def frequencies(ops: Sequence[OpRow]) -> tuple[tuple[int, float], ...]:
    """Effective clock of each core, MHz: cycles against timer ticks of its ops."""
    sums: dict[int, tuple[float, float]] = {}
    for row in ops:
        if row.pcycles and row.ucycles:
            cycles, ticks = sums.get(row.core, (0.0, 0.0))
            sums[row.core] = cycles + row.pcycles, ticks + row.ucycles
    found = {core: cycles * UTIMER_HZ / 1e6 / ticks for core, (cycles, ticks) in sums.items()}
    return tuple(sorted(found.items()))
