"""A comparison as the JSON object that other programs rely on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from npuscope.advice.compare.model import Cause, CauseKind, Comparison, Row, Side
from npuscope.report.figures import source_of

COMPARE_SCHEMA = "npuscope/compare/1"


def compare_json(found: Comparison) -> dict[str, Any]:
    """The object of `npuscope compare --json`."""
    return {
        "schema": COMPARE_SCHEMA,
        "a": _side(found.a),
        "b": _side(found.b),
        "delta_ms": _ms(found.delta_ms),
        "changed_ms": _ms(found.changed_ms),
        "unexplained_ms": _ms(found.unexplained_ms),
        "explained_share": round(found.explained_share, 6),
        "by_cause": [
            {"kind": kind.value, "ms": _ms(ms), "rows": rows} for kind, ms, rows in found.by_cause
        ],
        "moved": [{**asdict(move), "a": move.a.value, "b": move.b.value} for move in found.moves],
        "memory": [
            {"pool": pool.name, "a_bytes": pool.a_bytes, "b_bytes": pool.b_bytes}
            for pool in found.pools
        ],
        "rows": [row_json(row) for row in found.rows],
        "notes": list(found.notes),
    }


def _side(side: Side) -> dict[str, Any]:
    profile = side.profile
    return {
        "source": side.name,
        "model": {"file": profile.model.file, "md5": profile.model.md5},
        "machine": asdict(profile.machine),
        "provenance": source_of(profile).value,
        "total_ms": _ms(profile.total_ms),
        "time": {name: _ms(value) for name, value in asdict(profile.time).items()},
        "counts": dict(profile.counts),
    }


def row_json(row: Row) -> dict[str, Any]:
    """`cause` is null where nothing changed, and where the change is not explained."""
    first = row.cause
    known = first if first is not None and first.is_known else None
    return {
        "ops": list(row.ops),
        "operators": list(row.operators),
        "a_ms": _ms(row.a_ms),
        "b_ms": _ms(row.b_ms),
        "delta_ms": _ms(row.delta_ms),
        "cause": None if known is None else _cause(known),
        "causes": [_cause(cause) for cause in row.causes],
        "noise": first is not None and first.kind is CauseKind.NOISE,
        "noise_ms": _ms(row.noise_ms),
        "a_epochs": [epoch.name for epoch in row.a],
        "b_epochs": [epoch.name for epoch in row.b],
        "a_kinds": sorted({epoch.kind.value for epoch in row.a}),
        "b_kinds": sorted({epoch.kind.value for epoch in row.b}),
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {"kind": cause.kind.value, "text": cause.text, "ms": _ms(cause.ms)}


def _ms(value: float) -> float:
    """Finer than a nanosecond, so that rows still add up to the total."""
    return round(value, 9)
