"""Findings as SARIF 2.1.0, which code hosts and editors show beside the files."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from npuscope.report.checked import Checked
from npuscope.report.text_findings import finding_line
from npuscope.rules.finding import Finding, Severity
from npuscope.rules.registry import Rule
from npuscope.rules.saved import finding_json
from npuscope.text import link_free, safe_terminal
from npuscope.version import __version__

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT = "npuscopeFinding/v1"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
# Of a finding's JSON, what SARIF has no place of its own for.
_KEPT = ("epoch", "ops", "evidence", "fixes", "confidence", "since", "until", "docs")


def sarif_json(checked: Checked) -> dict[str, Any]:
    """One run with every rule that was asked and a result for every finding."""
    rules = checked.rules
    uri = source_uri(checked.source)
    run = {
        "tool": {"driver": _driver(rules)},
        "automationDetails": {"id": f"npuscope/{checked.verb}/"},
        "invocations": [{"executionSuccessful": True}],
        "artifacts": [{"location": {"uri": uri}, "roles": ["analysisTarget"]}],
        "results": list(_results(checked.findings, rules, uri)),
        "properties": {"generation": checked.generation},
    }
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def source_uri(source: str) -> str:
    """Relative to the folder we run in where that is possible, so that code hosts find the file."""
    path, here = Path(os.path.abspath(source)), Path.cwd()
    if path.is_relative_to(here) and path != here:
        return quote(os.fsencode(path.relative_to(here).as_posix()))
    return f"file://{quote(os.fsencode(path.as_posix()))}"


def _driver(rules: Iterable[Rule]) -> dict[str, Any]:
    return {
        "name": "npuscope",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(info) for info in rules],
    }


def _rule(info: Rule) -> dict[str, Any]:
    return {
        "id": safe_terminal(info.id),
        "shortDescription": {"text": link_free(info.title)},
        "fullDescription": {"text": link_free(info.cause)},
        "help": {"text": _help(info)},
        "defaultConfiguration": {"level": _LEVELS[info.severity]},
        "properties": {
            "tags": [info.kind.value],
            "confidence": info.confidence.value,
            "since": info.since,
            "until": info.until,
            "docs": safe_terminal(info.docs),
        },
    }


def _help(info: Rule) -> str:
    fixes = [f"Fix: {fix.in_general}." for fix in info.fixes]
    return link_free(" ".join([info.cause, *fixes, f"See {info.docs}."]))


def _results(
    findings: Iterable[Finding], rules: tuple[Rule, ...], uri: str
) -> Iterator[dict[str, Any]]:
    index = {info.id: number for number, info in enumerate(rules)}
    seen: Counter[tuple[str, ...]] = Counter()
    for finding in findings:
        key = (finding.rule, *finding.ops)
        yield {
            "ruleId": safe_terminal(finding.rule),
            "ruleIndex": index[finding.rule],
            "level": _LEVELS[finding.severity],
            "message": {"text": link_free(f"{finding.title}: {finding_line(finding)}")},
            "locations": [_location(finding, uri)],
            "partialFingerprints": {FINGERPRINT: _fingerprint(key, seen[key])},
            "properties": _properties(finding),
        }
        seen[key] += 1


def _location(finding: Finding, uri: str) -> dict[str, Any]:
    # A model has no lines, but code hosts drop results that name none.
    physical = {"artifactLocation": {"uri": uri, "index": 0}, "region": {"startLine": 1}}
    names = (safe_terminal(op) or "unnamed" for op in finding.ops)
    logical = [{"fullyQualifiedName": name, "kind": "op"} for name in names]
    if finding.epoch is not None:
        logical.append({"name": f"epoch {finding.epoch}", "kind": "epoch"})
    return {"physicalLocation": physical, **({"logicalLocations": logical} if logical else {})}


def _fingerprint(key: tuple[str, ...], earlier: int) -> str:
    """Epoch numbers move with every change of the network; rule and ops stay."""
    words = "\0".join([*key, str(earlier)])
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()


def _properties(finding: Finding) -> dict[str, Any]:
    whole = finding_json(finding)
    return {key: whole[key] for key in _KEPT}
