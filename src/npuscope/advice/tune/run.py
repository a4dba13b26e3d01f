"""The best set-ups of one model, or of a folder of models, for a budget: top to bottom."""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.advice.fix.candidates import FixChoice
from npuscope.advice.fix.numeric import random_data
from npuscope.advice.fix.run import fix
from npuscope.advice.gate import parse_limits
from npuscope.advice.sweep.drive import run_all
from npuscope.advice.sweep.options import SweepOptions
from npuscope.advice.sweep.pool import Row
from npuscope.advice.sweep.runs import single_run
from npuscope.advice.sweep.spec import SpecModel
from npuscope.advice.tune.result import Tuned, TunePoint
from npuscope.advice.tune.search import Aims, front, search
from npuscope.advice.tune.space import Axis, Point, TuneSpace, build_axes, edit_axis
from npuscope.advice.tune.variants import Variants
from npuscope.building import machine_for
from npuscope.errors import FileError, ModelError, NpuscopeError, UsageError
from npuscope.families.registry import family_of
from npuscope.files.load import load_model
from npuscope.options.kinds import DEFAULT_MACHINE
from npuscope.progress import progress
from npuscope.structs import replace

# What users call them, and the column of a run that holds each.
COLUMNS = {
    "ms": "total_ms",
    "ram": "internal_ram_bytes",
    "external": "external_ram_bytes",
    "flash": "weights_bytes",
}
_AIMS = tuple(COLUMNS.values())
DROP = "drop"
_MODELS = (".tflite", ".onnx")


class TuneRequest(Struct, frozen=True):
    limits: Mapping[str, float]
    generations: tuple[str, ...] = ()
    evaluations: int | None = None  # of the space, at most; by default a tenth, and 40 at least
    seed: int = 0
    lossy: bool = False
    sweep: SweepOptions = SweepOptions()


class TaskMetric(Struct, frozen=True):
    """What answers are worth."""

    name: str
    value: float
    higher_is_better: bool

    def drop(self, other: TaskMetric) -> float:
        """What the other loses: of shares the difference, of errors the part that it grows by."""
        if self.higher_is_better:
            return self.value - other.value
        return (other.value - self.value) / (self.value or 1.0)


Measure = Callable[[Path, Mapping[str, Any]], TaskMetric]  # of a model file with options


def limits_of(words: Sequence[str]) -> dict[str, float]:
    """`ms=20,ram=2MiB,drop=1%`, in one word or in several."""
    limits: dict[str, float] = {}
    values = dict.fromkeys(_AIMS, 0.0)
    for part in (part for word in words for part in word.split(",") if part.strip()):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in (*COLUMNS, DROP):
            raise UsageError(
                f"expected KEY=VALUE, found '{part.strip()}'",
                where="--max",
                hint=f"keys: {', '.join((*COLUMNS, DROP))}, e.g. ms=20,ram=2MiB,drop=1%",
            )
        if key == DROP:
            limits[key] = _share(value)
        else:
            limits[key] = parse_limits({COLUMNS[key]: value}, None, values)[0].value
    return limits


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise UsageError(f"expected a share such as 1%, found '{text}'", where="--max drop")
    return value


def tune(
    path: Path,
    options: Mapping[str, Any],
    request: TuneRequest,
    store: Path | None = None,
    measure: Measure | None = None,
) -> Tuned:
    """Axes, points, front; answers and edits of the points on the front are checked."""
    with tempfile.TemporaryDirectory() as folder:
        place = store or Path(folder) / "tune.jsonl"
        variants = Variants(path, options, place.with_suffix(".models"))
        space = _space(options, request, variants)
        rows: dict[Point, Row] = {}

        def evaluate(points: Sequence[Point]) -> dict[Point, Aims | None]:
            rows.update(_timed(space, points, options, variants, place, request))
            return {
                p: tuple(float(rows[p][name]) for name in _AIMS) if p in rows else None
                for p in points
            }

        most = request.evaluations or max(40, space.size // 10)
        aims = search(space, evaluate, most, request.seed)
        if space.start not in aims:
            raise ModelError("cannot be compiled as it is", where=str(path))
        start = _point(path, space, space.start, rows[space.start], options, request)
        base = measure(path, options) if measure else None
        points, notes = [], []
        for point in front(aims):
            row = _point(path, space, point, rows[point], options, request)
            own = _merged(options, space.options(point))
            try:
                row = _checked(path, row, own)
                if measure and base:
                    file = variants.file(row.edits, space.options(point)) or path
                    row = _judged(row, base, measure(file, own), request)
            except NpuscopeError as error:
                notes.append(f"left out: {row.name}: {error.message}")
                continue
            points.append(row)
    within = [point for point in points if point.within]
    return Tuned(
        model=path.name,
        limits=dict(request.limits),
        points=space.size,
        evaluations=len(aims),
        axes={axis.name: tuple(s.name for s in axis.settings) for axis in space.axes},
        front=tuple(points),
        best=min(within, key=lambda point: point.total_ms, default=None),
        start=_judged(start, base, base, request) if base else start,
        metric=base.name if base else "",
        notes=tuple(notes),
        store=str(store or ""),
    )


def _space(options: Mapping[str, Any], request: TuneRequest, variants: Variants) -> TuneSpace:
    axes: list[Axis] = []
    plain: Any = options
    if family_of(options.get("machine")).house_machines:
        axes += build_axes(machine_for(plain), options, request.generations)
    offers = variants.offered(FixChoice(lossy=request.lossy))
    axes += [edit_axis(fix_id, title) for fix_id, title in sorted(offers.items())]
    return TuneSpace(tuple(axes))


def _timed(
    space: TuneSpace,
    points: Sequence[Point],
    options: Mapping[str, Any],
    variants: Variants,
    store: Path,
    request: TuneRequest,
) -> dict[Point, Row]:
    """Rows of points that can be built, by the sweep engine."""
    runs = {}
    for point in points:
        merged = _merged(options, space.options(point))
        file = variants.file(space.edits(point), space.options(point))
        if file is None:
            continue
        try:
            runs[point] = single_run(SpecModel(file, file.name), merged, space.name(point))
        except NpuscopeError:
            continue
    unique = {run.key: run for run in runs.values()}
    progress("%d points to compile and time", len(unique))
    rows, _ = run_all(tuple(unique.values()), store, request.sweep, lambda tally: None)
    by_key = dict(zip(unique, rows, strict=True))
    ready = {p: by_key[run.key] for p, run in runs.items() if by_key[run.key]["status"] == "ok"}
    return {p: _placed(row) if space.weights_in_ram(p) else row for p, row in ready.items()}


def _placed(row: Row) -> Row:
    """A run without flash: RAM holds the weights too."""
    together = row["internal_ram_bytes"] + row["weights_bytes"]
    return {**row, "internal_ram_bytes": together, "weights_bytes": 0}


def _merged(options: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    overrides = {**(options.get("overrides") or {}), **(own.get("overrides") or {})}
    return {**options, **own, "overrides": overrides}


def _point(
    path: Path,
    space: TuneSpace,
    point: Point,
    row: Row,
    options: Mapping[str, Any],
    request: TuneRequest,
) -> TunePoint:
    edits = space.edits(point)
    verb = (
        ["fix", "-o", f"tuned{path.suffix}", "--only", ",".join(edits)] if edits else ["estimate"]
    )
    words = [*verb[:1], str(path), *verb[1:], *given_words(options), *space.words(point)]
    names = (axis.settings[place].name for axis, place in zip(space.axes, point, strict=True))
    return TunePoint(
        name=space.name(point),
        choices=dict(zip((axis.name for axis in space.axes), names, strict=True)),
        total_ms=row["total_ms"],
        interval_ms=(row["low_ms"], row["high_ms"]),
        internal_ram_bytes=row["internal_ram_bytes"],
        external_ram_bytes=row["external_ram_bytes"],
        weights_bytes=row["weights_bytes"],
        command=f"npuscope {shlex.join(words)}",
        within=_within(row, request.limits),
        edits=edits,
        options=space.options(point),
    )


_WORDS = (
    *("machine", "machine_file", "art_profile", "generation", "flash", "psram", "board", "mpool"),
    *("mdesc", "mcu_mhz", "npu_mhz", "input_data_type", "output_data_type", "optimization"),
)


def given_words(options: Mapping[str, Any]) -> list[str]:
    """Options of the whole search, as words of every command."""
    words = []
    for name in _WORDS:
        value = options.get(name)
        if value not in (None, "") and (name, value) != ("machine", DEFAULT_MACHINE):
            words += [f"--{name.replace('_', '-')}", str(value)]
    controller = options.get("epoch_controller")
    if controller is not None:
        words.append("--epoch-controller" if controller else "--no-epoch-controller")
    for name, sizes in (options.get("shapes") or {}).items():
        words += ["--shape", f"{name}={','.join(map(str, sizes))}"]
    for key, value in (options.get("overrides") or {}).items():
        words += ["--set", f"{key}={value}"]
    return words


def _within(row: Mapping[str, Any], limits: Mapping[str, float]) -> bool:
    return all(row[COLUMNS[key]] <= limit for key, limit in limits.items() if key != DROP)


def _checked(path: Path, point: TunePoint, options: Mapping[str, Any]) -> TunePoint:
    """What the printed command makes, with its outputs compared and opened in a runtime."""
    if not point.edits:
        return point
    progress("checking %s", point.name)
    plain: Any = options
    data = random_data(load_model(path, options.get("shapes")), 1)
    fixed = fix(path, FixChoice(only=frozenset(point.edits)), plain, data)
    if not math.isclose(fixed.after.total_ms, point.total_ms, rel_tol=1e-6):
        raise ModelError(f"made again, it takes {fixed.after.total_ms:.4f} ms")
    return replace(point, outputs=fixed.function.value)


def _judged(point: TunePoint, base: TaskMetric, own: TaskMetric, request: TuneRequest) -> TunePoint:
    drop, limit = base.drop(own), request.limits.get(DROP)
    within = point.within and (limit is None or drop <= limit + 1e-9)
    return replace(point, figure=own.value, drop=drop, within=within)


# --- A folder of models ---


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
    metrics: dict[str, TaskMetric] = {}
    for label, (file, row) in rows.items():
        if row["status"] != "ok":
            notes.append(f"{label}: {row['error']['message']}")
            continue
        point = _point(file, TuneSpace(()), (), row, options, request)
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
        (n,): (*(float(getattr(point, name)) for name in _AIMS), *worth(point))
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
        notes=tuple(notes),
        store=str(store or ""),
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
