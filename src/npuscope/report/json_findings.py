"""Findings, explanations and rules as JSON objects. Keys are added, never renamed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from npuscope.report.json_report import estimate_json
from npuscope.rules.finding import Finding
from npuscope.rules.registry import Rule
from npuscope.rules.saved import finding_json, fix_json, gain

if TYPE_CHECKING:
    from npuscope.advice.explain import Change, Explanation

EXPLAIN_SCHEMA = "npuscope/explain/1"
LINT_SCHEMA = "npuscope/lint/1"
RULES_SCHEMA = "npuscope/rules/1"
_OF_PROFILE = ("model", "machine", "total_ms", "interval_ms", "model_error", "time", "counts")


def explain_json(explanation: Explanation) -> dict[str, Any]:
    """The object of `npuscope explain --json`."""
    profile = estimate_json(explanation.profile)
    return {
        "schema": EXPLAIN_SCHEMA,
        "verdict": explanation.verdict,
        **{key: profile[key] for key in _OF_PROFILE},
        "changes": [_change(change) for change in explanation.changes],
        "findings": [finding_json(finding) for finding in explanation.findings],
        "notes": profile["notes"],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "rule": change.rule,
        "fix": fix_json(change.fix),
        "ops": list(change.ops),
        "findings": change.count,
        "gain_ms": gain(change.gain_ms),
    }


def lint_json(file: str, findings: Iterable[Finding], generation: str) -> dict[str, Any]:
    """The object of `npuscope lint --json`."""
    return {
        "schema": LINT_SCHEMA,
        "file": file,
        "generation": generation,
        "findings": [finding_json(finding) for finding in findings],
    }


def rules_json(rules: Iterable[Rule]) -> dict[str, Any]:
    """The object of `npuscope rules --json`."""
    return {"schema": RULES_SCHEMA, "rules": [_rule(info) for info in rules]}


def _rule(info: Rule) -> dict[str, Any]:
    return {
        "id": info.id,
        "kind": info.kind.value,
        "title": info.title,
        "sentence": info.sentence,
        "severity": info.severity.value,
        "confidence": info.confidence.value,
        "cause": info.cause,
        "fixes": [
            {"id": fix.id, "title": fix.title, "automatic": fix.automatic} for fix in info.fixes
        ],
        "since": info.since,
        "until": info.until,
        "docs": info.docs,
    }
