"""Accuracy on the user's data as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npuscope.records import encode
from npuscope.shown import counted
from npuscope.structs import replace
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.accuracy.figures import Figure
    from npuscope.accuracy.result import Pairing, TaskAccuracy, TaskFigures

SCHEMA = "npuscope/validate/1"
_SHOWN = 8  # samples that change


def accuracy_json(result: TaskAccuracy) -> dict[str, Any]:
    """The record's own fields are the keys; pictures are for pages alone."""
    changed = [
        {"name": one.name, "truth": one.truth, "answers": dict(one.answers)}
        for one in result.changed
    ]
    fields = encode(replace(result, changed=()), whole=True)
    verdict = {"verdict": result.verdict, "passed": result.passed}
    return {"schema": SCHEMA, **verdict, **fields, "changed": changed}


def accuracy_text(result: TaskAccuracy) -> str:
    lines = [answer_line(result)]
    lines += [f"look at this first: {safe_terminal(note)}" for note in result.notes]
    lines.append(f"data         {safe_terminal(result.data)}, {counted(result.samples, 'sample')}")
    if result.samples < result.samples_total:
        lines[-1] += f" of {result.samples_total}"
    lines.append(f"preprocess   {result.preprocess}")
    for row in result.rows:
        if row.figures:
            values = "; ".join(f"{f.name} {value_text(f)} {range_text(f)}" for f in row.figures)
            lines.append(f"{row.title:<24} {values}")
    titles = {row.name: row for row in result.rows}
    lines += [pairing_line(pair, titles) for pair in result.pairings]
    if result.changed:
        lines.append(
            f"{'answers that change':<32} {'truth':<16} "
            + " ".join(f"{row.title[:16]:<16}" for row in result.rows)
        )
        for sample in result.changed[:_SHOWN]:
            cells = [sample.truth, *(sample.answers[row.name] for row in result.rows)]
            columns = " ".join(f"{safe_terminal(cell)[:16]:<16}" for cell in cells)
            lines.append(f"  {safe_terminal(sample.name)[-30:]:<30} {columns}".rstrip())
    for row in result.rows[1:]:
        own = [cost for cost in result.layers if cost.other == row.name]
        if own:
            lines.append(f"layers that cost most, each alone in {row.title}")
        for cost in own:
            flips = f"{cost.answers_changed} of {cost.samples} answers change"
            lines.append(
                f"  {safe_terminal(cost.op)[:44]:<44} outputs move by {cost.output_move:>7.2%} of "
                f"their spread, {flips}"
            )
    return "\n".join(lines) + "\n"


def answer_line(result: TaskAccuracy) -> str:
    """The verdict, the first figure of each arithmetic, and how many answers change."""
    firsts = [f"{row.title} {value_text(row.figures[0])}" for row in result.rows if row.figures]
    name = result.rows[-1].figures[0].name if firsts else "no labels"
    pair = next((p for p in result.pairings if (p.one, p.other) == ("int8", "npu")), None)
    change = f"; {pair.changed.value:.2%} of the answers change on the machine" if pair else ""
    figures = f"{name}: {', '.join(firsts)}" if firsts else name
    return f"{result.verdict}: {figures}{change}"


def value_text(figure: Figure) -> str:
    return f"{figure.value:.1%}" if figure.is_share else f"{figure.value:.4g}"


def range_text(figure: Figure) -> str:
    if figure.is_share:
        return f"({figure.low:.1%} to {figure.high:.1%})"
    return f"({figure.low:.4g} to {figure.high:.4g})"


def pairing_line(pair: Pairing, rows: dict[str, TaskFigures]) -> str:
    changed = f"{pair.changed.value:.2%} {range_text(pair.changed)} of the answers change"
    detail = f", {pair.lost} lost and {pair.won} won" if pair.lost or pair.won else ""
    worse = ": worse, not by chance" if pair.worse else ""
    return f"{rows[pair.one].title} to {rows[pair.other].title}: {changed}{detail}{worse}"
