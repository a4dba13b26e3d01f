"""Generate and analyze reports, of 2.x and of 3.0 and later, as files or inside logs."""

from __future__ import annotations

from pathlib import Path

from npuscope.errors import FileError
from npuscope.program.generate_report.draft import Draft, read_into
from npuscope.program.generate_report.lines import Line, read_lines, unread
from npuscope.program.generate_report.model import Counts, GenerateReport
from npuscope.program.generate_report.rules import GENERATE_RULES


def read_generate_report(path: str | Path) -> GenerateReport:
    """Read a report; a text that has neither pools nor epochs is none."""
    report = parse_generate_report(read_lines(path))
    if not (report.pools or report.epochs or report.counts):
        raise FileError(
            "no memory pools and no epochs: this is not a generate report",
            where=str(path),
            hint="give the network_generate_report.txt of st_ai_output/, or the tool's output",
        )
    return report


def parse_generate_report(lines: tuple[Line, ...]) -> GenerateReport:
    draft = Draft()
    read_into(draft, lines, GENERATE_RULES)
    return generate_part(draft, unread(lines, draft.used()))


def generate_part(draft: Draft, ignored: tuple[str, ...] = ()) -> GenerateReport:
    """What a draft has of this report; logs hold more than one kind."""
    totals = draft.get("totals")
    names = draft.get("model_names")
    model_totals = draft.get("model_totals")
    return GenerateReport(
        tools=draft.get("tools"),
        model_name=names[0] if names else "",
        layers=draft.get("layers"),
        model_totals=model_totals[-1] if model_totals else (),
        pools=draft.get("pools"),
        total=totals[-1] if totals else None,
        used_ranges=draft.get("ranges"),
        counts=_counts(draft),
        epochs=draft.get("epochs"),
        sections=draft.get("sections"),
        summary=draft.get("summary"),
        titles=draft.get("titles"),
        entries=draft.get("entries"),
        ignored=ignored,
    )


def _counts(draft: Draft) -> Counts | None:
    """The count lines together; one that was cut off counts as none."""
    found: dict[str, int] = {}
    for row in draft.get("counts"):
        found.update(row)
    if "total" not in found:
        return None
    return Counts(**{"software": 0, **found})
