"""The models of a folder, ranked for a budget."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuscope.accuracy.figures import Figure
from npuscope.advice.sweep.drive import run_all
from npuscope.advice.sweep.pool import Row
from npuscope.advice.sweep.runs import machines_of, single_run
from npuscope.advice.sweep.spec import SpecModel
from npuscope.advice.tune.result import Tuned, TunePoint
from npuscope.advice.tune.run import AIMS, Measure, TuneRequest, point_of, tried
from npuscope.advice.tune.search import Aims, front
from npuscope.advice.tune.space import Point, TuneSpace
from npuscope.errors import FileError, NpuscopeError
from npuscope.progress import progress
from npuscope.structs import replace

_MODELS = (".tflite", ".onnx")


def choose(
    folder: Path,
    options: Mapping[str, Any],
    request: TuneRequest,
    store: Path | None = None,
    measure: Measure | None = None,
) -> Tuned:
    """Every model of a folder as it is, ranked for the budget."""
    rows = _folder_rows(folder, options, request, store)
    points, notes = [], []
    metrics: dict[str, Figure] = {}
    for label, (file, row) in rows.items():
        if row["status"] != "ok":
            notes.append(f"{label}: {row['error']['message']}")
            continue
        point = point_of(file, TuneSpace(()), (), row, options, request)
        point = replace(point, name=label, model=label)
        if measure is not None and point.within:
            try:
                metrics[label] = measure(file, options)
                point = replace(point, figure=metrics[label].value)
            except NpuscopeError as error:
                notes.append(f"{label}: accuracy was not measured: {error.message}")
        points.append(point)

    def worth(point: TunePoint) -> tuple[float, ...]:
        """Smaller is better; what was not measured comes last."""
        metric = metrics.get(point.name)
        if measure is None:
            return ()
        if metric is None:
            return (math.inf,)
        return (-metric.value if metric.higher_is_better else metric.value,)

    aims: dict[Point, Aims] = {
        (n,): (*(float(getattr(point, name)) for name in AIMS), *worth(point))
        for n, point in enumerate(points)
    }
    best_first = [points[place[0]] for place in front(aims)]
    within = [point for point in best_first if point.within]
    return Tuned(
        model=folder.name,
        limits=dict(request.limits),
        points=len(rows),
        evaluations=len(points),
        axes={"model": tuple(rows)},
        front=tuple(best_first),
        best=min(within, key=lambda point: (*worth(point), point.total_ms), default=None),
        start=None,
        metric=next((metric.name for metric in metrics.values()), ""),
        metric_is_share=all(metric.is_share for metric in metrics.values()),
        higher_is_better=all(metric.higher_is_better for metric in metrics.values()),
        tried=tuple(
            tried(label, row, metrics.get(label), label)
            for label, (_, row) in rows.items()
            if row["status"] == "ok"
        ),
        notes=tuple(notes),
        store=str(store or ""),
        machine=machines_of(row for _, row in rows.values()),
    )


def _folder_rows(
    folder: Path, options: Mapping[str, Any], request: TuneRequest, store: Path | None
) -> dict[str, tuple[Path, Row]]:
    """Files with their runs, by their path below the folder."""
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in _MODELS and p.is_file())
    if not files:
        raise FileError("holds no .tflite or .onnx models", where=str(folder))
    labels = {file: file.relative_to(folder).as_posix() for file in files}
    runs = {file: single_run(SpecModel(file, labels[file]), options, "") for file in files}
    unique = {run.key: run for run in runs.values()}
    progress("%d models to compile and time", len(unique))
    with tempfile.TemporaryDirectory() as temporary:
        place = store or Path(temporary) / "tune.jsonl"
        rows, _ = run_all(tuple(unique.values()), place, request.sweep, lambda tally: None)
    by_key = dict(zip(unique, rows, strict=True))
    return {labels[file]: (file, by_key[run.key]) for file, run in runs.items()}
