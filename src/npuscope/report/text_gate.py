"""A gate as text: passed or failed, a line a check, and what made a failed one worse."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.advice.compare.model import Row
from npuscope.advice.gate import Check, Gate
from npuscope.report.header import machine_line
from npuscope.report.numbers import ms, size
from npuscope.report.text_compare import row_lines
from npuscope.text import safe_terminal

_WORST = 5
_SIGNS = {"max": "<=", "baseline": "<=", "min": ">="}


def gate_text(found: Gate) -> str:
    lines = [
        answer(found),
        f"source   {safe_terminal(found.side.name)}",
        machine_line(found.side.profile),
        *_baseline_line(found),
        *(f"note     {safe_terminal(note)}" for note in found.notes),
        "",
        *(_check_line(check) for check in found.checks),
        *_worst_lines(found),
    ]
    return "\n".join(lines) + "\n"


def answer(found: Gate) -> str:
    """The line a reader may stop at."""
    number = len(found.checks)
    if not number:
        return "passed: there is nothing to check"
    if found.passed:
        return f"passed: {'the check holds' if number == 1 else f'all {number} checks hold'}"
    first = found.failed[0]
    others = f" and {len(found.failed) - 1} more" if len(found.failed) > 1 else ""
    return f"FAILED: {safe_terminal(first.name)} {verdict(first)}{others} ({number} checks)"


def verdict(check: Check) -> str:
    """`is 7.2 ms, limit 6 ms`."""
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


def _check_line(check: Check) -> str:
    mark = "ok    " if check.passed else "FAILED"
    name = safe_terminal(check.name)
    return f"  {mark} {name:<20} {shown(check, check.value):>12}  {limit_text(check)}"


def _baseline_line(found: Gate) -> Iterator[str]:
    if found.baseline is not None:
        yield f"baseline {safe_terminal(found.baseline.name)}"


def worst_rows(found: Gate) -> tuple[Row, ...]:
    """What got slower, where a check against a baseline failed."""
    if found.comparison is None or found.passed:
        return ()
    worse = [row for row in found.comparison.changed if row.delta_ms > 0]
    return tuple(worse[:_WORST])


def _worst_lines(found: Gate) -> Iterator[str]:
    rows = worst_rows(found)
    if not rows or found.comparison is None:
        return
    yield ""
    yield "Slower than the baseline (A), by source op; `npuscope compare` shows all:"
    for row in rows:
        yield from row_lines(row, found.comparison.changed_ms)
