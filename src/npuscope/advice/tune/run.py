"""The best set-ups of one model, or of a folder of models, for a budget: top to bottom."""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.accuracy.figures import Figure
from npuscope.advice.fix.candidates import FixChoice
from npuscope.advice.fix.numeric import random_data
from npuscope.advice.fix.run import fix
from npuscope.advice.gate import parse_limits
from npuscope.advice.network_row import stored_figures
from npuscope.advice.sweep.drive import run_all
from npuscope.advice.sweep.options import SweepOptions
from npuscope.advice.sweep.pool import Row
from npuscope.advice.sweep.runs import machines_of, single_run
from npuscope.advice.sweep.spec import SpecModel
from npuscope.advice.tune.result import TriedPoint, Tuned, TunePoint
from npuscope.advice.tune.search import Aims, front, search
from npuscope.advice.tune.space import (
    Axis,
    Point,
    TuneSpace,
    edit_axis,
    machine_axis,
    size_axis,
)
from npuscope.advice.tune.variants import Variants
from npuscope.errors import ModelError, NpuscopeError, UsageError
from npuscope.families.registry import families, family_of
from npuscope.files.load import load_model
from npuscope.options.kinds import OptionKind
from npuscope.options.rows import READING, TARGET
from npuscope.options.words import option_words
from npuscope.progress import progress
from npuscope.structs import replace

# What users call them, and the column of a run that holds each.
COLUMNS = {
    "ms": "total_ms",
    "ram": "internal_ram_bytes",
    "external": "external_ram_bytes",
    "flash": "weights_bytes",
}
AIMS = tuple(COLUMNS.values())
DROP = "drop"


class TuneRequest(Struct, frozen=True):
    limits: Mapping[str, float]
    generations: tuple[str, ...] = ()
    evaluations: int | None = None  # of the space, at most; by default a tenth, and 40 at least
    seed: int = 0
    lossy: bool = False
    sizes: tuple[tuple[int, int], ...] = ()  # rows and columns of the input
    machines: tuple[str, ...] = ()
    sweep: SweepOptions = SweepOptions()

    def check(self, has_samples: bool, machine: object) -> None:
        """What cannot be searched for is refused before anything is read."""
        if self.evaluations is not None and self.evaluations < 1:
            raise UsageError(f"expected 1 or more, found {self.evaluations}", where="--evaluations")
        if not has_samples:
            for asked, where, why in (
                (DROP in self.limits, "--max drop", "a limit on the drop needs samples"),
                (self.sizes, "--sizes", "only samples tell what another size costs"),
            ):
                if asked:
                    raise UsageError(why, where=where, hint="--data DIR")
        if self.machines and (self.generations or machine is not None):
            raise UsageError("cannot be given with --machine or --generations", where="--machines")


Measure = Callable[[Path, Mapping[str, Any]], Figure]  # of a model file with options


def limits_of(words: Sequence[str]) -> dict[str, float]:
    """`ms=20,ram=2MiB,drop=1%`, in one word or in several."""
    limits: dict[str, float] = {}
    values = dict.fromkeys(AIMS, 0.0)
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
        base = measure(path, options) if measure else None
        answers = _Answers(space, variants, options, measure, base)
        rows: dict[Point, Row] = {}

        def evaluate(points: Sequence[Point]) -> dict[Point, Aims | None]:
            rows.update(_timed(space, points, options, variants, place, request))
            return {
                p: (*(float(rows[p][name]) for name in AIMS), answers.drop(p))
                if p in rows
                else None
                for p in points
            }

        most = request.evaluations or max(40, space.size // 10)
        aims = search(space, evaluate, most, request.seed)
        if space.start not in aims:
            raise ModelError("cannot be compiled as it is", where=str(path))
        start = point_of(path, space, space.start, rows[space.start], options, request)
        points, notes = [], []
        for point in front(aims):
            row = point_of(path, space, point, rows[point], options, request)
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
        metric_is_share=base.is_share if base else True,
        higher_is_better=base.higher_is_better if base else True,
        tried=tuple(tried(space.name(p), rows[p], answers.figure(p)) for p in aims),
        notes=(*answers.notes, *notes),
        store=str(store or ""),
        machine=machines_of(rows.values()),
    )


def tried(name: str, row: Row, figure: Figure | None, model: str = "") -> TriedPoint:
    worth = None if figure is None else figure.value
    memories = row["internal_ram_bytes"], row["external_ram_bytes"], row["weights_bytes"]
    return TriedPoint(name, row["total_ms"], *memories, worth, model)


class _Answers:
    """What the answers of points are worth: measured once for all that answer alike."""

    def __init__(
        self,
        space: TuneSpace,
        variants: Variants,
        options: Mapping[str, Any],
        measure: Measure | None,
        base: Figure | None,
    ) -> None:
        self.space, self.variants, self.options = space, variants, options
        self.measure, self.base = measure, base
        self.notes: list[str] = []
        self._figures: dict[tuple[str, ...], Figure | None] = {(): base}

    def drop(self, point: Point) -> float:
        """An aim: 0 without data, infinite where it could not be measured."""
        if self.base is None:
            return 0.0
        figure = self.figure(point)
        return math.inf if figure is None else self.base.drop(figure)

    def figure(self, point: Point) -> Figure | None:
        key = self.space.answers(point)
        if self.measure is not None and key not in self._figures:
            own, title = self.space.options(point), ", ".join(key)
            progress("answers with %s", title)
            self._figures[key] = None
            try:
                file = self.variants.file(self.space.edits(point), own) or self.variants.path
                self._figures[key] = self.measure(file, _merged(self.options, own))
            except NpuscopeError as error:
                self.notes.append(f"not measured: {title}: {error.message}")
        return self._figures.get(key)


def _space(options: Mapping[str, Any], request: TuneRequest, variants: Variants) -> TuneSpace:
    axes: list[Axis] = []
    if request.machines:
        axes.append(machine_axis(request.machines))
    else:
        axes += family_of(options.get("machine")).axes(options, request.generations)
    if request.sizes:
        axes.append(size_axis(load_model(variants.path, options.get("shapes")), request.sizes))
    offers = variants.offered(FixChoice(lossy=request.lossy))
    axes += [edit_axis(fix_id, *offer) for fix_id, offer in sorted(offers.items())]
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
            entry = SpecModel(file, file.name, merged.pop("shapes", None) or {})
            runs[point] = single_run(entry, merged, space.name(point))
        except NpuscopeError:
            continue
    unique = {run.key: run for run in runs.values()}
    progress("%d points to compile and time", len(unique))
    rows, _ = run_all(tuple(unique.values()), store, request.sweep, lambda tally: None)
    by_key = dict(zip(unique, rows, strict=True))
    ready = {p: by_key[run.key] for p, run in runs.items() if by_key[run.key]["status"] == "ok"}
    for point, row in ready.items():
        if space.weights_in_ram(point):  # a run without flash: RAM holds the weights too
            together = row["internal_ram_bytes"] + row["weights_bytes"]
            ready[point] = {**row, "internal_ram_bytes": together, "weights_bytes": 0}
    return ready


def _merged(options: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    overrides = {**(options.get("overrides") or {}), **(own.get("overrides") or {})}
    return {**options, **own, "overrides": overrides}


def point_of(
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
    own = (row for family in families() for row in family.options)
    rows = (*TARGET.options, *READING.options, *own)
    switches_last = sorted(rows, key=lambda row: row.kind is OptionKind.SWITCH)
    given = option_words(switches_last, options)
    words = [*verb[:1], str(path), *verb[1:], *given, *space.words(point)]
    names = (axis.settings[place].name for axis, place in zip(space.axes, point, strict=True))
    return TunePoint(
        name=space.name(point),
        choices=dict(zip((axis.name for axis in space.axes), names, strict=True)),
        **stored_figures(row),
        command=f"npuscope {shlex.join(words)}",
        within=all(row[COLUMNS[k]] <= most for k, most in request.limits.items() if k != DROP),
        edits=edits,
        options=space.options(point),
    )


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


def _judged(point: TunePoint, base: Figure, own: Figure, request: TuneRequest) -> TunePoint:
    drop, limit = base.drop(own), request.limits.get(DROP)
    within = point.within and (limit is None or drop <= limit + 1e-9)
    return replace(point, figure=own.value, drop=drop, within=within)


# --- A folder of models ---
