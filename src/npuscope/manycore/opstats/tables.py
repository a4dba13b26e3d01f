"""All tables of one stats buffer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

import numpy as np

from npuscope.errors import FileError
from npuscope.manycore.opstats.counters import active_shares, ddr_rows, pmu_rows
from npuscope.manycore.opstats.index import OpIndex, op_index
from npuscope.manycore.opstats.model import CoreTables, Opstats, PeerRow, Totals
from npuscope.manycore.opstats.notes import lacking
from npuscope.manycore.opstats.op_table import op_rows
from npuscope.manycore.opstats.runs import OpRuns, op_runs
from npuscope.manycore.opstats.threads import (
    activation_rows,
    longest_wait,
    port_rows,
    thread_rows,
)
from npuscope.manycore.opstats.transfers import transfers_of, until_done
from npuscope.manycore.records import SectionId
from npuscope.manycore.stats import Stats
from npuscope.text import safe_terminal


class _OfCore(Protocol):
    @property
    def core(self) -> int: ...


Row = TypeVar("Row", bound=_OfCore)


def opstats_of(stats: Stats, index: OpIndex | None = None) -> Opstats:
    """Tables of a buffer. Pass the index where many buffers of one network are read."""
    if not len(stats.of(SectionId.THREAD_INF)):
        raise FileError("no thread of any core was timed", where=safe_terminal(stats.name))
    index = index or op_index(stats.layout, stats.specialization)
    runs = until_done(op_runs(stats, index), transfers_of(stats, index))
    ports = port_rows(stats)
    return Opstats(
        name=stats.name,
        network=stats.layout.network,
        specialization=stats.network.name,
        level=stats.level,
        device=stats.device,
        inference=stats.inference,
        pmu_events=stats.layout.pmu.events,
        pmu_recipe=stats.layout.pmu.recipe,
        cores=_cores(stats, index, runs),
        peers=peer_rows(stats),
        totals=Totals(
            start_uc=int(stats.of(SectionId.THREAD_INF)["start_uc"].min()),
            end_uc=int(stats.of(SectionId.THREAD_INF)["end_uc"].max()),
            stats_batch=stats.layout.stats_batch,
            max_input_wait_uc=longest_wait(ports, incoming=True),
            max_output_wait_uc=longest_wait(ports, incoming=False),
        ),
        notes=(*stats.notes, *_odd(runs), *lacking(stats)),
    )


def _cores(stats: Stats, index: OpIndex, runs: OpRuns) -> tuple[CoreTables, ...]:
    ops = op_rows(stats, index, runs)
    threads, ports = _by_core(thread_rows(stats)), _by_core(port_rows(stats))
    activations, pmu = _by_core(activation_rows(stats)), _by_core(pmu_rows(stats))
    ddr = ddr_rows(stats)
    tables = []
    for core, rows in sorted(threads.items()):
        longest_pc, inference_pc = _cycles(stats, core)
        tables.append(
            CoreTables(
                core=core,
                total_uc=max(row.ucycles for row in rows),
                total_pc=longest_pc,
                inference_pc=inference_pc,
                ops=ops.get(core, ()),
                threads=tuple(rows),
                ports=tuple(ports.get(core, ())),
                activations=tuple(activations.get(core, ())),
                pmu=tuple(pmu.get(core, ())),
                active=active_shares(stats.layout, pmu.get(core, []), longest_pc),
                ddr=ddr.get(core),
            )
        )
    return tuple(tables)


def _cycles(stats: Stats, core: int) -> tuple[int, int]:
    """Of the longest thread, and from the first start to the last end."""
    records = stats.of(SectionId.THREAD_INF)
    start, end = (
        records[name][records["core"] == core].astype(np.int64) for name in ("start_pc", "end_pc")
    )
    return int((end - start).max()), int(end.max() - start.min())


def _by_core(rows: Iterable[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row.core, []).append(row)
    return found


def peer_rows(stats: Stats) -> tuple[PeerRow, ...]:
    """Transfers between devices, added up by direction and port."""
    records = stats.of(SectionId.P2P_REC)
    lanes = np.unique(records[["src_dev", "dst_dev", "port"]])
    rows = []
    for source, target, port in lanes.tolist():
        mine = records[
            (records["src_dev"] == source)
            & (records["dst_dev"] == target)
            & (records["port"] == port)
        ]
        ticks = mine["end_uc"].astype(np.int64) - mine["start_uc"].astype(np.int64)
        moved = int(mine["bytes"].sum())
        rows.append(PeerRow(source, target, port, len(mine), moved, int(ticks.sum())))
    return tuple(rows)


def _odd(runs: OpRuns) -> list[str]:
    notes = []
    if runs.unknown:
        notes.append(f"{runs.unknown} records of ops that the program does not have: left out")
    if runs.saturated:
        notes.append(f"{runs.saturated} records whose cycle counter was at its end: too small")
    return notes
