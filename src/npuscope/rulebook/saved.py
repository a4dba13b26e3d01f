"""Findings as a file: the objects of `explain --json`, which are the findings' own fields."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from npuscope.bounded_file import RESULT, parse_json, read_bytes, read_head
from npuscope.errors import FileError
from npuscope.rulebook.finding import Confidence, Finding, Findings, Fix, Severity

SCHEMA = "npuscope/findings/1"
_HEAD_BYTES = 256
_TEXTS = ("rule", "title", "cause", "since", "until", "docs")


def finding_json(finding: Finding) -> dict[str, Any]:
    """One finding as the JSON object that other programs rely on."""
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


def findings_to_json(findings: Iterable[Finding]) -> bytes:
    record = {"schema": SCHEMA, "findings": [finding_json(finding) for finding in findings]}
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace")


def are_saved_findings(path: Path) -> bool:
    return f'"schema": "{SCHEMA}"'.encode() in read_head(path, _HEAD_BYTES)


def read_findings(path: Path) -> Findings:
    """What was saved; an error names the finding."""
    try:
        rows = parse_json(read_bytes(path, RESULT))["findings"]
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"holds no findings: {error}", where=str(path)) from None
    if not isinstance(rows, list):
        raise FileError("expected a list", where=f"{path}: $.findings")
    return Findings(_finding(row, f"{path}: $.findings[{i}]") for i, row in enumerate(rows))


def _finding(row: Any, where: str) -> Finding:
    try:
        if not all(isinstance(row[key], str) for key in _TEXTS):
            raise ValueError("expected texts")
        if row["epoch"] is not None and type(row["epoch"]) is not int:
            raise ValueError("expected a whole number as the epoch")
        return Finding(
            rule=row["rule"],
            severity=Severity(row["severity"]),
            title=row["title"],
            epoch=row["epoch"],
            ops=tuple(map(str, row["ops"])),
            evidence=dict(row["evidence"]),
            cause=row["cause"],
            fixes=tuple(_fix(fix) for fix in row["fixes"]),
            confidence=Confidence(row["confidence"]),
            since=row["since"],
            until=row["until"],
            docs=row["docs"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"is not a finding: {error}", where=where) from None


def _fix(row: Any) -> Fix:
    value = row["gain_ms"]
    return Fix(
        str(row["id"]),
        str(row["title"]),
        dict(row["parameters"]),
        bool(row["automatic"]),
        None if value is None else float(value),
    )
