"""Tables of stats buffers as one JSON object, and the files that opstats leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from npuscope.families.many_core.adapters.model import Sheet
from npuscope.families.many_core.buffer_format import OPSTATS_SCHEMA
from npuscope.families.many_core.opstats.model import (
    CoreTables,
    NodeRow,
    OpRow,
    Opstats,
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
    ticks = [tables.totals.ucycles for tables in buffers]
    rates = [tables.totals.inferences_per_s for tables in buffers]
    return {
        "schema": SCHEMA,
        "buffers": [{**_buffer(one), "files": list(files.get(one.name, ()))} for one in buffers],
        "level": max((one.level for one in buffers), default=None),
        "cores": sorted({core.core for one in buffers for core in one.cores}),
        "totals": {
            "buffers": len(buffers),
            "ucycles_mean": _mean(ticks),
            "ucycles_min": min(ticks, default=None),
            "ucycles_max": max(ticks, default=None),
            "inferences_per_s_mean": _mean(rates),
        },
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


def _buffer(tables: Opstats) -> dict[str, Any]:
    totals, roofline = tables.totals, tables.roofline
    return {
        "name": tables.name,
        "network": tables.network,
        "specialization": tables.specialization,
        "device": tables.device,
        "inference": tables.inference,
        "level": tables.level,
        "totals": {
            "start_ucycles": totals.start_uc,
            "end_ucycles": totals.end_uc,
            "ucycles": totals.ucycles,
            "seconds": totals.seconds,
            "stats_batch": totals.stats_batch,
            "batches_per_s": totals.batches_per_s,
            "inferences_per_s": totals.inferences_per_s,
            "inference_ucycles": totals.inference_ucycles,
            "max_input_wait_ucycles": totals.max_input_wait_uc,
            "max_output_wait_ucycles": totals.max_output_wait_uc,
            "ddr_bytes": tables.ddr_bytes,
        },
        "machine": tables.capacity.machine if tables.capacity else None,
        "verdict": {
            "bound": tables.verdict.bound.name,
            "shares": dict(tables.verdict.shares),
            "sentence": tables.verdict.sentence,
        },
        "findings": [finding_json(finding) for finding in core_findings(tables)],
        "path": dict(tables.path),
        "levers": [lever.plain() for lever in tables.levers],
        "roofline": roofline
        and {
            **asdict(roofline),
            "macs_per_byte": roofline.per_byte,
            "reached": roofline.reached,
        },
        "modules": [asdict(row) for row in tables.modules],
        "nodes": [node_json(row) for row in tables.nodes],
        "vtcm": [
            {"core": row.core, "most_bytes": row.most_bytes, "parts": list(row.parts)}
            for row in tables.vtcm
        ],
        "cores": [_core(tables, core) for core in tables.cores],
        "ops": [_op(core, row) for core in tables.cores for row in core.ops],
        "peers": [asdict(row) for row in tables.peers],
        "notes": list(tables.notes),
    }


def _core(tables: Opstats, core: CoreTables) -> dict[str, Any]:
    events = [f"0x{code:X}" for code in tables.pmu_events]
    return {
        "core": core.core,
        "ucycles": core.total_uc,
        "pcycles": core.total_pc,
        "inference_pcycles": core.inference_pc,
        "effective_mhz": core.effective_mhz,
        "threads": [
            {
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
            for row in core.threads
        ],
        "ports": [asdict(row) for row in core.ports],
        "activations": [asdict(row) for row in core.activations],
        "pmu": [
            {"thread": row.thread, "counts": dict(zip(events, row.counts, strict=False))}
            for row in core.pmu
        ],
        "active_percent": dict(core.active),
        "ddr": asdict(core.ddr) if core.ddr is not None else None,
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


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _all_ops(buffers: Iterable[Opstats]) -> list[dict[str, Any]]:
    """Equal ops on all cores of all buffers, the longest first."""
    rows: dict[str, list[OpRow]] = {}
    for tables in buffers:
        for core in tables.cores:
            for row in core.ops:
                rows.setdefault(row.details, []).append(row)
    sums = []
    for details, same in rows.items():
        cycles = [row.pcycles for row in same if row.pcycles is not None]
        size = sum(row.out_bytes for row in same if row.out_bytes is not None)
        ticks = sum(row.ucycles for row in same)
        sums.append(
            {
                "details": details,
                "count": sum(row.count for row in same),
                "ucycles": ticks,
                "pcycles": sum(cycles) if cycles else None,
                "out_bytes": size if any(row.out_bytes is not None for row in same) else None,
                "ucycles_per_kb": ticks * 1024 / size if size else None,
                "pcycles_per_kb": sum(cycles) * 1024 / size if cycles and size else None,
            }
        )
    return sorted(sums, key=lambda row: (-row["ucycles"], row["details"]))


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
