"""All tables of one stats buffer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.families.many_core.buffer_format import OPTIONS, Records, Stats, options_for
from npuscope.families.many_core.opstats.index import (
    ENGINES,
    OpIndex,
    active_shares,
    ddr_rows,
    op_index,
    peer_rows,
    pmu_rows,
)
from npuscope.families.many_core.opstats.model import (
    ActivationRow,
    CoreTables,
    OpLabel,
    OpRow,
    Opstats,
    PortRow,
    ThreadRow,
    Totals,
)
from npuscope.families.many_core.opstats.replay import replay_of
from npuscope.families.many_core.opstats.replay_levers import predicted
from npuscope.families.many_core.opstats.runs import (
    OpRuns,
    elapsed,
    op_records,
    op_runs,
    transfers_of,
    until_done,
)
from npuscope.families.many_core.opstats.verdict import module_rows, node_rows, roofline, verdict
from npuscope.families.many_core.opstats.vtcm import holds_of, op_times, vtcm_rows
from npuscope.families.many_core.records import PMU_COUNTERS, SECTIONS, Needs, SectionId
from npuscope.structs import replace
from npuscope.text import safe_terminal

# --- Views that a buffer lacks, with the compiler option they need ---


class TableView(Struct, frozen=True):
    """A part of summary and trace, and the section that it is made of."""

    section: SectionId
    title: str


VIEWS = (
    TableView(SectionId.PMU_THREAD, "PMU counters"),
    TableView(SectionId.DDR_CORE, "DDR traffic"),
    TableView(SectionId.PORT_WAIT, "port waits, doorbells and semaphore ops"),
    TableView(SectionId.OP_REC, "ops, sync, barriers, utilization and transfers"),
    TableView(SectionId.OP_PMU, "PMU counters by op"),
)


def lacking(stats: Stats) -> tuple[str, ...]:
    """One sentence for each view that this buffer cannot give."""
    is_on = {Needs.NOTHING: True, Needs.PMU: has_pmu(stats), Needs.DDR: stats.layout.ddr_stats}
    lines = []
    for view in VIEWS:
        record = SECTIONS[view.section]
        if stats.has(view.section) or view.section.name in stats.lost:
            continue
        if view.section is SectionId.OP_PMU and not has_pmu(stats):
            continue  # counters by op are a matter only for who asked for counters
        words = []  # only what is not given already
        if stats.level < record.min_level:
            words.append(f"-stats-level={record.min_level} or higher")
        if not is_on[record.needs]:
            words.append(OPTIONS[record.needs])
        options = " and ".join(words) or options_for(view.section)
        lines.append(
            f"no {view.title}: compile with {options} (this buffer has level {stats.level})"
        )
    return tuple(lines)


def has_pmu(stats: Stats) -> bool:
    return bool(stats.layout.pmu.recipe or stats.layout.pmu.events)


# --- Threads, ports and activations of every core ---

_THREAD_BITS = 16  # core and thread as one key


def thread_rows(stats: Stats) -> list[ThreadRow]:
    """Spans of the threads; where ops were timed, also what filled them."""
    records = stats.of(SectionId.THREAD_INF)
    engines = {thread.id: thread.engine.value for thread in stats.layout.threads}
    columns = ("busy_pcycles", "busy_uc", "wait_uc")
    filled = _filled(stats, records) if stats.has(SectionId.OP_REC) else None
    return [
        ThreadRow(
            core=int(record["core"]),
            thread=int(record["thread"]),
            engine=engines.get(int(record["thread"]), "?"),
            start_uc=int(record["start_uc"]),
            end_uc=int(record["end_uc"]),
            pcycles=int(record["end_pc"]) - int(record["start_pc"]),
            **({} if filled is None else dict(zip(columns, map(int, filled[:, i]), strict=True))),
        )
        for i, record in enumerate(records)
    ]


def _filled(stats: Stats, threads: Records) -> np.ndarray:
    """Cycles of execution, ticks of execution and ticks of waiting, by thread."""
    records = op_records(stats)
    keys = _key(threads)
    # Records are looked up by a sorted search: there may be millions of them.
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], _key(records))
    valid = place < len(keys)
    valid[valid] = keys[order][place[valid]] == _key(records)[valid]
    records, place = records[valid], place[valid]
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
        PortRow(core, thread.id, port.id, port.kind, port.incoming, *wait)
        for core in np.unique(stats.of(SectionId.THREAD_INF)["core"]).tolist()
        for port in stats.layout.ports
        for thread in stats.layout.threads
        for wait in [waited.get((core, port.id, thread.id), (0, 0))]
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


# --- The op table: ops of a core by label, with rows for waits and barriers ---


def op_rows(stats: Stats, index: OpIndex, runs: OpRuns) -> dict[int, tuple[OpRow, ...]]:
    """Rows by core, the longest first."""
    groups = _groups(index, runs.op, index.label, len(index.labels))
    out_bytes = index.out_bytes[runs.op]
    counts = groups.count()
    ucycles, pcycles = groups.sum(runs.execute_uc), groups.sum(runs.pc)
    sizes, behind = groups.sum(out_bytes), groups.sum(runs.asynchronous)
    spread = _stddev(groups, runs.pc, out_bytes)
    counters = _counters(stats, index, groups)
    rows = [
        OpRow(
            core=int(g) // groups.width,
            label=index.labels[int(g) % groups.width],
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
    if stats.has(SectionId.OP_REC):
        waited = runs.sync_uc > 0
        rows += _pseudo_rows("sync", index, runs.op[waited], runs.sync_uc[waited])
        joined = runs.joined
        rows += _pseudo_rows("barrier", index, runs.op[joined], runs.barrier_uc[joined])
    by_core: dict[int, list[OpRow]] = {}
    for row in sorted(rows, key=lambda row: (-row.ucycles, row.details)):
        by_core.setdefault(row.core, []).append(row)
    return {core: tuple(ops) for core, ops in by_core.items()}


class _Groups(Struct, frozen=True):
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
            OpLabel(word, ENGINES[int(g) % groups.width].value),
            int(counts[g]),
            int(sums[g]),
        )
        for g in np.flatnonzero(counts)
    ]


class _OfCore(Protocol):
    @property
    def core(self) -> int: ...


Row = TypeVar("Row", bound=_OfCore)


def opstats_of(stats: Stats, index: OpIndex | None = None) -> Opstats:
    """Tables of a buffer. Pass the index where many buffers of one network are read."""
    if not len(stats.of(SectionId.THREAD_INF)):
        raise FileError("no thread of any core was timed", where=safe_terminal(stats.name))
    index = index or op_index(stats.layout, stats.specialization)
    moves = transfers_of(stats, index)
    runs = until_done(op_runs(stats, index), moves)
    ports = port_rows(stats)
    cores = _cores(stats, index, runs)
    totals = Totals(
        start_uc=int(stats.of(SectionId.THREAD_INF)["start_uc"].min()),
        end_uc=int(stats.of(SectionId.THREAD_INF)["end_uc"].max()),
        stats_batch=stats.layout.stats_batch,
        max_input_wait_uc=longest_wait(ports, incoming=True),
        max_output_wait_uc=longest_wait(ports, incoming=False),
    )
    notes = []
    if runs.unknown:
        notes.append(f"{runs.unknown} records of ops that the program does not have: left out")
    if runs.saturated:
        notes.append(f"{runs.saturated} records whose cycle counter was at its end: too small")
    tables = Opstats(
        name=stats.name,
        network=stats.layout.network,
        specialization=stats.network.name,
        level=stats.level,
        device=stats.device,
        inference=stats.inference,
        pmu_events=stats.layout.pmu.events,
        pmu_recipe=stats.layout.pmu.recipe,
        cores=cores,
        peers=peer_rows(stats),
        totals=totals,
        notes=(*stats.notes, *notes, *lacking(stats)),
        verdict=verdict(cores, totals, stats),
        modules=module_rows(index, runs),
        nodes=node_rows(index, runs, op_times(index, runs, moves)),
        roofline=roofline(stats.layout.capacity, index, cores, totals),
        vtcm=vtcm_rows(holds_of(stats, index, runs, moves), index, totals),
        capacity=stats.layout.capacity,
    )
    again = replay_of(stats, index, runs, moves)
    if again is None:
        return replace(tables, levers=stats.layout.levers)
    return predicted(tables, again, index, moves, stats.layout.levers)


def _cores(stats: Stats, index: OpIndex, runs: OpRuns) -> tuple[CoreTables, ...]:
    ops = op_rows(stats, index, runs)
    threads, ports = _by_core(thread_rows(stats)), _by_core(port_rows(stats))
    activations, pmu = _by_core(activation_rows(stats)), _by_core(pmu_rows(stats))
    ddr, records = ddr_rows(stats), stats.of(SectionId.THREAD_INF)
    tables = []
    for core, rows in sorted(threads.items()):
        mine = records[records["core"] == core]
        start, end = (mine[name].astype(np.int64) for name in ("start_pc", "end_pc"))
        longest_pc = int((end - start).max())
        tables.append(
            CoreTables(
                core=core,
                total_uc=max(row.ucycles for row in rows),
                total_pc=longest_pc,
                inference_pc=int(end.max() - start.min()),
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


def _by_core(rows: Iterable[Row]) -> dict[int, list[Row]]:
    by_core: dict[int, list[Row]] = {}
    for row in rows:
        by_core.setdefault(row.core, []).append(row)
    return by_core
