"""Findings, explanations and rules as text and as JSON. Keys are added, never renamed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.advice.changes import Change, ChangeKey, changes_of
from npuscope.machine.load import DEFAULT_GENERATION, DEFAULT_MACHINE, known_machines
from npuscope.profiling.model import Profile
from npuscope.report.figures import machine_line, model_line, ms, note_lines, percent, shorten
from npuscope.report.json_report import estimate_json
from npuscope.report.next_step import Words, next_lines
from npuscope.rulebook.finding import (
    Finding,
    Severity,
    Value,
    causes_of,
    finding_json,
    fix_json,
    gain_json,
)
from npuscope.rulebook.fix import Gain
from npuscope.rulebook.registry import Rule
from npuscope.rulebook.training import training
from npuscope.shown import counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.advice.explanation import Explanation


# --- JSON ---

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
        **explanation.about,
        "changes": [change_json(change) for change in explanation.changes],
        "tried": [change_json(change) for change in explanation.tried],
        "findings": [finding_json(finding) for finding in explanation.findings],
        "notes": profile["notes"],
    }


def change_json(change: Change) -> dict[str, Any]:
    return {
        "rule": change.rule,
        "fix": fix_json(change.fix),
        "ops": list(change.ops),
        "findings": change.count,
        **gain_json(change.gain),
        "cost_ms": round(change.cost_ms, 6),
    }


def lint_json(
    findings: Iterable[Finding],
    source: str,
    generation: str = DEFAULT_GENERATION,
    machine: str = DEFAULT_MACHINE,
) -> dict[str, Any]:
    """The object of `npuscope lint --json`."""
    return {
        "schema": LINT_SCHEMA,
        "file": Path(source).name,
        "generation": generation if machine in known_machines() else "",
        "findings": [finding_json(finding) for finding in findings],
    }


def rules_json(rules: Iterable[Rule]) -> dict[str, Any]:
    """The object of `npuscope rules --json`."""
    return {
        "schema": RULES_SCHEMA,
        "rules": [
            {
                "id": info.id,
                "kind": info.kind.value,
                "title": info.title,
                "sentence": info.sentence,
                "severity": info.severity.value,
                "confidence": info.confidence.value,
                "cause": info.cause,
                "fixes": [
                    {
                        "id": fix.id,
                        "title": fix.title,
                        "automatic": fix.automatic,
                        "function": fix.function.value,
                    }
                    for fix in info.fixes
                ],
                "since": info.since,
                "until": info.until,
                "docs": info.docs,
                "family": info.family,
            }
            for info in rules
        ],
    }


# --- Findings as text: one block per cause, one line per finding ---

_WIDTH = 100
_INDENT = "    "
_SHOWN = 4  # findings of one rule; --verbose lists all
_NAMES = 48  # characters of an op's name


def finding_lines(
    findings: Iterable[Finding], *, every: bool = False, tried: Iterable[Change] = ()
) -> list[str]:
    """Blocks in the order in which their causes first appear; `every` lists all findings. Changes
    that were `tried` have timed gains."""
    groups = causes_of(findings)
    changes = known_changes((finding for group in groups for finding in group), tried)
    away = len(_epochs(finding for group in groups for finding in group))
    return [line for group in groups for line in _block(group, every, away, changes)]


def _epochs(findings: Iterable[Finding]) -> set[Value]:
    """Numbers of the epochs off the NPU that findings speak of."""
    lists = (finding.evidence.get("epochs") for finding in findings)
    return {number for numbers in lists if isinstance(numbers, list) for number in numbers}


def _block(
    group: list[Finding], every: bool, away: int, changes: Mapping[ChangeKey, Change]
) -> list[str]:
    first = group[0]
    number = f" ({len(group)})" if len(group) > 1 else ""
    examples = group if every else group[:_SHOWN]
    more = len(group) - len(examples)
    op = first.pattern[1]
    title = f"{first.title}: {safe_terminal(op)}" if op else first.title
    # Each fix once, in the words of the finding where it saves most; all that is known of it
    # includes its spelling for those who train the network
    lines: list[str] = []
    for name in dict.fromkeys(fix.id for finding in group for fix in finding.fixes):
        change = changes[*first.pattern, name]
        lines += _wrapped("fix", fix_words(change, len(group)))
        spelled = training(name, change.fix.parameters) if every else None
        lines += [line for label, text in (spelled or {}).items() for line in _wrapped(label, text)]
    return [
        f"{first.severity.value:<8} {safe_terminal(first.rule):<22} {title}{number}",
        *(_INDENT + finding_line(finding) for finding in examples),
        *([f"{_INDENT}and {more} more (--verbose lists all)"] if more else []),
        *_cost_lines(group, away),
        *_wrapped("why", f"{safe_terminal(first.cause)}{_bounds(first)}"),
        *lines,
        f"{_INDENT}see  {safe_terminal(first.docs)} ({first.confidence.value})",
    ]


def _cost_lines(group: list[Finding], away: int) -> list[str]:
    """What several findings of a rule cost together."""
    epochs = len(_epochs(group))
    if len(group) < 2 or not epochs:
        return []
    times, shares = (_sum(group, key) for key in ("ms", "share"))
    share = f", {percent(shares, 1.0)}" if shares else ""
    about = "about " if is_rough(group) else ""
    cost = f"{epochs} of the {away} epochs off the NPU, {about}{ms(times)} ms{share}"
    return _wrapped("cost", cost)


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
    more = f" and {len(finding.ops) - 1} more" if len(finding.ops) > 1 else ""
    ops = f"{shorten(finding.ops[0], _NAMES)}{more}: " if finding.ops else ""
    text = f"{place}{ops}{_text(finding.evidence['value'])}{against}"
    return f"{safe_terminal(text)}{_cost(finding)}"


def _text(value: Value) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _cost(finding: Finding) -> str:
    time, share = finding.evidence.get("ms"), finding.evidence.get("share")
    if not isinstance(time, int | float):
        return ""
    part = f", {percent(share, 1.0)}" if isinstance(share, int | float) else ""
    if is_rough([finding]):
        return f"; about {ms(time)} ms{part}: the cost of this kernel was not measured"
    return f"; {ms(time)} ms{part}"


def is_rough(group: Iterable[Finding]) -> bool:
    """A time on the CPU that is part of the total, from costs that were never measured."""
    return any(finding.evidence.get("ms_known") is False for finding in group)


def known_changes(
    findings: Iterable[Finding], tried: Iterable[Change] = ()
) -> dict[ChangeKey, Change]:
    """What each fix of each cause saves: the one figure that every output shows."""
    return {**changes_of(findings), **{change.key: change for change in tried}}


def fix_words(change: Change, cases: int) -> str:
    """A fix with its gain at all its places, which may be fewer than the cases of its rule."""
    gain = change.gain
    some = f" at {change.count} of {cases} places" if change.count < cases else ""
    title = f"{safe_terminal(change.fix.title)}{some}"
    in_all = " in all" if change.count > 1 else ""
    if not gain.is_timed:
        bounds = gain.ms or 0.0
        bound = f" (at most {ms(bounds)} ms{in_all}, not compiled)" if bounds >= _LEAST_GAIN else ""
        return f"{title}{bound}{_moves(gain)}"
    saved = gain.ms or 0.0
    effect = f"saves {ms(saved)} ms" if saved >= _LEAST_GAIN else "saves nothing"
    effect = f"costs {ms(-saved)} ms" if saved <= -_LEAST_GAIN else effect
    return f"{title} (timed: {effect}{in_all}){_moves(gain)}"


def _moves(gain: Gain) -> str:
    return f"; {safe_terminal(gain.elsewhere)}" if gain.elsewhere else ""


def _wrapped(label: str, text: str) -> list[str]:
    head = f"{_INDENT}{label}  "
    return textwrap.wrap(
        text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False
    )


# --- An explanation as text ---

_KIND_NAMES = 40
_LEAST_GAIN = 0.0005  # ms; less is shown as 0.000


def explain_text(
    explanation: Explanation, *, every: bool = False, words: Words | None = None
) -> str:
    """The verdict and the machine alone where there is nothing to say. `words` of a verb name the
    model and how it is compiled, for a next command."""
    profile = explanation.profile
    if not explanation.findings:
        return f"{explanation.verdict}\n{machine_line(profile)}\n"
    about = (model_line(profile), *note_lines(profile))
    lines = [
        explanation.verdict,
        machine_line(profile),
        *([] if explanation.lines else [time_line(profile)]),
        *change_lines(explanation.changes),
        *(explanation.lines or about),
        *next_lines(explanation, words),
        "",
        *finding_lines(explanation.findings, every=every, tried=explanation.tried),
    ]
    return "\n".join(lines) + "\n"


def time_line(profile: Profile) -> str:
    parts, total = profile.time.by_work, profile.total_ms
    text = ", ".join(f"{name} {percent(value, total)} ({ms(value)} ms)" for name, value in parts)
    return f"time     {text}"


def change_lines(changes: tuple[Change, ...]) -> list[str]:
    if not changes:
        return ["changes  none is predicted to save time"]
    basis = "as upper bounds: none of these was compiled"
    if any(change.gain.is_timed for change in changes):
        basis = "compiled and timed with the whole network unless marked 'at most'"
    lines = [f"changes  that save most, {basis}; savings overlap and do not add up"]
    wide = max(len(_gain(change)) for change in changes)
    for number, change in enumerate(changes, 1):
        more = f" (and {change.count - 1} more)" if change.count > 1 else ""
        where = f": {shorten(safe_terminal(change.ops[0]), _KIND_NAMES)}" if change.ops else ""
        lossy = ", changes outputs: fix --lossy" if change.is_lossy_edit else ""
        lines.append(
            f"  {number}. {_gain(change):<{wide}}  {safe_terminal(change.fix.title)}{more} "
            f"[{safe_terminal(change.rule)}{where}]{lossy}"
        )
        lines += [f"     {safe_terminal(change.moves)}"] if change.moves else []
    return lines


def _gain(change: Change) -> str:
    if change.gain_ms is None:
        return "gain unknown"
    return f"{'' if change.gain.is_timed else 'at most '}-{ms(change.gain_ms)} ms"


def lint_text(
    findings: tuple[Finding, ...],
    source: str,
    generation: str = DEFAULT_GENERATION,
    machine: str = DEFAULT_MACHINE,
    *,
    every: bool = False,
) -> str:
    """The findings on a model file; one line where there are none."""
    name = safe_terminal(Path(source).name)
    where = f"generation {generation}" if machine in known_machines() else safe_terminal(machine)
    if not findings:
        return f"{name}: no findings ({where})\n"
    problems = sum(finding.is_problem for finding in findings)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    counts = ", ".join(
        [
            counted(errors, "error"),
            counted(problems - errors, "warning"),
            counted(len(findings) - problems, "note"),
        ]
    )
    lines = [f"{name}: {counts} ({where})", ""]
    return "\n".join([*lines, *finding_lines(findings, every=every)]) + "\n"
