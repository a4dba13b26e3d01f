"""What explain and lint found, in the formats of other programs: SARIF and JUnit."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from npuscope.report.findings import finding_line
from npuscope.rulebook.finding import Finding, Severity, finding_json
from npuscope.rulebook.registry import Rule, RuleKind, rules
from npuscope.text import link_free, safe_terminal, xml_text
from npuscope.version import __version__

# --- What was checked and found ---


class Checked(Struct, frozen=True):
    """`source` is the file or folder as the user named it; `verb` the command that looked."""

    verb: str
    source: str
    generation: str
    findings: tuple[Finding, ...]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that were asked; those that found something are always among them."""
        by_rule = {finding.rule: finding for finding in self.findings}
        if self.verb == "lint":
            # It compiles nothing: only its own rules were asked.
            table, kinds = rules(), {RuleKind.LINT}
        else:
            # Advice is built on compiler and simulator, which lint does without.
            from npuscope.advice.catalogue import catalogue

            table, kinds = catalogue(), {*RuleKind}
        checks = [
            info
            for info in table.values()
            if info.id in by_rule
            or (info.applies_to(self.generation) and not info.family and info.kind in kinds)
        ]
        return (*checks, *(_foreign(by_rule[name]) for name in by_rule if name not in table))


def _foreign(finding: Finding) -> Rule:
    """A rule that only the file of a program names."""
    return Rule(
        finding.rule,
        RuleKind.REFUSE,
        finding.title,
        finding.severity,
        finding.confidence,
        finding.cause,
        since=finding.since,
        until=finding.until,
    )


# --- SARIF 2.1.0, which code hosts and editors show beside the files ---

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
        "tool": {
            "driver": {
                "name": "npuscope",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(info) for info in rules],
            }
        },
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


def _rule(info: Rule) -> dict[str, Any]:
    fixes = [f"Fix: {fix.in_general}." for fix in info.fixes]
    return {
        "id": safe_terminal(info.id),
        "shortDescription": {"text": link_free(info.title)},
        "fullDescription": {"text": link_free(info.cause)},
        "help": {"text": link_free(" ".join([info.cause, *fixes, f"See {info.docs}."]))},
        "defaultConfiguration": {"level": _LEVELS[info.severity]},
        "properties": {
            "tags": [info.kind.value],
            "confidence": info.confidence.value,
            "since": info.since,
            "until": info.until,
            "docs": safe_terminal(info.docs),
        },
    }


def _results(
    findings: Iterable[Finding], rules: tuple[Rule, ...], uri: str
) -> Iterator[dict[str, Any]]:
    index = {info.id: number for number, info in enumerate(rules)}
    earlier: Counter[tuple[str, ...]] = Counter()
    for finding in findings:
        # Equal findings are numbered, so that each has a fingerprint of its own.
        key = (finding.rule, *finding.ops)
        # Epoch numbers move with every change of the network; rule and ops stay.
        words = "\0".join([*key, str(earlier[key])])
        whole = finding_json(finding)
        # A model has no lines, but code hosts drop results that name none.
        physical = {"artifactLocation": {"uri": uri, "index": 0}, "region": {"startLine": 1}}
        names = (safe_terminal(op) or "unnamed" for op in finding.ops)
        logical = [{"fullyQualifiedName": name, "kind": "op"} for name in names]
        if finding.epoch is not None:
            logical.append({"name": f"epoch {finding.epoch}", "kind": "epoch"})
        yield {
            "ruleId": safe_terminal(finding.rule),
            "ruleIndex": index[finding.rule],
            "level": _LEVELS[finding.severity],
            "message": {"text": link_free(f"{finding.title}: {finding_line(finding)}")},
            "locations": [
                {"physicalLocation": physical, **({"logicalLocations": logical} if logical else {})}
            ],
            # Code hosts recognise a finding by this and do not report it again after every change.
            "partialFingerprints": {
                FINGERPRINT: hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()
            },
            "properties": {key: whole[key] for key in _KEPT},
        }
        earlier[key] += 1


# --- JUnit: a test case for every rule without findings, and for every finding ---

_INDENT = "    "


class Case(Struct, frozen=True):
    """`finding` is None where the rule found nothing."""

    rule: str
    name: str
    finding: Finding | None = None

    @property
    def failed(self) -> bool:
        """Notes do not fail a build, as they do not change the exit code."""
        return self.finding is not None and self.finding.is_problem


def junit_xml(checked: Checked) -> str:
    """One suite. Errors and warnings are failures; a note is output of a case that passed."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in checked.findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    cases = [case for info in checked.rules for case in _of_rule(info, by_rule.get(info.id, []))]
    failures = sum(case.failed for case in cases)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="0"'
    name = xml_text(f"npuscope {checked.verb} {checked.source}")
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="npuscope" {counts}>',
        f'  <testsuite name="{name}" {counts}>',
        "    <properties>",
        f'      <property name="generation" value="{xml_text(checked.generation)}"/>',
        "    </properties>",
        *(line for case in cases for line in _case_lines(case, checked.verb)),
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _of_rule(info: Rule, findings: Iterable[Finding]) -> Iterator[Case]:
    """Names must differ: where two findings speak of the same ops, the later gets a number."""
    names: Counter[str] = Counter()
    for finding in findings:
        name = f"{info.title}: {', '.join(finding.ops) or 'network'}"
        names[name] += 1
        number = f" ({names[name]})" if names[name] > 1 else ""
        yield Case(info.id, name + number, finding)
    if not names:
        yield Case(info.id, info.title)


def _case_lines(case: Case, verb: str) -> Iterator[str]:
    names = f'classname="npuscope.{verb}.{xml_text(case.rule)}" name="{xml_text(case.name)}"'
    if case.finding is None:
        yield f"{_INDENT}<testcase {names}/>"
        return
    yield f"{_INDENT}<testcase {names}>"
    yield from _finding_lines(case.finding)
    yield f"{_INDENT}</testcase>"


def _finding_lines(finding: Finding) -> Iterator[str]:
    lines = [finding_line(finding), f"why: {finding.cause}"]
    lines += [f"fix: {fix.title}" for fix in finding.fixes]
    text = "\n".join(xml_text(line) for line in [*lines, f"see: {finding.docs}"])
    if not finding.is_problem:
        yield f"{_INDENT}  <system-out>{text}</system-out>"
        return
    message = xml_text(f"{finding.title}: {finding_line(finding)}")
    kind = finding.severity.value
    yield f'{_INDENT}  <failure type="{kind}" message="{message}">{text}</failure>'
