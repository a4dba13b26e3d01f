"""What the page of `validate --data` shows."""

from __future__ import annotations

from typing import Any

from npuscope.accuracy.figures import Figure
from npuscope.accuracy.result import ChangedSample, TaskAccuracy
from npuscope.report.accuracy import answer_line, range_text, value_text
from npuscope.report.html.page import page
from npuscope.shown import counted
from npuscope.version import __version__


def accuracy_page(result: TaskAccuracy) -> str:
    titles = {row.name: row.title for row in result.rows}
    most: dict[str, float] = {}
    for row in result.rows:
        for figure in row.figures:
            most[figure.name] = max(most.get(figure.name, 0.0), figure.high)
    data: dict[str, Any] = {
        "view": "accuracy",
        "version": __version__,
        "title": result.model,
        "answer": answer_line(result),
        "machine": result.machine,
        "said": f"{result.task} on {counted(result.samples, 'sample')}",
        "advice": list(result.notes),
        "figures": [
            {
                "title": row.title,
                "name": figure.name,
                "value": value_text(figure),
                "range": range_text(figure),
                "places": _places(figure, most[figure.name]),
            }
            for row in result.rows
            for figure in row.figures
        ],
        "pairs": [
            [
                titles[pair.one],
                titles[pair.other],
                value_text(pair.changed),
                range_text(pair.changed),
                pair.lost,
                pair.won,
            ]
            for pair in result.pairings
        ],
        "changed": [_changed(one, titles) for one in result.changed],
        "layers": [
            [
                cost.op,
                titles[cost.one],
                titles[cost.other],
                f"{cost.output_move:.2%} of their spread",
                f"{cost.answers_changed} of {cost.samples}",
            ]
            for cost in result.layers
        ],
        "facts": [
            ["Machine", result.machine],
            ["Data", result.data],
            ["Preprocessing", result.preprocess],
            ["Ranges", "95 %: Wilson's for shares of samples, else 400 draws with repeats"],
        ],
        "notes": [],
    }
    return page(data, pictures=True)


def _changed(one: ChangedSample, titles: dict[str, str]) -> dict[str, Any]:
    truth = [["truth", one.truth]] if one.truth else []
    answers = [[titles[name], answer] for name, answer in one.answers.items()]
    return {"name": one.name, "picture": one.picture or None, "answers": [*truth, *answers]}


def _places(figure: Figure, most: float) -> list[float]:
    """Low, value and high as parts of the bar: shares of all, others of the largest."""
    whole = 1.0 if figure.is_share else most or 1.0
    return [
        min(1.0, max(0.0, number / whole)) for number in (figure.low, figure.value, figure.high)
    ]
