"""The profile as a table for spreadsheets: one row per epoch, one column per figure.

Pools, buses and engines have columns only where an epoch of this profile uses them. An empty cell
means not counted or not stated; 0 means none.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from msgspec.structs import asdict

from npuscope.boards.wire.statistics import BEATS
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.report.figures import clocks_of, is_bare, operations, phases, processor_units
from npuscope.sim.counters import CacheCounts, EpochCounters
from npuscope.text import csv_cell

Cell = str | int | float | None
Cells = dict[str, Cell]

# Figures that need what the compiler said.
_COMPILERS = (
    "operations",
    "ops",
    "compute_cycles",
    "max_cycles",
    "ops_per_cycle",
    "core_ops_per_cycle",
    "compute_ratio_percent",
    "core_compute_ratio_percent",
)
_GROUPS = ("busif_", "streng_", "cache_", "pool_", "predicted_")
_CACHE = tuple(f"cache_{name}" for name in asdict(CacheCounts()))


def profile_csv_text(profile: Profile) -> str:
    rows = [_row(profile, epoch) for epoch in profile.epochs]
    out = io.StringIO()
    # By group, engines by number: one first used in a late epoch still stands in its place.
    table = csv.DictWriter(
        out,
        sorted(dict.fromkeys(name for row in rows for name in row), key=_place),
        restval="",
        lineterminator="\n",
    )
    table.writeheader()
    table.writerows(rows)
    return out.getvalue()


def _place(column: str) -> tuple[int, list[str]]:
    group = next((i for i, start in enumerate(_GROUPS) if column.startswith(start)), -1)
    return group, column.split("_")[1:3] if column.startswith("streng_") else []


def _row(profile: Profile, epoch: EpochProfile) -> Cells:
    """pre and post are MCU cycles, core is NPU cycles; totals are all three in NPU cycles."""
    claims, counters, spread = epoch.claims, epoch.counters, epoch.spread
    total, core = phases(epoch, clocks_of(profile)).total_npu_cycles, counters.core_cycles
    row: Cells = {
        "index": epoch.index,
        "name": csv_cell(epoch.name),
        "first": epoch.first,
        "last": epoch.last,
        "kind": epoch.kind.value,
        "blob": epoch.blob,
        "operators": _names(epoch.operators),
        "origin": _names(epoch.origin),
        "operations": _counts(operations(epoch)),
        "units": _counts(processor_units(epoch)),
        "ops": claims.ops,
        "compute_cycles": claims.compute_cycles,
        "max_cycles": claims.max_cycles,
        # Share of the measured core, as the vendor's profiler has it.
        "core_vs_max_percent": _percent(core - claims.max_cycles, core)
        if claims.max_cycles
        else None,
        "pre_cycles": round(counters.pre_cycles),
        "core_cycles": round(core),
        "post_cycles": round(counters.post_cycles),
        "total_npu_cycles": round(total),
        "ops_per_cycle": round(claims.ops / total, 3) if total else None,
        "core_ops_per_cycle": round(claims.ops / core, 3) if core else None,
        "compute_ratio_percent": _percent(claims.compute_cycles, total),
        "core_compute_ratio_percent": _percent(claims.compute_cycles, core),
        "ms": _ms(epoch.ms),
        "share_percent": _percent(epoch.ms, profile.total_ms),
        "bound": counters.bound.value,
        "provenance": epoch.provenance.value,
        "min_ms": _ms(spread.min),
        "median_ms": _ms(spread.median),
        "max_ms": _ms(spread.max),
        "runs": spread.n,
        **_hardware(counters),
    }
    if epoch.predicted_ms is not None:
        # Ours beside a measured time; positive error: predicted too slow.
        row["predicted_ms"] = _ms(epoch.predicted_ms)
        row["predicted_error_percent"] = _percent(epoch.predicted_ms - epoch.ms, epoch.ms)
    return row | dict.fromkeys(_COMPILERS) if is_bare(epoch) else row


def _names(names: Iterable[str]) -> str:
    return csv_cell(" | ".join(names))


def _counts(counts: dict[str, int]) -> str:
    return csv_cell(" ".join(f"{name}={number}" for name, number in counts.items()))


def _hardware(counters: EpochCounters) -> Cells:
    """Columns of the buses, engines, caches and pools that the epoch uses."""
    cells: Cells = {}
    for bus in counters.busif:
        ways = (
            ("read", bus.read_bytes, bus.read_bursts),
            ("write", bus.write_bytes, bus.write_bursts),
        )
        for way, moved, bursts in ways:
            cells[f"busif_{bus.id}_{way}_bytes"] = moved
            for beats, number in zip(BEATS, bursts, strict=True):
                cells[f"busif_{bus.id}_{way}_bursts_x{beats}"] = number

    # An engine that a blob starts several times has the sum, and all of its pools.
    for key in sorted({(engine.id, engine.dir) for engine in counters.engines}):
        rows = [engine for engine in counters.engines if (engine.id, engine.dir) == key]
        name = f"streng_{key[0]}_{key[1]}"
        cells[f"{name}_active_cycles"] = sum(row.active_cycles for row in rows)
        cells[f"{name}_bytes"] = sum(row.bytes for row in rows)
        cells[f"{name}_pool"] = _names(dict.fromkeys(row.pool for row in rows))

    # Empty where nothing was counted on the bus either: those zeros say nothing.
    silent = not counters.busif and counters.cache == CacheCounts()
    hits = [None] * len(_CACHE) if silent else asdict(counters.cache).values()
    cells |= zip(_CACHE, hits, strict=True)

    for traffic in counters.traffic:
        pool = csv_cell(traffic.pool)
        cells[f"pool_{pool}_read_bytes"] = traffic.read_bytes
        cells[f"pool_{pool}_write_bytes"] = traffic.write_bytes
    return cells


def _percent(part: float, whole: float) -> float | None:
    return round(100 * part / whole, 3) if whole else None


def _ms(value: float) -> float:
    """Whole nanoseconds; finer digits are noise."""
    return round(value, 6)
