"""Findings as a JUnit report: a test case for every rule that is kept and every finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from npuscope.report.checked import Checked
from npuscope.report.text_findings import finding_line
from npuscope.rules.finding import Finding
from npuscope.rules.registry import Rule
from npuscope.text import xml_text

_INDENT = "    "


@dataclass(frozen=True, slots=True)
class Case:
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
    cases = list(_cases(checked))
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


def _cases(checked: Checked) -> Iterator[Case]:
    found: dict[str, list[Finding]] = {}
    for finding in checked.findings:
        found.setdefault(finding.rule, []).append(finding)
    for info in checked.rules:
        yield from _of_rule(info, found.get(info.id, []))


def _of_rule(info: Rule, findings: Iterable[Finding]) -> Iterator[Case]:
    """Names must differ: where two findings speak of the same ops, the later gets a number."""
    seen: Counter[str] = Counter()
    for finding in findings:
        name = f"{info.title}: {', '.join(finding.ops) or 'network'}"
        seen[name] += 1
        number = f" ({seen[name]})" if seen[name] > 1 else ""
        yield Case(info.id, name + number, finding)
    if not seen:
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
