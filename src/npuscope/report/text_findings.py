"""Findings as text: one block a rule, one line a finding. Foreign names are made safe."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from npuscope.report.numbers import ms, percent, shorten
from npuscope.rules.finding import Finding, Fix, Value
from npuscope.text import safe_terminal

_WIDTH = 100
_INDENT = "    "
_SHOWN = 4
_NAMES = 48


def finding_lines(findings: Iterable[Finding], *, every: bool = False) -> list[str]:
    """Blocks in the order in which their rules first appear; `every` lists all findings."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.rule, []).append(finding)
    away = len(_epochs(finding for group in groups.values() for finding in group))
    return [line for group in groups.values() for line in _block(group, every, away)]


def _epochs(findings: Iterable[Finding]) -> set[Value]:
    """Numbers of the epochs off the NPU that findings speak of."""
    lists = (finding.evidence.get("epochs") for finding in findings)
    return {number for numbers in lists if isinstance(numbers, list) for number in numbers}


def _block(group: list[Finding], every: bool, away: int) -> list[str]:
    first = group[0]
    number = f" ({len(group)})" if len(group) > 1 else ""
    shown = group if every else group[:_SHOWN]
    more = len(group) - len(shown)
    return [
        f"{first.severity.value:<8} {safe_terminal(first.rule):<22} {first.title}{number}",
        *(_INDENT + finding_line(finding) for finding in shown),
        *([f"{_INDENT}and {more} more (--verbose lists all)"] if more else []),
        *_cost_lines(group, away),
        *_wrapped("why", f"{safe_terminal(first.cause)}{_bounds(first)}"),
        *_fix_lines(group),
        f"{_INDENT}see  {safe_terminal(first.docs)} ({first.confidence.value})",
    ]


def _cost_lines(group: list[Finding], away: int) -> list[str]:
    """What several findings of a rule cost together."""
    epochs = len(_epochs(group))
    if len(group) < 2 or not epochs:
        return []
    known = [finding for finding in group if finding.evidence.get("ms_known") is not False]
    times, shares = (_sum(known, key) for key in ("ms", "share"))
    cost = f", {ms(times)} ms, {percent(shares, 1.0)}" if known else ""
    return _wrapped("cost", f"{epochs} of the {away} epochs off the NPU{cost}")


def _sum(findings: list[Finding], key: str) -> float:
    values = (finding.evidence.get(key) for finding in findings)
    return sum(value for value in values if isinstance(value, int | float))


def _bounds(finding: Finding) -> str:
    """Generations that the rule is about, where not all."""
    if not finding.since and not finding.until:
        return ""
    if finding.since == finding.until:
        return f" [generation {finding.since}]"
    if not finding.since:
        return f" [up to generation {finding.until}]"
    return f" [generations {finding.since} to {finding.until or 'now'}]"


def finding_line(finding: Finding) -> str:
    """Where, what was found against what is expected, and what it costs."""
    place = f"epoch {finding.epoch}: " if finding.epoch is not None else ""
    limit = finding.evidence.get("limit")
    word = "limit" if str(limit).isdecimal() else "expected"
    against = "" if limit is None else f", {word} {_text(limit)}"
    text = f"{place}{_names(finding.ops)}{_text(finding.evidence['value'])}{against}"
    return f"{safe_terminal(text)}{_cost(finding)}"


def _names(ops: tuple[str, ...]) -> str:
    if not ops:
        return ""
    more = f" and {len(ops) - 1} more" if len(ops) > 1 else ""
    return f"{shorten(ops[0], _NAMES)}{more}: "


def _text(value: Value) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _cost(finding: Finding) -> str:
    time, share = finding.evidence.get("ms"), finding.evidence.get("share")
    if not isinstance(time, int | float):
        return ""
    if finding.evidence.get("ms_known") is False:
        return "; its time on the CPU is not known"
    part = f", {percent(share, 1.0)}" if isinstance(share, int | float) else ""
    return f"; {ms(time)} ms{part}"


def _fix_lines(group: list[Finding]) -> list[str]:
    """Each fix once, in the words of the finding where it saves most."""
    found: dict[str, list[Fix]] = {}
    for fix in (fix for finding in group for fix in finding.fixes):
        found.setdefault(fix.id, []).append(fix)
    return [line for fixes in found.values() for line in _wrapped("fix", _fix_text(fixes))]


def _fix_text(fixes: list[Fix]) -> str:
    best = max(fixes, key=lambda fix: fix.gain_ms or 0.0)
    gains = [fix.gain_ms for fix in fixes if fix.gain_ms is not None]
    in_all = " in all" if len(fixes) > 1 else ""
    gain = f" (saves {ms(sum(gains))} ms{in_all})" if gains else ""
    return f"{safe_terminal(best.title)}{gain}"


def _wrapped(label: str, text: str) -> list[str]:
    head = f"{_INDENT}{label}  "
    return textwrap.wrap(
        text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False
    )
