"""What the page of `quantize --labels` shows: every form that was tried, metric against time."""

from __future__ import annotations

from npuscope.quantizing.run import Quantized
from npuscope.report.accuracy import range_text, value_text
from npuscope.report.figures import machine_words
from npuscope.report.html.cloud import MS, WEIGHTS, CloudPoint, Measure, cloud, measure_of
from npuscope.report.html.page import page
from npuscope.report.quantize import answer
from npuscope.version import __version__

_SURE = "times are predicted; answers are computed on samples that choices are made by"


def quantize_page(result: Quantized, model: str) -> str:
    judged = result.judgement
    assert judged is not None  # the option needs labels
    figure = judged.rows[0].figures[0]
    points = [
        CloudPoint(
            form.title,
            (form.total_ms, form.figure, form.weights_bytes, form.sqnr_db),
            ("kept" if form.kept else "not kept",),
        )
        for form in judged.tried
    ]
    return page(
        {
            "view": "choices",
            "version": __version__,
            "title": model,
            "answer": answer(result),
            "machine": machine_words(result.after),
            "said": f"{judged.task}, judged on {judged.unused} samples that no choice has seen",
            "sure": _SURE,
            "cloud": cloud(
                f"{judged.metric} against milliseconds",
                "Every form that was made on the way, timed, and measured on the "
                f"{judged.choosing} samples that choices are made by.",
                (MS, measure_of(figure), WEIGHTS, Measure("SQNR, dB", "number", True)),
                points,
                x=0,
                y=1,
                axes=["choice"],
                last="form",
            ),
            "tables": [
                {
                    "id": "answers",
                    "title": "What the answers are worth",
                    "caption": "On samples that no choice has seen; ranges hold the figure in 95 "
                    "of 100 cases.",
                    "names": ["arithmetic", "figure", "value", "95 % range"],
                    "rows": [
                        [row.title, f.name, value_text(f), range_text(f)]
                        for row in judged.rows
                        for f in row.figures
                    ],
                    "texts": [0],
                },
                {
                    "id": "choices",
                    "title": "Choices",
                    "caption": "In the order in which they were tried.",
                    "names": ["choice", "kept at", "of", "because"],
                    "rows": [
                        [step.title, str(step.kept), str(step.places), step.reason]
                        for step in result.steps
                    ],
                    "texts": [0, 3],
                },
            ],
            "facts": [
                ["Data", result.samples.source],
                ["Ranges", f"from {len(result.samples.calibration)} samples"],
                ["Drop allowed", f"{judged.max_drop:.1%} against the float network"],
                ["Times", f"predicted, known error: {result.after.model_error}"],
            ],
            "notes": list(result.notes),
        }
    )
