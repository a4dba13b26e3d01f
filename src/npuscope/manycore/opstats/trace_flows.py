"""Arrows from the op that makes something to the one that waits for it."""

from __future__ import annotations

import numpy as np

from npuscope.manycore.opstats.runs import find_runs
from npuscope.manycore.opstats.trace_ops import OpSlices
from npuscope.manycore.opstats.trace_rows import Scene

# Categories of the vendor's traces: dependencies by data are true ones.
DATA, SCHEDULE = "true", "false"


def add_flows(scene: Scene, slices: OpSlices) -> None:
    """One arrow for each dependency and each time that both its ops ran."""
    source_op, target_op, data = _edges(scene)
    runs = slices.runs
    edge, target = _runs_of(runs.op, target_op)
    # Threads of a group ran the op together: the first stands for all.
    first = find_runs(runs, runs.op[target], runs.sample[target]) == target
    edge, target = edge[first], target[first]
    source = find_runs(runs, source_op[edge], runs.sample[target])
    both = source >= 0
    begins, ends = slices.ending[source[both]], slices.slice[target[both]]
    shown = (begins >= 0) & (ends >= 0)
    kinds = scene.builder.texts([SCHEDULE, DATA])
    category = kinds[data[edge][both][shown].astype(np.int64)]
    scene.builder.add_flows(begins[shown], ends[shown], category)


def _edges(scene: Scene) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the index at both ends of each dependency that the program has ops for."""
    found = scene.stats.network.dependencies
    ends = np.array([(*edge.source, *edge.target) for edge in found], np.int64).reshape(-1, 4)
    data = np.array([edge.data for edge in found], bool)
    source = scene.index.rows(ends[:, 0], ends[:, 1])
    target = scene.index.rows(ends[:, 2], ends[:, 3])
    known = (source >= 0) & (target >= 0)
    return source[known], target[known], data[known]


def _runs_of(run_op: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All runs of each wanted op: which of the wanted, and the run."""
    low, high = (np.searchsorted(run_op, wanted, side=side) for side in ("left", "right"))
    number = high - low
    edge = np.repeat(np.arange(len(wanted)), number)
    within = np.arange(len(edge)) - np.repeat(np.cumsum(number) - number, number)
    return edge, low[edge] + within
