"""A sheet in the tables that opstats prints and as the timeline that it writes."""

from __future__ import annotations

import numpy as np

from npuscope.errors import UsageError
from npuscope.families.many_core.adapters.model import Sheet, SheetOp, SheetTimeline
from npuscope.families.many_core.opstats import model as opstats
from npuscope.families.many_core.opstats.verdict import verdict
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.structs import replace
from npuscope.trace_builder import TraceBuilder
from npuscope.trace_model import Events, TraceModel, overlapping, trace_order

_PER_US = UTIMER_HZ / 1e6
_HOST_PORTS = {100: True, 101: False}  # whether data come in
_OPS, _THREADS, _PORTS = 70, 40, 50


def sheet_tables(sheet: Sheet) -> opstats.Opstats:
    """Only of a sheet with times; microseconds become ticks of the timer."""
    if not sheet.timed and not sheet.threads:
        raise UsageError(
            "nothing was timed in this file: it lists ops only",
            where=sheet.file,
            hint="sheet_text prints it",
        )
    cores, totals = tuple(_core(sheet, core) for core in sheet.cores), _totals(sheet)
    notes = list(sheet.notes)
    if any(row.ucycles is None for row in sheet.ops):
        notes.append(f"the source has no timer ticks: ucycles are microseconds times {_PER_US:g}")
    return opstats.Opstats(
        name=sheet.file,
        network=sheet.network or sheet.file,
        specialization=sheet.network or sheet.file,
        level=_OPS if sheet.ops else _PORTS if sheet.port_waits else _THREADS,
        device=0,
        inference=0,
        pmu_events=(),
        pmu_recipe="",
        cores=cores,
        peers=(),
        totals=totals,
        notes=tuple(notes),
        verdict=verdict(cores, totals),
    )


def _core(sheet: Sheet, core: int) -> opstats.CoreTables:
    threads = tuple(
        opstats.ThreadRow(
            core,
            span.thread,
            span.engine,
            span.start_uc,
            span.end_uc,
            span.pcycles,
            None
            if span.utilization is None or span.pcycles is None
            else round(span.utilization * span.pcycles),
        )
        for span in sheet.threads
        if span.core == core and span.end_uc > span.start_uc
    )
    ops = [_op(row) for row in sheet.ops if row.core == core]
    cycles = [row.pcycles for row in threads if row.pcycles is not None]

    return opstats.CoreTables(
        core=core,
        total_uc=max((row.ucycles for row in threads), default=_totals(sheet).ucycles),
        total_pc=max(cycles, default=_cycles(sheet, core)),
        inference_pc=dict(sheet.inference_pcycles).get(core),
        ops=tuple(sorted(ops, key=lambda row: -row.ucycles)),
        threads=threads,
        ports=tuple(
            opstats.PortRow(
                core,
                row.thread,
                row.port,
                "host" if row.port in _HOST_PORTS else "p2p",
                _HOST_PORTS.get(row.port, False),
                1,
                row.wait_uc,
            )
            for row in sheet.port_waits
            if row.core == core
        ),
        activations=tuple(
            opstats.ActivationRow(core, span.thread, span.activate_uc)
            for span in sheet.threads
            if span.core == core and span.activate_uc is not None
        ),
        pmu=(),
        active=(),
        ddr=None,
    )


def _cycles(sheet: Sheet, core: int) -> int | None:
    """Of the whole inference, where only its clock is known."""
    mhz = dict(sheet.frequencies_mhz).get(core)
    return None if mhz is None or sheet.totals is None else round(sheet.totals.us * mhz)


def _op(row: SheetOp) -> opstats.OpRow:
    ticks = row.ucycles if row.ucycles is not None else (row.us or 0.0) * _PER_US
    return opstats.OpRow(
        core=row.core,
        label=replace(row.label, name=row.name),
        count=row.count,
        ucycles=round(ticks),
        pcycles=None if row.pcycles is None else round(row.pcycles),
        out_bytes=None if row.out_bytes is None else round(row.out_bytes),
        pcycles_per_kb_stddev=row.stddev_pcycles_per_kb,
    )


def _totals(sheet: Sheet) -> opstats.Totals:
    totals = sheet.totals
    ticks = 0 if totals is None else totals.ucycles or round(totals.us * _PER_US)
    start = totals.start_uc if totals and totals.start_uc is not None else 0
    waits = {
        incoming: [r.wait_uc for r in sheet.port_waits if _HOST_PORTS.get(r.port) is incoming]
        for incoming in (True, False)
    }
    return opstats.Totals(
        start_uc=start,
        end_uc=start + ticks,
        stats_batch=totals.batch if totals else 1,
        max_input_wait_uc=max(waits[True], default=None),
        max_output_wait_uc=max(waits[False], default=None),
    )


def sheet_trace(sheet: Sheet) -> TraceModel:
    """The timeline of a source that has one."""
    timeline = sheet.timeline
    if timeline is None:
        raise UsageError(
            "this source has sums only, no timeline",
            where=sheet.file,
            hint="give a trace of the run",
        )
    builder = TraceBuilder()
    processes: dict[str, int] = {}
    rows_of_lanes = []
    for lane in timeline.lanes:
        if lane.process not in processes:
            number = len(processes) + 1
            processes[lane.process] = builder.process(lane.process, number, number)
        rows_of_lanes.append(builder.thread(processes[lane.process], lane.thread))
    threads = np.array(rows_of_lanes, np.int32)
    names = builder.texts(timeline.names)
    crossing = np.isin(timeline.lane, _crossing_lanes(timeline))
    numbers = np.empty(len(timeline.lane), np.int64)
    for rows, spread in ((np.flatnonzero(~crossing), False), (np.flatnonzero(crossing), True)):
        numbers[rows] = builder.add_slices(
            threads[timeline.lane[rows]],
            timeline.start_ns[rows],
            timeline.end_ns[rows],
            names[timeline.name[rows]],
            overlapping=spread and len(rows) > 0,
        )
    _add_flows(builder, timeline, numbers)
    _add_counters(builder, timeline)
    return builder.build(sheet.file)


def _crossing_lanes(timeline: SheetTimeline) -> np.ndarray:
    """Lanes whose slices overlap without lying in each other: transfers in flight."""
    order = trace_order(timeline.start_ns, timeline.end_ns)
    lane = timeline.lane[order].astype(np.int32)
    nothing = np.zeros_like(lane)
    events = Events(lane, timeline.start_ns[order], timeline.end_ns[order], nothing, nothing)
    lanes: np.ndarray = np.unique(lane[overlapping(events)])
    return lanes


def _add_flows(builder: TraceBuilder, timeline: SheetTimeline, numbers: np.ndarray) -> None:
    data = timeline.flow_data
    for rows, category in ((data, "true"), (~data, "false")):
        source, target = timeline.flow_source[rows], timeline.flow_target[rows]
        builder.add_flows(numbers[source], numbers[target], category)


def _add_counters(builder: TraceBuilder, timeline: SheetTimeline) -> None:
    if not timeline.counters:
        return
    process = builder.process("Counters", len({lane.process for lane in timeline.lanes}) + 1)
    for name, ns, values in timeline.counters:
        builder.add_samples(builder.counter(process, name), ns, values)


def sheet_text(sheet: Sheet) -> str:
    """Ops by core: how many, how much they write, what they are. For a sheet without times."""
    from npuscope.text import safe_terminal

    lines = [f"{safe_terminal(sheet.network or sheet.file)}: {sum(r.count for r in sheet.ops)} ops"]
    lines += [f"note     {safe_terminal(note)}" for note in sheet.notes]
    lines += ["", f"{'core':<6}{'count':>8}{'out KB':>14}  opdetails"]
    for row in sheet.ops:
        size = "N/A" if row.out_bytes is None else f"{row.out_bytes / 1024:.2f}"
        lines.append(f"c{row.core:<5}{row.count:>8}{size:>14}  {safe_terminal(row.details)}")
    return "\n".join(lines) + "\n"
