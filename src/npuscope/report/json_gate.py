"""A gate as the JSON object that other programs rely on, and that serves as a baseline."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from npuscope.advice.compare.sides import GATE_SCHEMA
from npuscope.advice.gate import Check, Gate
from npuscope.report.figures import source_of
from npuscope.report.json_compare import row_json
from npuscope.report.text_gate import worst_rows


def gate_json(found: Gate) -> dict[str, Any]:
    """The object of `npuscope gate --json`."""
    profile = found.side.profile
    return {
        "schema": GATE_SCHEMA,
        "passed": found.passed,
        "checks": [_check(check) for check in found.checks],
        "source": found.side.name,
        "baseline": None if found.baseline is None else found.baseline.name,
        "model": {"file": profile.model.file, "md5": profile.model.md5},
        "machine": asdict(profile.machine),
        "provenance": source_of(profile).value,
        "figures": {name: _number(value) for name, value in found.figures.items()},
        "worst": [row_json(row) for row in worst_rows(found)],
        "notes": list(found.notes),
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "kind": check.kind,
        "value": _number(check.value),
        "limit": _number(check.limit),
        "passed": check.passed,
        "unit": "bytes" if check.is_bytes else "ms" if check.name.endswith("_ms") else "",
        "baseline": _number(check.baseline) if check.kind == "baseline" else None,
        "noise": _number(check.noise),
    }


def _number(value: float) -> float | int:
    return value if isinstance(value, int) else round(value, 6)
