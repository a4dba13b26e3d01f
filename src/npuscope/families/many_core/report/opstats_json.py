"""Tables of stats buffers as one JSON object, and the files that opstats leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npuscope.families.many_core.adapters.model import Sheet
from npuscope.families.many_core.buffer_format import OPSTATS_SCHEMA
from npuscope.families.many_core.opstats.model import (
    CoreTables,
    NodeRow,
    OpRow,
    Opstats,
    Roofline,
    ThreadRow,
    VtcmRow,
)
from npuscope.families.many_core.rules import core_findings
from npuscope.rulebook.finding import finding_json
from npuscope.text import file_name
from npuscope.whole_file import as_file_error, fresh

# --- JSON ---

SCHEMA = OPSTATS_SCHEMA


def opstats_json(
    buffers: Sequence[Opstats],
    files: Mapping[str, Sequence[str]] | None = None,
    inventories: Sequence[Sheet] = (),
) -> dict[str, Any]:
    """All buffers with their tables; `cores`, `totals` and `ops` are of all of them together."""
    files = files or {}
    return {
        "schema": SCHEMA,
        "buffers": [{**_buffer(made), "files": list(files.get(made.name, ()))} for made in buffers],
        "level": max((made.level for made in buffers), default=None),
        "cores": sorted({core.core for made in buffers for core in made.cores}),
        "totals": _all_totals(buffers),
        "ops": _all_ops(buffers),
        "inventories": [_inventory(sheet) for sheet in inventories],
    }


def _inventory(sheet: Sheet) -> dict[str, Any]:
    """Ops of a program of which nothing was timed."""
    rows = [
        {"core": r.core, "details": r.details, "count": r.count, "out_bytes": r.out_bytes}
        for r in sheet.ops
    ]
    return {"name": sheet.file, "network": sheet.network, "ops": rows, "notes": list(sheet.notes)}


def _buffer(made: Opstats) -> dict[str, Any]:
    return {
        "name": made.name,
        "network": made.network,
        "specialization": made.specialization,
        "device": made.device,
        "inference": made.inference,
        "level": made.level,
        "totals": _totals(made),
        "machine": made.capacity.machine if made.capacity else None,
        "verdict": {
            "bound": made.verdict.bound.name,
            "shares": dict(made.verdict.shares),
            "sentence": made.verdict.sentence,
        },
        "findings": [finding_json(finding) for finding in core_findings(made)],
        "path": dict(made.path),
        "levers": [lever.plain() for lever in made.levers],
        "roofline": _roofline(made.roofline),
        "modules": [asdict(row) for row in made.modules],
        "nodes": [node_json(row) for row in made.nodes],
        "vtcm": [_vtcm(row) for row in made.vtcm],
        "cores": [_core(made, core) for core in made.cores],
        "ops": [_op(core, row) for core in made.cores for row in core.ops],
        "peers": [asdict(row) for row in made.peers],
        "notes": list(made.notes),
    }


def _roofline(found: Roofline | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {**asdict(found), "macs_per_byte": found.per_byte, "reached": found.reached}


def _vtcm(row: VtcmRow) -> dict[str, Any]:
    return {"core": row.core, "most_bytes": row.most_bytes, "parts": list(row.parts)}


def _totals(made: Opstats) -> dict[str, Any]:
    totals = made.totals
    return {
        "start_ucycles": totals.start_uc,
        "end_ucycles": totals.end_uc,
        "ucycles": totals.ucycles,
        "seconds": totals.seconds,
        "stats_batch": totals.stats_batch,
        "batches_per_s": totals.batches_per_s,
        "inferences_per_s": totals.inferences_per_s,
        "max_input_wait_ucycles": totals.max_input_wait_uc,
        "max_output_wait_ucycles": totals.max_output_wait_uc,
        "ddr_bytes": made.ddr_bytes,
    }


def _core(made: Opstats, core: CoreTables) -> dict[str, Any]:
    events = [f"0x{code:X}" for code in made.pmu_events]
    return {
        "core": core.core,
        "ucycles": core.total_uc,
        "pcycles": core.total_pc,
        "inference_pcycles": core.inference_pc,
        "effective_mhz": core.effective_mhz,
        "threads": [_thread(row) for row in core.threads],
        "ports": [asdict(row) for row in core.ports],
        "activations": [asdict(row) for row in core.activations],
        "pmu": [
            {"thread": row.thread, "counts": dict(zip(events, row.counts, strict=False))}
            for row in core.pmu
        ],
        "active_percent": dict(core.active),
        "ddr": asdict(core.ddr) if core.ddr is not None else None,
    }


def _thread(row: ThreadRow) -> dict[str, Any]:
    return {
        "thread": row.thread,
        "engine": row.engine,
        "start_ucycles": row.start_uc,
        "end_ucycles": row.end_uc,
        "ucycles": row.ucycles,
        "pcycles": row.pcycles,
        "busy_ucycles": row.busy_uc,
        "wait_ucycles": row.wait_uc,
        "idle_ucycles": row.idle_uc,
        "utilization": row.utilization,
    }


def node_json(row: NodeRow) -> dict[str, Any]:
    return {**asdict(row), "origin": list(row.origin)}


def _op(core: CoreTables, row: OpRow) -> dict[str, Any]:
    return {
        "core": row.core,
        "details": row.details,
        "count": row.count,
        "ucycles": row.ucycles,
        "ucycles_share": row.ucycles / core.total_uc if core.total_uc else None,
        "pcycles": row.pcycles,
        "pcycles_share": row.pcycles / core.total_pc if row.pcycles and core.total_pc else None,
        "out_bytes": row.out_bytes,
        "ucycles_per_kb": row.ucycles_per_kb,
        "pcycles_per_kb": row.pcycles_per_kb,
        "pcycles_per_kb_stddev": row.pcycles_per_kb_stddev,
        "counters": list(row.counters),
    }


def _all_totals(buffers: Sequence[Opstats]) -> dict[str, Any]:
    ticks = [made.totals.ucycles for made in buffers]
    rates = [made.totals.inferences_per_s for made in buffers]
    return {
        "buffers": len(buffers),
        "ucycles_mean": _mean(ticks),
        "ucycles_min": min(ticks, default=None),
        "ucycles_max": max(ticks, default=None),
        "inferences_per_s_mean": _mean(rates),
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _all_ops(buffers: Iterable[Opstats]) -> list[dict[str, Any]]:
    """Equal ops on all cores of all buffers, the longest first."""
    rows: dict[str, list[OpRow]] = {}
    for made in buffers:
        for core in made.cores:
            for row in core.ops:
                rows.setdefault(row.details, []).append(row)
    sums = [_sum(details, found) for details, found in rows.items()]
    return sorted(sums, key=lambda row: (-row["ucycles"], row["details"]))


def _sum(details: str, rows: list[OpRow]) -> dict[str, Any]:
    cycles = [row.pcycles for row in rows if row.pcycles is not None]
    sizes = [row.out_bytes for row in rows if row.out_bytes is not None]
    ticks = sum(row.ucycles for row in rows)
    return {
        "details": details,
        "count": sum(row.count for row in rows),
        "ucycles": ticks,
        "pcycles": sum(cycles) if cycles else None,
        "out_bytes": sum(sizes) if sizes else None,
        "ucycles_per_kb": ticks * 1024 / sum(sizes) if sum(sizes) else None,
        "pcycles_per_kb": sum(cycles) * 1024 / sum(sizes) if cycles and sum(sizes) else None,
    }


# --- Files: complete, or absent ---

SUMMARY = "summary.txt"


def output_path(folder: Path, stem: str, ending: str) -> Path:
    """`<buffer name>.qaic-opstats.<ending>`."""
    return folder / f"{file_name(stem)}.qaic-opstats.{ending}"


def write_text(path: Path, text: str) -> Path:
    with as_file_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with fresh(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return path
