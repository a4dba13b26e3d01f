"""Ops, their waits, barriers and transfers as slices."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.opstats.index import ENGINES, event_name
from npuscope.families.many_core.opstats.runs import (
    OpRuns,
    find_runs,
    occurrence,
    op_runs,
    transfers_of,
)
from npuscope.families.many_core.opstats.trace_counters import add_counters
from npuscope.families.many_core.opstats.trace_rows import (
    TICKS_FOR_CLOCK,
    Lane,
    Scene,
    op_args,
    run_args,
    transfer_args,
)
from npuscope.families.many_core.records import PMU_COUNTERS, UTIMER_HZ, SectionId
from npuscope.trace_builder import Args
from npuscope.trace_model import floats, ints

_TICKS_PER_US = UTIMER_HZ / 1e6


class OpSlices(Struct, frozen=True):
    """Runs that are shown, with the slice that stands for each."""

    runs: OpRuns
    slice: np.ndarray  # -1 for a run that is not shown
    ending: np.ndarray  # of the transfer where there is one, else the same


def add_ops(scene: Scene, *, barriers: bool) -> OpSlices:
    runs = op_runs(scene.stats, scene.index, by_thread=scene.rows.by_thread)
    rows = np.flatnonzero(scene.shown(scene.index.core[runs.op]))
    slices = np.full(len(runs.op), -1, np.int64)
    slices[rows] = _add_runs(scene, runs, rows)
    if barriers and scene.stats.has(SectionId.OP_REC):
        _add_barriers(scene, runs, rows[runs.joined[rows]])
    _add_clock(scene, runs, rows)
    add_counters(scene, runs, rows)
    ending = _add_transfers(scene, runs, slices)
    return OpSlices(runs, slices, ending)


def _add_runs(scene: Scene, runs: OpRuns, rows: np.ndarray) -> np.ndarray:
    op = runs.op[rows]
    waited = (runs.sync_uc[rows] > 0) & scene.stats.has(SectionId.OP_REC)
    # The wait is a slice of its own in the same row, so the row is taken from its start on.
    begin = np.where(waited, runs.sync_at[rows], runs.start_at[rows])
    threads = scene.threads(
        scene.index.core[op], _lane(scene, runs, rows), Lane.OPS, begin, runs.end_at[rows]
    )
    waits = rows[waited]
    scene.builder.add_slices(
        threads[waited],
        scene.ns(runs.sync_at[waits]),
        scene.ns(runs.start_at[waits]),
        _engine_names(scene, "sync")[runs.op[waits]],
        "sync",
        _wait_args(scene, runs.op[waits], runs.sync_uc[waits]),
    )
    return scene.builder.add_slices(
        threads,
        scene.ns(runs.start_at[rows]),
        scene.ns(runs.end_at[rows]),
        _kinds(scene)[op],
        "aic",
        {**op_args(scene, op), **run_args(scene, runs, rows), **_counters(scene, runs, rows)},
    )


def _lane(scene: Scene, runs: OpRuns, rows: np.ndarray) -> np.ndarray:
    own = runs.thread[rows] if scene.rows.by_thread else scene.index.group[runs.op[rows]]
    return np.asarray(own)


def _kinds(scene: Scene) -> np.ndarray:
    """Name of the slices by row of the index."""
    names = scene.builder.texts(label.kind for label in scene.index.labels)
    return np.asarray(names[scene.index.label])


def _engine_names(scene: Scene, word: str) -> np.ndarray:
    names = scene.builder.texts(f"{word} {engine.value}" for engine in ENGINES)
    return np.asarray(names[scene.index.engine])


def _wait_args(scene: Scene, op: np.ndarray, ticks: np.ndarray) -> Args:
    numbers = np.array([info.oc for info in scene.index.infos], np.int64)
    return {
        "oc": ints(numbers[op]),
        "opUCycle": ints(ticks),
        "opSyncDurUs": floats(ticks / _TICKS_PER_US),
    }


def _add_barriers(scene: Scene, runs: OpRuns, rows: np.ndarray) -> None:
    """From the first thread that came to the barrier until all were there."""
    op = runs.op[rows]
    start, end = runs.arrive_at[rows], runs.barrier_at[rows]
    lane = _lane(scene, runs, rows)
    scene.builder.add_slices(
        scene.threads(scene.index.core[op], lane, Lane.BARRIERS, start, end),
        scene.ns(start),
        scene.ns(end),
        _engine_names(scene, "barrier")[op],
        "barrier",
        _wait_args(scene, op, runs.barrier_uc[rows]),
    )


def _add_transfers(scene: Scene, runs: OpRuns, slices: np.ndarray) -> np.ndarray:
    """Slices of transfers on rows of their own; gives the slice in which each run ends."""
    moved = transfers_of(scene.stats, scene.index)
    rows = np.flatnonzero(scene.shown(scene.index.core[moved.op]))
    op, records = moved.op[rows], moved.records[rows]
    start, end = (records[name].astype(np.int64) for name in ("issue_uc", "done_uc"))
    lane = records["thread"].astype(np.int64) if scene.rows.by_thread else scene.index.group[op]
    moves = scene.builder.add_slices(
        scene.threads(scene.index.core[op], lane, Lane.TRANSFERS, start, end),
        scene.ns(start),
        scene.ns(end),
        _kinds(scene)[op],
        "dma",
        {**op_args(scene, op), **transfer_args(scene, records)},
    )
    runs_of = find_runs(runs, op, moved.sample[rows])
    endings = slices.copy()
    endings[runs_of[runs_of >= 0]] = moves[runs_of >= 0]
    return endings


def _add_clock(scene: Scene, runs: OpRuns, rows: np.ndarray) -> None:
    """The core's clock, computed from its own ops."""
    long = rows[(runs.execute_uc[rows] >= TICKS_FOR_CLOCK) & ~runs.asynchronous[rows]]
    core = scene.index.core[runs.op[long]]
    mhz = runs.pc[long] * _TICKS_PER_US / np.maximum(runs.execute_uc[long], 1)
    for number in np.unique(core).tolist():
        mine = core == number
        scene.builder.add_samples(
            scene.rows.clock(scene.stats, number), scene.ns(runs.start_at[long][mine]), mhz[mine]
        )


def _counters(scene: Scene, runs: OpRuns, rows: np.ndarray) -> Args:
    """PMU counts of each op, added up over what the slice stands for."""
    records = scene.stats.of(SectionId.OP_PMU)
    op = scene.index.rows(records["core"], records["oc"])
    records, op = records[op >= 0], op[op >= 0]
    if not len(records) or not len(rows):
        return {}
    thread = records["thread"].astype(np.int64)
    if scene.rows.by_thread:
        # Then a run is that of one thread: its number tells ops of different threads apart.
        keys = _thread_keys(runs.op, runs.sample, runs.thread)
        lookup = _thread_keys(op, occurrence(op, thread), thread)
        nearest = np.minimum(np.searchsorted(keys, lookup), len(keys) - 1)
        runs_of = np.where(keys[nearest] == lookup, nearest, -1)
    else:
        runs_of = find_runs(runs, op, occurrence(op, thread))
    used = list(enumerate(scene.stats.layout.pmu.events[:PMU_COUNTERS]))
    place, mine = runs_of[runs_of >= 0], records[runs_of >= 0]
    return {
        f"pmu {event_name(code)}": ints(
            np.bincount(place, weights=mine[f"count{i}"], minlength=len(runs.op))[rows]
        )
        for i, code in used
    }


def _thread_keys(op: np.ndarray, sample: np.ndarray, thread: np.ndarray) -> np.ndarray:
    keys = np.zeros(len(op), [("op", "<i8"), ("sample", "<i8"), ("thread", "<i8")])
    keys["op"], keys["sample"], keys["thread"] = op, sample, thread
    return keys


# --- Arrows from producers to the ops that wait for them ---

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
    visible = (begins >= 0) & (ends >= 0)
    kinds = scene.builder.texts([SCHEDULE, DATA])
    category = kinds[data[edge][both][visible].astype(np.int64)]
    scene.builder.add_flows(begins[visible], ends[visible], category)


def _edges(scene: Scene) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the index at both ends of each dependency that the program has ops for."""
    edges = scene.stats.network.dependencies
    ends = np.array([(*edge.source, *edge.target) for edge in edges], np.int64).reshape(-1, 4)
    data = np.array([edge.data for edge in edges], bool)
    source = scene.index.rows(ends[:, 0], ends[:, 1])
    target = scene.index.rows(ends[:, 2], ends[:, 3])
    valid = (source >= 0) & (target >= 0)
    return source[valid], target[valid], data[valid]


def _runs_of(run_op: np.ndarray, ops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All runs of each wanted op: which of the wanted, and the run."""
    low, high = (np.searchsorted(run_op, ops, side=side) for side in ("left", "right"))
    number = high - low
    edge = np.repeat(np.arange(len(ops)), number)
    within = np.arange(len(edge)) - np.repeat(np.cumsum(number) - number, number)
    return edge, low[edge] + within
