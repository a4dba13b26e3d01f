"""What the page shows of stats buffers: what to change, nodes, VTCM, threads, the longest ops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from npuscope.families.many_core.opstats.model import (
    CoreTables,
    NodeRow,
    OpRow,
    Opstats,
    ThreadRow,
    Verdict,
)
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.families.many_core.report.opstats import no_lever
from npuscope.families.many_core.rules import core_findings
from npuscope.report.figures import count, ms, size
from npuscope.report.html.data import finding_data
from npuscope.report.html.page import page
from npuscope.version import __version__

_US = 1e6 / UTIMER_HZ
_MOST_BUFFERS = 24  # with bars for their threads; all of them are in the sums
_MOST_OPS = 300  # rows of the table, the longest ops
_SOURCE = "read from stats buffers"


def opstats_page(buffers: Sequence[Opstats], answer: str, notes: Sequence[str] = ()) -> str:
    """The HTML file of `npuscope opstats`; `answer` is the line above all."""
    ops = _ops(buffers)
    first = buffers[0] if buffers else None
    return page(
        {
            "view": "opstats",
            "version": __version__,
            "title": buffers[0].network if buffers else "stats buffers",
            "answer": answer,
            "figures": _figures(buffers),
            "advice": _advice(first),
            "explained": first is not None,
            "findings": [finding_data(one) for one in core_findings(first)] if first else [],
            "total_ms": first.totals.seconds * 1e3 if first else 0.0,
            "roof": _roof(first),
            "modules": _modules(first),
            "vtcm": _vtcm(first),
            "buffers": [_buffer(made) for made in islice(buffers, _MOST_BUFFERS)],
            "ops": ops[:_MOST_OPS],
            "ops_us": sum(row["us"] for row in ops),
            "facts": _facts(buffers),
            "notes": [*notes, *_left_out(buffers, ops)],
        }
    )


def _figures(buffers: Sequence[Opstats]) -> list[dict[str, str]]:
    seconds = [made.totals.seconds for made in buffers]
    rates = [made.totals.inferences_per_s for made in buffers]
    moved = [made.ddr_bytes for made in buffers if made.ddr_bytes is not None]
    cores = {core.core for made in buffers for core in made.cores}
    rows = [("Buffers", count(len(buffers)), f"{len(cores)} cores")]
    if buffers:
        spread = f"{ms(min(seconds) * 1000)} to {ms(max(seconds) * 1000)} ms"
        rows.append(("Inference, mean", f"{ms(1000 * sum(seconds) / len(seconds))} ms", spread))
        rows.append(("Rate, mean", f"{_rate(sum(rates) / len(rates))} inf/s", "one device"))
    if moved:
        rows.append(("DDR traffic, mean", size(sum(moved) / len(moved)), "read and written"))
    known = [made.verdict for made in buffers if made.verdict.shares]
    if known:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in known[0].shares)
        rows.append(("Bound by", known[0].bound.value, f"at work: {shares}"))
    return [
        {"name": name, "value": value, "detail": detail, "source": _SOURCE}
        for name, value, detail in rows
    ]


def _rate(value: float) -> str:
    return count(value) if value >= 1000 else f"{value:.4g}"


def _buffer(made: Opstats) -> dict[str, Any]:
    start = made.totals.start_uc
    return {
        "name": made.name,
        "network": made.network,
        "device": made.device,
        "inference": made.inference,
        "us": made.totals.ucycles * _US,
        "threads": [_thread(row, core, start) for core in made.cores for row in core.threads],
    }


def _thread(row: ThreadRow, core: CoreTables, start_uc: int) -> dict[str, Any]:
    timed = row.busy_uc is not None
    return {
        "name": f"core {core.core}, {row.engine} {row.thread}",
        "from": (row.start_uc - start_uc) * _US,
        "to": (row.end_uc - start_uc) * _US,
        "busy": (row.busy_uc or 0) * _US if timed else None,
        "wait": (row.wait_uc or 0) * _US if timed else None,
    }


def _ops(buffers: Sequence[Opstats]) -> list[dict[str, Any]]:
    """Equal ops on all cores of all buffers, the longest first."""
    rows: dict[str, list[OpRow]] = {}
    for row in (row for made in buffers for core in made.cores for row in core.ops):
        rows.setdefault(row.details, []).append(row)
    sums = [_op(details, found) for details, found in rows.items()]
    return sorted(sums, key=lambda row: (-row["us"], row["details"]))


def _op(details: str, rows: list[OpRow]) -> dict[str, Any]:
    sizes = [row.out_bytes for row in rows if row.out_bytes is not None]
    return {
        "details": details,
        "count": sum(row.count for row in rows),
        "us": sum(row.ucycles for row in rows) * _US,
        "out_bytes": sum(sizes) if sizes else None,
    }


# --- What holds the first inference up, and what to change; others of the run are much like it ---

_MOST_MODULES = 80
_MOST_NODES = 120  # of a module


def _advice(made: Opstats | None) -> dict[str, Any]:
    if made is None:
        return {"verdict": Verdict().sentence, "path": [], "levers": [], "none": ""}
    return {
        "verdict": made.verdict.sentence,
        "path": [list(row) for row in made.path],
        "levers": [{**lever.plain(), "factor": lever.factor} for lever in made.levers],
        "none": no_lever(made),
    }


def _modules(made: Opstats | None) -> list[dict[str, Any]]:
    """Nodes by module, in the order of the tables."""
    found: dict[str, list[NodeRow]] = {}
    for row in made.nodes if made else ():
        found.setdefault(row.module, []).append(row)
    return [
        {
            "name": name,
            "cycles": sum(row.hvx_pcycles + row.hmx_pcycles for row in rows),
            "nodes": [_node(row, made) for row in rows[:_MOST_NODES]],
        }
        for name, rows in islice(found.items(), _MOST_MODULES)
        if made
    ]


def _node(row: NodeRow, made: Opstats) -> list[Any]:
    times = [(when - made.totals.start_uc) * _US for when in (row.start_uc, row.end_uc)]
    return [row.node, row.hvx_pcycles, row.hmx_pcycles, row.macs, row.ddr_bytes, row.ops, *times]


def _roof(made: Opstats | None) -> dict[str, Any] | None:
    """The whole run, then modules that multiply and move bytes."""
    if made is None or made.roofline is None:
        return None
    roof = made.roofline
    groups: dict[str, list[NodeRow]] = {}
    for row in made.nodes:
        groups.setdefault(row.module or row.node, []).append(row)
    points = [_point("the whole run", roof.macs, roof.ddr_bytes, roof.seconds)]
    for name, rows in groups.items():
        ticks = max(row.end_uc for row in rows) - min(row.start_uc for row in rows)
        sums = sum(row.macs for row in rows), sum(row.ddr_bytes for row in rows)
        points.append(_point(name, *sums, ticks / UTIMER_HZ))
    return {
        "macs_per_s": roof.macs_per_s,
        "ddr_bytes_per_s": roof.ddr_bytes_per_s,
        "points": [point for point in points if point is not None],
    }


def _point(name: str, macs: int, moved: int, seconds: float) -> dict[str, Any] | None:
    if not (macs and moved and seconds > 0):
        return None
    return {"name": name, "x": macs / moved, "y": macs / seconds, "us": 1e6 * seconds}


def _vtcm(made: Opstats | None) -> dict[str, Any] | None:
    if made is None or not made.vtcm or made.capacity is None:
        return None
    fullest = next(row for row in made.vtcm if row.blocks)
    start = made.totals.start_uc
    return {
        "room": made.capacity.vtcm_bytes,
        "us": made.totals.ucycles * _US,
        "cores": [
            {"core": row.core, "most": row.most_bytes, "parts": list(row.parts)}
            for row in made.vtcm
        ],
        "core": fullest.core,
        "drawn": max(block.offset + block.bytes for block in fullest.blocks),
        "blocks": [
            [block.name, block.offset, block.bytes, int(block.constant),
             (block.start_uc - start) * _US, (block.end_uc - start) * _US]
            for block in fullest.blocks
        ],
    }  # fmt: skip


def _facts(buffers: Sequence[Opstats]) -> list[list[str]]:
    levels = ", ".join(map(str, sorted({made.level for made in buffers})))
    networks = ", ".join(dict.fromkeys(made.network for made in buffers))
    devices = ", ".join(map(str, sorted({made.device for made in buffers})))
    rows = [
        ["Networks", networks],
        ["Devices", devices],
        ["Stats level", levels],
        ["Clock", f"common timer, {UTIMER_HZ / 1e6:g} MHz"],
        ["Source", _SOURCE],
    ]
    return [row for row in rows if row[1]]


def _left_out(buffers: Sequence[Opstats], ops: list[dict[str, Any]]) -> list[str]:
    notes = []
    if len(buffers) > _MOST_BUFFERS:
        notes.append(f"{len(buffers) - _MOST_BUFFERS} more buffers are in the sums, without bars")
    if len(ops) > _MOST_OPS:
        notes.append(f"{len(ops) - _MOST_OPS} more kinds of op are left out")
    return notes
