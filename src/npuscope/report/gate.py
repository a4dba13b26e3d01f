"""A gate as text, as JSON that serves as a baseline, and for GitHub: summary and annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npuscope.advice.compare.model import ComparedRow
from npuscope.advice.compare.sides import GATE_SCHEMA
from npuscope.advice.gate import STOPS, Check, Gate
from npuscope.report.compare import row_json, row_lines
from npuscope.report.figures import interval_line, machine_line, ms, size
from npuscope.report.json_report import identity_json
from npuscope.shown import counted
from npuscope.text import html_text, safe_terminal

# --- Text: passed or failed, one line per check, what got slower ---

_WORST = 5  # rows that got slower
_SIGNS = {"max": "<=", "baseline": "<=", "min": ">="}


def gate_text(gate: Gate) -> str:
    lines = [
        answer(gate),
        machine_line(gate.side.profile),
        f"source   {safe_terminal(gate.side.name)}",
        *interval_line(gate.side.profile),
    ]
    if gate.baseline is not None:
        lines.append(f"baseline {safe_terminal(gate.baseline.name)}")
    lines += [*(f"note     {safe_terminal(note)}" for note in gate.notes), ""]
    for check in gate.checks:
        mark, name = "ok    " if check.passed else "FAILED", safe_terminal(check.name)
        value = shown(check, check.value)
        lines.append(f"  {mark} {name:<20} {value:>12}  {limit_text(check)}")
    return "\n".join([*lines, *_worst_lines(gate)]) + "\n"


def answer(gate: Gate) -> str:
    """The first line: the whole answer in one sentence."""
    number = len(gate.checks)
    if not number:
        return "passed: nothing to check"
    if gate.passed:
        return f"passed: {'the check holds' if number == 1 else f'all {number} checks hold'}"
    first = gate.failed[0]
    if first.name == STOPS:
        return f"FAILED: {safe_terminal(gate.side.profile.stopped)}"
    others = f" and {len(gate.failed) - 1} more" if len(gate.failed) > 1 else ""
    checks = counted(number, "check")
    return f"FAILED: {safe_terminal(first.name)} {verdict(first)}{others} ({checks})"


def verdict(check: Check) -> str:
    """`is 7.2 ms, limit 6 ms`."""
    if check.open:
        bound = "at most" if check.kind == "min" else "at least"
        return f"is {bound} {shown(check, check.value)}, limit {shown(check, check.limit)}"
    return f"is {shown(check, check.value)}, limit {shown(check, check.limit)}"


def shown(check: Check, value: float) -> str:
    """A value in the unit of its figure."""
    if check.is_bytes:
        return size(value)
    if check.name.endswith("_ms"):
        return f"{ms(value)} ms"
    return f"{value:g}" if value == round(value) else f"{value:.2f}"


def limit_text(check: Check) -> str:
    """The limit with where it comes from."""
    text = f"{_SIGNS[check.kind]} {shown(check, check.limit)}"
    if check.kind != "baseline":
        return text
    noise = f", noise {shown(check, check.noise)}" if check.noise else ""
    return f"{text} (was {shown(check, check.baseline)}{noise})"


def worst_rows(gate: Gate) -> tuple[ComparedRow, ...]:
    """What got slower, where a check against a baseline failed."""
    if gate.comparison is None or gate.passed:
        return ()
    worse = [row for row in gate.comparison.changed if row.delta_ms > 0]
    return tuple(worse[:_WORST])


def _worst_lines(gate: Gate) -> Iterator[str]:
    rows = worst_rows(gate)
    if not rows or gate.comparison is None:
        return
    yield ""
    yield "Slower than the baseline (A), by source op; `npuscope compare` shows all:"
    for row in rows:
        yield from row_lines(row, gate.comparison.changed_ms)


# --- JSON, which also serves as a baseline ---


def gate_json(gate: Gate) -> dict[str, Any]:
    """The object of `npuscope gate --json`."""
    profile = gate.side.profile
    return {
        "schema": GATE_SCHEMA,
        "passed": gate.passed,
        "checks": [
            {
                "name": check.name,
                "kind": check.kind,
                "value": _number(check.value),
                "limit": _number(check.limit),
                "passed": check.passed,
                "unit": "bytes" if check.is_bytes else "ms" if check.name.endswith("_ms") else "",
                "baseline": _number(check.baseline) if check.kind == "baseline" else None,
                "noise": _number(check.noise),
            }
            for check in gate.checks
        ],
        "source": gate.side.name,
        "baseline": None if gate.baseline is None else gate.baseline.name,
        **identity_json(profile),
        "figures": {name: _number(value) for name, value in gate.figures.items()},
        "worst": [row_json(row) for row in worst_rows(gate)],
        "notes": list(gate.notes),
    }


def _number(value: float) -> float | int:
    return value if isinstance(value, int) else round(value, 6)


# --- GitHub: a Markdown summary of the job, and annotations in its log ---

# Characters that Markdown would take for its own, as HTML entities.
_SPECIAL = {char: f"&#{ord(char)};" for char in "|`*_[]~\\#@!$"}


def cell(text: str) -> str:
    """Foreign text in a table cell: nothing in it is a tag, a link or emphasis."""
    # Entities hold an ampersand and a hash of their own: one pass over the plain text.
    return "".join(_SPECIAL.get(char) or html_text(char) for char in safe_terminal(text))


def gate_markdown(gate: Gate) -> str:
    """A section with one row per check, and the worst rows of a comparison."""
    mark = ":white_check_mark: passed" if gate.passed else ":x: failed"
    lines = [
        f"### npuscope gate {mark}: {cell(gate.side.name)}",
        "",
        "| | check | value | limit |",
        "|---|---|---:|---|",
        *(_row(check) for check in gate.checks),
        "",
        *_worst(gate),
        *(f"- {cell(note)}" for note in gate.notes),
    ]
    return "\n".join(lines).rstrip("\n") + "\n\n"


def _row(check: Check) -> str:
    mark = ":white_check_mark:" if check.passed else ":x:"
    limit = limit_text(check).replace("<", "&lt;").replace(">", "&gt;")
    return f"| {mark} | {cell(check.name)} | {shown(check, check.value)} | {limit} |"


def _worst(gate: Gate) -> Iterator[str]:
    rows = worst_rows(gate)
    if not rows:
        return
    yield "| slower by ms | source ops | cause |"
    yield "|---:|---|---|"
    for row in rows:
        why = f"{row.cause.kind.value}: {row.cause.text}" if row.cause else ""
        yield f"| {ms(row.delta_ms)} | {cell(', '.join(row.ops))} | {cell(why)} |"
    yield ""


def error_commands(gate: Gate) -> list[str]:
    """Commands that GitHub reads from a job's log, one per failed check."""
    title = _data(f"npuscope gate: {gate.side.name}").replace(":", "%3A").replace(",", "%2C")
    return [
        f"::error title={title}::{_data(f'{check.name} {verdict(check)}')}" for check in gate.failed
    ]


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return safe_terminal(escaped)
