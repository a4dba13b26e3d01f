"""What the page of `tune` shows: every point that was timed, its front, and how to make it."""

from __future__ import annotations

from npuscope.advice.tune.result import Tuned, TunePoint
from npuscope.report.figures import DASH
from npuscope.report.html.cloud import (
    EXTERNAL,
    INTERNAL,
    MS,
    CloudPoint,
    Measure,
    cloud,
)
from npuscope.report.html.page import page
from npuscope.report.row_columns import row_cells
from npuscope.report.tune import MEMORIES, answer, limits_line
from npuscope.version import __version__

_SURE = "times are predicted"
_FLASH = Measure("flash", "bytes")  # of weights on chip there is nothing in it


def tune_page(result: Tuned) -> str:
    kind = "share" if result.metric_is_share else "number"
    metric = [Measure(result.metric, kind, result.higher_is_better)] if result.metric else []
    models = list(dict.fromkeys(point.model for point in result.tried))
    points = [
        CloudPoint(
            point.name,
            (
                point.total_ms,
                point.internal_ram_bytes,
                point.external_ram_bytes,
                point.weights_bytes,
                *([point.figure] if metric else []),
            ),
            (),
            models.index(point.model),
            point.external_ram_bytes > 0,
        )
        for point in result.tried
    ]
    figure_place = 4 if metric else 1
    return page(
        {
            "view": "choices",
            "version": __version__,
            "title": result.model,
            "answer": answer(result),
            "machine": result.machine,
            "said": f"limits: {limits_line(result)}",
            "sure": _SURE,
            "cloud": cloud(
                f"{result.metric} against milliseconds" if metric else "RAM against milliseconds",
                "Every point that was compiled and timed. The line is the front of what is shown. "
                "A ring marks points that use external RAM.",
                (MS, INTERNAL, EXTERNAL, _FLASH, *metric),
                points,
                x=0,
                y=figure_place,
                models=models or [""],
                last="set-up",
            ),
            "tables": [
                {
                    "id": "front",
                    "title": "The front, with commands",
                    "caption": "No other point beats these in every aim.",
                    "names": ["set-up", "ms", *MEMORIES, "within", "command"],
                    "rows": [_row(point) for point in result.front],
                    "texts": [0, 6],
                }
            ],
            "facts": [
                ["Searched", f"{result.evaluations:,} of {result.points:,} points"],
                *([name, ", ".join(names)] for name, names in result.axes.items()),
            ],
            "notes": list(result.notes),
        }
    )


def _row(point: TunePoint) -> list[str]:
    worth = "" if point.drop is None else f" (drop {point.drop:.2%})"
    return [
        f"{point.name}{worth}",
        *row_cells(point, ("ms", *MEMORIES)),
        "yes" if point.within else DASH,
        point.command,
    ]
