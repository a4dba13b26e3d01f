"""Threads, ports and activations of every core."""

from __future__ import annotations

import numpy as np

from npuscope.manycore.opstats.model import ActivationRow, PortRow, ThreadRow
from npuscope.manycore.opstats.runs import elapsed, op_records
from npuscope.manycore.records import SectionId
from npuscope.manycore.stats import Records, Stats

_THREAD_BITS = 16


def thread_rows(stats: Stats) -> list[ThreadRow]:
    """Spans of the threads; where ops were timed, also what filled them."""
    records = stats.of(SectionId.THREAD_INF)
    engines = {thread.id: thread.engine.value for thread in stats.layout.threads}
    filled = _filled(stats, records) if stats.has(SectionId.OP_REC) else None
    return [
        ThreadRow(
            core=int(record["core"]),
            thread=int(record["thread"]),
            engine=engines.get(int(record["thread"]), "?"),
            start_uc=int(record["start_uc"]),
            end_uc=int(record["end_uc"]),
            pcycles=int(record["end_pc"]) - int(record["start_pc"]),
            **({} if filled is None else _parts(filled[:, i])),
        )
        for i, record in enumerate(records)
    ]


def _parts(sums: np.ndarray) -> dict[str, int]:
    busy_pc, busy_uc, wait_uc = (int(value) for value in sums)
    return {"busy_pcycles": busy_pc, "busy_uc": busy_uc, "wait_uc": wait_uc}


def _filled(stats: Stats, threads: Records) -> np.ndarray:
    """Cycles of execution, ticks of execution and ticks of waiting, by thread."""
    records = op_records(stats)
    keys = _key(threads)
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], _key(records))
    known = place < len(keys)
    known[known] = keys[order][place[known]] == _key(records)[known]
    records, place = records[known], place[known]
    columns = (
        records["pc"],
        elapsed(records, "start_uc", "end_uc"),
        elapsed(records, "sync_uc", "start_uc") + elapsed(records, "end_uc", "barrier_uc"),
    )
    sums = np.zeros((len(columns), len(keys)))
    for row, column in enumerate(columns):
        sums[row, order] = np.bincount(place, weights=column, minlength=len(keys))
    return sums


def _key(records: Records) -> np.ndarray:
    core: np.ndarray = records["core"].astype(np.int64)
    keys: np.ndarray = (core << _THREAD_BITS) | records["thread"]
    return keys


def port_rows(stats: Stats) -> list[PortRow]:
    """Every thread and port of the program: one without a record did not wait."""
    if not stats.has(SectionId.PORT_WAIT):
        return []
    waited = {
        (int(r["core"]), int(r["port"]), int(r["thread"])): (int(r["waits"]), int(r["wait_uc"]))
        for r in stats.of(SectionId.PORT_WAIT)
    }
    return [
        PortRow(core, thread.id, port.id, port.kind, port.incoming, *found)
        for core in _cores(stats)
        for port in stats.layout.ports
        for thread in stats.layout.threads
        for found in [waited.get((core, port.id, thread.id), (0, 0))]
    ]


def longest_wait(rows: list[PortRow], *, incoming: bool) -> int | None:
    return max((row.wait_uc for row in rows if row.incoming == incoming), default=None)


def activation_rows(stats: Stats) -> list[ActivationRow]:
    records = stats.of(SectionId.THREAD_ACT)
    took = elapsed(records, "start_uc", "end_uc")
    return [
        ActivationRow(int(record["core"]), int(record["thread"]), int(ticks))
        for record, ticks in zip(records, took, strict=True)
    ]


def _cores(stats: Stats) -> list[int]:
    return [int(core) for core in np.unique(stats.of(SectionId.THREAD_INF)["core"])]
