"""What the page shows of stats buffers: what to change, nodes, VTCM, threads, the longest ops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from npuscope.families.many_core.opstats.model import (
    CoreVerdict,
    NodeRow,
    OpRow,
    Opstats,
)
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.families.many_core.report.opstats import no_lever
from npuscope.families.many_core.rules import core_findings
from npuscope.report.figures import count, ms, size
from npuscope.report.html.data import cause_data, finding_data
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
            "advice": (
                {"verdict": CoreVerdict().sentence, "path": [], "levers": [], "none": ""}
                if first is None
                else {
                    "verdict": first.verdict.sentence,
                    "path": [list(row) for row in first.path],
                    "levers": [{**lever.plain(), "factor": lever.factor} for lever in first.levers],
                    "none": no_lever(first),
                }
            ),
            "explained": first is not None,
            "findings": [finding_data(one) for one in core_findings(first)] if first else [],
            "causes": cause_data(core_findings(first)) if first else {},
            "total_ms": first.totals.seconds * 1e3 if first else 0.0,
            "roof": _roof(first),
            "modules": _modules(first),
            "vtcm": _vtcm(first),
            "buffers": [_buffer(buffer) for buffer in islice(buffers, _MOST_BUFFERS)],
            "ops": ops[:_MOST_OPS],
            "ops_us": sum(row["us"] for row in ops),
            "facts": _facts(buffers),
            "notes": [*notes, *_left_out(buffers, ops)],
        }
    )


def _figures(buffers: Sequence[Opstats]) -> list[dict[str, str]]:
    seconds = [buffer.totals.seconds for buffer in buffers]
    rates = [buffer.totals.inferences_per_s for buffer in buffers]
    moved = [buffer.ddr_bytes for buffer in buffers if buffer.ddr_bytes is not None]
    cores = {core.core for buffer in buffers for core in buffer.cores}
    rows = [("Buffers", count(len(buffers)), f"{len(cores)} cores")]
    if buffers:
        spread = f"{ms(min(seconds) * 1000)} to {ms(max(seconds) * 1000)} ms"
        rows.append(("Inference, mean", f"{ms(1000 * sum(seconds) / len(seconds))} ms", spread))
        mean = sum(rates) / len(rates)
        rate = count(mean) if mean >= 1000 else f"{mean:.4g}"
        rows.append(("Rate, mean", f"{rate} inf/s", "one device"))
    if moved:
        rows.append(("DDR traffic, mean", size(sum(moved) / len(moved)), "read and written"))
    verdicts = [buffer.verdict for buffer in buffers if buffer.verdict.shares]
    if verdicts:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in verdicts[0].shares)
        rows.append(("Bound by", verdicts[0].bound.value, f"utilisation: {shares}"))
    return [
        {"name": name, "value": value, "detail": detail, "source": _SOURCE}
        for name, value, detail in rows
    ]


def _buffer(buffer: Opstats) -> dict[str, Any]:
    start = buffer.totals.start_uc
    return {
        "name": buffer.name,
        "network": buffer.network,
        "device": buffer.device,
        "inference": buffer.inference,
        "us": buffer.totals.ucycles * _US,
        "threads": [
            {
                "name": f"core {core.core}, {row.engine} {row.thread}",
                "from": (row.start_uc - start) * _US,
                "to": (row.end_uc - start) * _US,
                "busy": None if row.busy_uc is None else row.busy_uc * _US,
                "wait": None if row.busy_uc is None else (row.wait_uc or 0) * _US,
            }
            for core in buffer.cores
            for row in core.threads
        ],
    }


def _ops(buffers: Sequence[Opstats]) -> list[dict[str, Any]]:
    """Equal ops on all cores of all buffers, the longest first."""
    rows: dict[str, list[OpRow]] = {}
    for row in (row for buffer in buffers for core in buffer.cores for row in core.ops):
        rows.setdefault(row.details, []).append(row)
    sums = []
    for details, same in rows.items():
        sizes = [row.out_bytes for row in same if row.out_bytes is not None]
        sums.append(
            {
                "details": details,
                "count": sum(row.count for row in same),
                "us": sum(row.ucycles for row in same) * _US,
                "out_bytes": sum(sizes) if sizes else None,
            }
        )
    return sorted(sums, key=lambda row: (-row["us"], row["details"]))


# --- What holds the first inference up, and what to change; others of the run are much like it ---

_MOST_MODULES = 80
_MOST_NODES = 120  # of a module


def _modules(buffer: Opstats | None) -> list[dict[str, Any]]:
    """Nodes by module, in the order of the tables."""
    if buffer is None:
        return []
    start = buffer.totals.start_uc
    by_module: dict[str, list[NodeRow]] = {}
    for row in buffer.nodes:
        by_module.setdefault(row.module, []).append(row)
    return [
        {
            "name": name,
            "cycles": sum(row.hvx_pcycles + row.hmx_pcycles for row in rows),
            "nodes": [
                [row.node, row.hvx_pcycles, row.hmx_pcycles, row.macs, row.ddr_bytes, row.ops,
                 (row.start_uc - start) * _US, (row.end_uc - start) * _US]
                for row in rows[:_MOST_NODES]
            ],
        }
        for name, rows in islice(by_module.items(), _MOST_MODULES)
    ]  # fmt: skip


def _roof(buffer: Opstats | None) -> dict[str, Any] | None:
    """The whole run, then modules that multiply and move bytes."""
    if buffer is None or buffer.roofline is None:
        return None
    roof = buffer.roofline
    groups: dict[str, list[NodeRow]] = {}
    for row in buffer.nodes:
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


def _vtcm(buffer: Opstats | None) -> dict[str, Any] | None:
    if buffer is None or not buffer.vtcm or buffer.capacity is None:
        return None
    fullest = next(row for row in buffer.vtcm if row.blocks)
    start = buffer.totals.start_uc
    return {
        "room": buffer.capacity.vtcm_bytes,
        "us": buffer.totals.ucycles * _US,
        "cores": [
            {"core": row.core, "most": row.most_bytes, "parts": list(row.parts)}
            for row in buffer.vtcm
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
    levels = ", ".join(map(str, sorted({buffer.level for buffer in buffers})))
    networks = ", ".join(dict.fromkeys(buffer.network for buffer in buffers))
    devices = ", ".join(map(str, sorted({buffer.device for buffer in buffers})))
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
