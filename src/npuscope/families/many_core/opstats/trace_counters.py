"""Counters over time: what DDR delivers, how many cores' engines are at work, VTCM in use."""

from __future__ import annotations

import numpy as np

from npuscope.families.many_core.opstats.index import ENGINES
from npuscope.families.many_core.opstats.runs import OpRuns, transfers_of
from npuscope.families.many_core.opstats.trace_rows import Scene
from npuscope.families.many_core.opstats.vtcm import holds_of, in_use
from npuscope.families.many_core.program import Space
from npuscope.families.many_core.records import UTIMER_HZ, SectionId


def add_counters(scene: Scene, runs: OpRuns, rows: np.ndarray) -> None:
    """`rows` are the runs that are shown; transfers of other cores do not count either."""
    _add_ddr(scene)
    _add_vtcm(scene, runs)
    for place, engine in enumerate(ENGINES):
        mine = rows[(scene.index.engine[runs.op[rows]] == place) & ~runs.asynchronous[rows]]
        if len(mine):
            step = np.ones(len(mine))
            if scene.rows.by_thread:  # those of a group work together: a core counts once
                sizes = np.array([len(group.threads) for group in scene.stats.layout.groups])
                step /= sizes[scene.index.group[runs.op[mine]]]
            name = f"{engine.value} at work"
            _add_steps(scene, name, "cores", runs.start_at[mine], runs.end_at[mine], step)


def _add_ddr(scene: Scene) -> None:
    """Each transfer at its own average rate."""
    moves = scene.stats.of(SectionId.DMA_REC)
    outside = (moves["src"] == int(Space.DDR)) | (moves["dst"] == int(Space.DDR))
    moves = moves[outside & scene.shown(moves["core"])]
    start, end = moves["issue_uc"].astype(np.int64), moves["done_uc"].astype(np.int64)
    long = end > start
    start, end, size = start[long], end[long], moves["bytes"][long].astype(np.float64)
    if len(start):
        rate = size * UTIMER_HZ / (end - start) / 1e9
        _add_steps(scene, "DDR", "GB/s", start, end, rate)


def _add_vtcm(scene: Scene, runs: OpRuns) -> None:
    """What of each core's VTCM is in use."""
    holds = holds_of(scene.stats, scene.index, runs, transfers_of(scene.stats, scene.index))
    if holds is None:
        return
    for core in np.unique(holds.core[scene.shown(holds.core)]).tolist():
        moments, level = in_use(holds, core)
        track = scene.rows.core_counter(scene.stats, core, "VTCM", "KB")
        scene.builder.add_samples(track, scene.ns(moments), level / 1024)


def _add_steps(
    scene: Scene, name: str, unit: str, start: np.ndarray, end: np.ndarray, height: np.ndarray
) -> None:
    """The sum of all intervals at every moment at which it changes."""
    times = np.concatenate([start, end])
    moments, place = np.unique(times, return_inverse=True)
    change = np.bincount(place, weights=np.concatenate([height, -height]), minlength=len(moments))
    # Rounding leaves traces of intervals that have ended.
    level = np.maximum(np.round(np.cumsum(change), 6), 0.0)
    track = scene.rows.device_counter(scene.stats, name, unit)
    scene.builder.add_samples(track, scene.ns(moments), level)
