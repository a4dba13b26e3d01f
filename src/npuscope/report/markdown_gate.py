"""A gate for GitHub: a Markdown summary of the job, and annotations in its log."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.advice.compare.model import Row
from npuscope.advice.gate import Check, Gate
from npuscope.report.numbers import ms
from npuscope.report.text_gate import limit_text, shown, verdict, worst_rows
from npuscope.text import html_text, safe_terminal

# Characters that Markdown would take for its own, as HTML entities.
_SPECIAL = {char: f"&#{ord(char)};" for char in "|`*_[]~\\#@!$"}


def cell(text: str) -> str:
    """Foreign text in a table cell: nothing in it is a tag, a link or emphasis."""
    # Entities hold an ampersand and a hash of their own: one pass over the plain text.
    return "".join(_SPECIAL.get(char) or html_text(char) for char in safe_terminal(text))


def gate_markdown(found: Gate) -> str:
    """A section with one row a check, and the worst rows of a comparison."""
    mark = ":white_check_mark: passed" if found.passed else ":x: failed"
    lines = [
        f"### npuscope gate {mark}: {cell(found.side.name)}",
        "",
        "| | check | value | limit |",
        "|---|---|---:|---|",
        *(_row(check) for check in found.checks),
        "",
        *_worst(found),
        *(f"- {cell(note)}" for note in found.notes),
    ]
    return "\n".join(lines).rstrip("\n") + "\n\n"


def _row(check: Check) -> str:
    mark = ":white_check_mark:" if check.passed else ":x:"
    limit = limit_text(check).replace("<", "&lt;").replace(">", "&gt;")
    return f"| {mark} | {cell(check.name)} | {shown(check, check.value)} | {limit} |"


def _worst(found: Gate) -> Iterator[str]:
    rows = worst_rows(found)
    if not rows:
        return
    yield "| slower by ms | source ops | cause |"
    yield "|---:|---|---|"
    yield from map(_slower, rows)
    yield ""


def _slower(row: Row) -> str:
    why = f"{row.cause.kind.value}: {row.cause.text}" if row.cause else ""
    return f"| {ms(row.delta_ms)} | {cell(', '.join(row.ops))} | {cell(why)} |"


def error_commands(found: Gate) -> list[str]:
    """Commands that GitHub reads from a job's log, one a failed check."""
    title = _property(f"npuscope gate: {found.side.name}")
    return [
        f"::error title={title}::{_data(f'{check.name} {verdict(check)}')}"
        for check in found.failed
    ]


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return safe_terminal(escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
