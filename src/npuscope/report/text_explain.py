"""An explanation as text: the verdict, time by kind, the changes that pay most, all findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuscope.profile.model import Profile
from npuscope.report.header import machine_line, model_line, note_lines
from npuscope.report.numbers import ms, percent, shorten
from npuscope.report.text_findings import finding_lines
from npuscope.rules.finding import Finding, Severity
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.advice.explain import Change, Explanation

_NAMES = 40


def explain_text(explanation: Explanation, *, every: bool = False) -> str:
    """One line where there is nothing to say."""
    if not explanation.findings:
        return explanation.verdict + "\n"
    profile = explanation.profile
    lines = [
        explanation.verdict,
        time_line(profile),
        *_change_lines(explanation),
        model_line(profile),
        machine_line(profile),
        *note_lines(profile),
        *_next_line(explanation),
        "",
        *finding_lines(explanation.findings, every=every),
    ]
    return "\n".join(lines) + "\n"


def _next_line(explanation: Explanation) -> list[str]:
    """What the tool itself can change, where the source is a model file."""
    file = explanation.profile.model.file
    offered = (fix for finding in explanation.findings for fix in finding.fixes)
    known = {
        fix.id for fix in offered if fix.automatic and (fix.gain_ms is None or fix.gain_ms > 0)
    }
    if not known or not file.lower().endswith((".onnx", ".tflite")):
        return []
    count = "one of these fixes" if len(known) == 1 else f"{len(known)} of these fixes"
    return [f"next     npuscope fix {safe_terminal(file)}: tries {count} on a copy and measures it"]


def time_line(profile: Profile) -> str:
    parts, total = profile.time.by_work, profile.total_ms
    text = ", ".join(f"{name} {percent(value, total)} ({ms(value)} ms)" for name, value in parts)
    return f"time     {text}"


def _change_lines(explanation: Explanation) -> list[str]:
    if not explanation.changes:
        return ["changes  none is predicted to pay"]
    lines = ["changes  that pay most, as predicted; gains overlap and do not add up"]
    for number, change in enumerate(explanation.changes, 1):
        lines.append(f"  {number}. {_gain(change):<12} {_change(change)}")
    return lines


def _gain(change: Change) -> str:
    return "gain unknown" if change.gain_ms is None else f"-{ms(change.gain_ms)} ms"


def _change(change: Change) -> str:
    alike = f" (and {change.count - 1} alike)" if change.count > 1 else ""
    where = f": {shorten(safe_terminal(change.ops[0]), _NAMES)}" if change.ops else ""
    return f"{safe_terminal(change.fix.title)}{alike} [{safe_terminal(change.rule)}{where}]"


def lint_text(
    file: str, findings: tuple[Finding, ...], generation: str, *, every: bool = False
) -> str:
    """The findings on a model file; one line where there are none."""
    name = safe_terminal(file)
    if not findings:
        return f"{name}: no rule found anything (generation {generation})\n"
    problems = sum(finding.is_problem for finding in findings)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    counts = f"{errors} errors, {problems - errors} warnings, {len(findings) - problems} notes"
    lines = [f"{name}: {counts} (generation {generation})", ""]
    return "\n".join([*lines, *finding_lines(findings, every=every)]) + "\n"
