"""Files of a run: raw buffers, and what the host saw as text and as a trace."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.errors import FileError, OutputError, UsageError
from npuscope.families.many_core.buffer_format import SIMULATED, collected, options_for
from npuscope.families.many_core.layout import Layout
from npuscope.families.many_core.records import SectionId
from npuscope.families.many_core.sim.conditions import Iteration, RunOptions, RunResult, to_us
from npuscope.text import safe_terminal

# --- Views, with the compiler option they need ---


class SectionView(Struct, frozen=True):
    """Something to look at, and the section that it is made of."""

    name: str
    meaning: str
    section: SectionId


VIEWS = {
    view.name: view
    for view in (
        SectionView(
            "threads", "durations of inference and activation by thread", SectionId.THREAD_INF
        ),
        SectionView("pmu", "PMU counts by thread", SectionId.PMU_THREAD),
        SectionView("ddr", "DDR traffic by core", SectionId.DDR_CORE),
        SectionView("ports", "waits for doorbells", SectionId.PORT_WAIT),
        SectionView("semaphores", "semaphore increments", SectionId.SEM_OP),
        SectionView("ops", "operators: op tables and traces", SectionId.OP_REC),
        SectionView("op-pmu", "PMU counts by operator", SectionId.OP_PMU),
    )
}


def missing(layout: Layout) -> list[SectionView]:
    """Views that the records of this program cannot give."""
    there = collected(layout.stats_level, layout)
    return [view for view in VIEWS.values() if view.section not in there]


def check_views(layout: Layout, names: Sequence[str]) -> None:
    """Refuse before anything runs what the program was not compiled for."""
    unknown = [name for name in names if name not in VIEWS]
    if unknown:
        raise UsageError(
            f"unknown view '{safe_terminal(unknown[0])}'",
            where="--want",
            hint=f"known: {', '.join(VIEWS)}",
        )
    for view in missing(layout):
        if view.name in names:
            raise UsageError(
                f"{view.meaning}: the program was compiled with -stats-level="
                f"{layout.stats_level} and does not collect them",
                where=f"--want {view.name}",
                hint=f"compile with {options_for(view.section)}",
            )


def absent_notes(layout: Layout) -> tuple[str, ...]:
    """One sentence for each view that the buffers will not have."""
    return tuple(
        f"not collected: {view.meaning}: needs {options_for(view.section)}"
        for view in missing(layout)
    )


HOST_SCHEMA = "npuscope/host-trace/1"
_HOST_PID = 18  # as in published traces
# Threads of the host's process; 0 would be taken for the process itself.
_LANES = {1: "Enqueue", 2: "InputDMA", 3: "Device", 4: "OutputDMA", 5: "Completion"}
_UNSAFE = '<>:"/\\|?*'


def buffer_files(result: RunResult) -> dict[str, bytes]:
    from npuscope.families.many_core.buffer import write_buffer

    return {f"{safe_name(stats.name)}.bin": write_buffer(stats) for stats in result.stats}


def safe_name(name: str) -> str:
    """A network's name as part of a file's."""
    plain = (c if c.isprintable() and not c.isspace() and c not in _UNSAFE else "_" for c in name)
    return "".join(plain)


def host_trace(result: RunResult, layout: Layout) -> dict[str, Any]:
    """Chrome events of the sampled inferences. `ts` 0 is tick 0 of the devices' timer."""
    events: list[dict[str, Any]] = [_named("process_name", 0, "HOST_PROC")]
    events += [_named("thread_name", lane, name) for lane, name in _LANES.items()]
    for iteration in (result.iterations[number] for number in result.sampled):
        for lane, name, begin, end in spans(iteration):
            start, stop = _ns(begin), _ns(end)
            events.append(
                {
                    "ph": "X",
                    "cat": "host",
                    "name": f"{name}-Inf-{iteration.number}",
                    "pid": _HOST_PID,
                    "tid": lane,
                    "ts": start / 1000,
                    "dur": (stop - start) / 1000,
                    "args": {"inference": iteration.number, "queueDepth": iteration.queued},
                }
            )
    about = {
        "schema": HOST_SCHEMA,
        "utc_ns": result.utc_ns,
        "program_uuid": layout.program_uuid,
        "network": layout.network,
        "inferences": list(result.sampled),
    }
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def _named(what: str, lane: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _HOST_PID, "tid": lane, "args": {"name": name}}


def spans(iteration: Iteration) -> list[tuple[int, str, float, float]]:
    """Lane, name and ticks of what the host and its driver did for one inference."""
    one = iteration
    return [
        (1, "enqueue", one.enqueued, one.submitted),
        (2, "inputDma", one.input_begin, one.doorbell),
        (3, "execute", float(one.device_start), float(one.device_end)),
        (4, "outputDma", one.output_begin, one.output_end),
        (5, "complete", one.answered, one.completed),
    ]


def _ns(ticks: float) -> int:
    return round(to_us(ticks) * 1000)


def summary_files(result: RunResult) -> dict[str, bytes]:
    """What `opstats --summary` says of each sampled inference and copy, and what the host saw."""
    from npuscope.families.many_core.opstats.tables import opstats_of
    from npuscope.families.many_core.report.opstats import summary_text

    files = {}
    for stats in result.stats:
        parts = stats.layout.specializations
        name = stats.name.removesuffix("-aiccyclecounts")
        if len(parts) == 1:  # of several devices the network's name tells which
            name = name.removesuffix(f"-{parts[0].name}")
        host = _latencies(result.iterations[stats.inference], stats.layout)
        seen = "".join(f"{name}: {value:.3f}\n" for name, value in host.items())
        text = f"{summary_text(opstats_of(stats), SIMULATED)}\nhost-level stats:\n{seen}"
        files[f"{safe_name(name)}.txt"] = text.encode()
    return files


def host_files(
    result: RunResult, layout: Layout, kind: str, options: RunOptions
) -> dict[str, bytes]:
    """The runtime's own trace (`trace`) or times (`latency`), by activation."""
    first, copies = options.program, range(options.activations)
    # Copies start and end together: the host sees the same of all.
    if kind == "latency":
        table = latency_table(result, layout).encode()
        return {f"aic-profiling-program-{first + copy}-latency.txt": table for copy in copies}
    trace = host_trace(result, layout)
    text = json.dumps(trace, indent=None, separators=(",", ":"))
    stem = f"aic-profiling-program-{first}-activation"
    return {f"{stem}-{copy}-trace.json": text.encode() for copy in copies}


def latency_table(result: RunResult, layout: Layout) -> str:
    """The sampled inferences, one row each, in columns as the vendor's own readers know them:
    they skip four lines, and take names that end in Us for microseconds."""
    rows = [_latencies(result.iterations[number], layout) for number in result.sampled]
    lines = [
        f"Latency of {safe_terminal(layout.network)} on the simulated device",
        f"Samples {len(result.sampled)}",
        f"Iterations {len(result.iterations)}",
        f"BatchSize {layout.stats_batch}",
        ",".join(("Sample", "queueDepth", "numInfInQueue", *rows[0])),
    ]
    for number, row in zip(result.sampled, rows, strict=True):
        queued = result.iterations[number].queued
        times = ",".join(f"{value:.3f}" for value in row.values())
        lines.append(f"{number},{queued},{queued + 1},{times}")
    return "\n".join(lines) + "\n"


def _latencies(one: Iteration, layout: Layout) -> dict[str, float]:
    ticks = {
        "hostRoundTripUs": one.answered - one.submitted,
        "enqTimeUs": one.submitted - one.enqueued,
        "preProcTimeUs": 0.0,  # the device takes what the host has
        "submitTimeUs": one.input_begin - one.submitted,
        "execTotalUs": one.answered - one.submitted,
        "exectoVcUs": one.doorbell - one.input_begin,
        "execToCompleteUs": one.answered - one.doorbell,
        "postProcUs": one.completed - one.answered,
        "totalRoundtripTimeUs": one.completed - one.enqueued,
    }
    return {
        "devInfPerSec": max(layout.stats_batch, 1) / max(one.exec_us, 1e-3) * 1e6,
        "devExecUs": one.exec_us,
        "devInWaitTimeUs": one.input_wait_us,
        "devOutWaitTimeUs": one.output_wait_us,
        **{name: to_us(value) for name, value in ticks.items()},
    }


def check_folder(folder: Path, option: str = "--aic-profiling-out-dir") -> None:
    """The folder must be there before anything runs."""
    if not folder.is_dir():
        raise FileError(
            "this folder does not exist" if not folder.exists() else "is not a folder",
            where=f"{option} {safe_terminal(str(folder))}",
            hint=f"mkdir -p {safe_terminal(str(folder))}",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(
            "this folder is not writable",
            where=f"{option} {safe_terminal(str(folder))}",
        )
