"""One finding as the JSON object that other programs rely on."""

from __future__ import annotations

from typing import Any

from npuscope.rules.finding import Finding, Fix


def finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "title": finding.title,
        "epoch": finding.epoch,
        "ops": list(finding.ops),
        "evidence": dict(finding.evidence),
        "cause": finding.cause,
        "fixes": [fix_json(fix) for fix in finding.fixes],
        "confidence": finding.confidence.value,
        "since": finding.since,
        "until": finding.until,
        "docs": finding.docs,
    }


def fix_json(fix: Fix) -> dict[str, Any]:
    return {
        "id": fix.id,
        "title": fix.title,
        "parameters": dict(fix.parameters),
        "automatic": fix.automatic,
        "gain_ms": gain(fix.gain_ms),
    }


def gain(value: float | None) -> float | None:
    """Milliseconds, as all of the JSON rounds them; null when unknown."""
    return None if value is None else round(value, 6)
