"""Quantize a float network: calibrate, try what the machine likes, keep what helps, measure."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from npuscope.accuracy.figures import surely_worse
from npuscope.accuracy.pictures import ImageForm
from npuscope.building import Options
from npuscope.errors import ModelError, UsageError
from npuscope.files.load import is_tflite, model_bytes
from npuscope.graph.model import Tensor
from npuscope.machine.model import Machine
from npuscope.profiling.model import Profile
from npuscope.quantizing import task_choices
from npuscope.quantizing.bench import ChoiceStep, QuantizingBench
from npuscope.quantizing.choices import Part, fast_zero_points, fixed_tails, shared_scales
from npuscope.quantizing.histogram import METHODS
from npuscope.quantizing.outputs import OutputLoss
from npuscope.quantizing.samples import CalibrationSamples, load_samples
from npuscope.quantizing.split import split_outputs, unlike_outputs
from npuscope.quantizing.sqnr import LayerLoss, layer_losses
from npuscope.quantizing.task import TaskJudge, TaskJudgement, TaskWish, open_judge
from npuscope.quantizing.trial import Trial
from npuscope.quantizing.unused import judgement
from npuscope.quantizing.work import FloatFile, Progress
from npuscope.shown import Rows, ShownRecord
from npuscope.structs import replace
from npuscope.whole_file import work_folder

log = logging.getLogger(__name__)
AUTO = "auto"


class Wish(Struct, frozen=True):
    """What the user asks for; `loss_db` is what a faster network may cost in signal to noise."""

    data: str | Path
    calibration: str = AUTO
    samples: int = 128
    seed: int = 0
    loss_db: float = 1.0
    form: ImageForm = field(default_factory=ImageForm)
    task: TaskWish | None = None  # labels judge, not decibels
    split: bool = False  # outputs with unlike ranges into their parts

    def __post_init__(self) -> None:
        if self.calibration not in (AUTO, *METHODS):
            methods = ", ".join((AUTO, *METHODS))
            raise UsageError(
                f"unknown calibration '{self.calibration}'",
                where="--calibration",
                hint=f"one of {methods}",
            )
        if self.samples < 2:
            raise UsageError(f"expected 2 or more, found {self.samples}", where="--samples")
        if self.loss_db < 0:
            raise UsageError(f"expected 0 or more, found {self.loss_db:g}", where="--loss-db")


class Quantized(ShownRecord, frozen=True):
    """The result. `before` is the float network as if it were int8; `plain` is what the tool
    underneath makes by default from the same data; None where there is none."""

    data: bytes
    machine: Machine | Struct  # of another family
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    before: Profile | None
    plain: Trial | None
    after: Profile
    results: tuple[OutputLoss, ...]
    layers: tuple[LayerLoss, ...]
    steps: tuple[ChoiceStep, ...]
    notes: tuple[str, ...]
    samples: CalibrationSamples
    wish: Wish
    tool: str
    method: str
    interrupted: bool = False  # more could have been tried
    judgement: TaskJudgement | None = None

    @property
    def sqnr_db(self) -> Mapping[str, float]:
        return {loss.name: loss.sqnr_db for loss in self.results}

    @property
    def usable(self) -> bool:
        """Every output, and every group of its columns, still tells values apart."""
        return not any(loss.useless for loss in self.results)

    @property
    def verdict(self) -> str:
        if not self.usable:
            return "not usable"
        return "doubtful" if any(loss.doubtful for loss in self.results) else "usable"

    def told(self) -> str:
        worst = min(self.sqnr_db.values())
        mark = "" if self.verdict == "usable" else f"{self.verdict}: "
        return f"{mark}{self.after.total_ms:.3f} ms, SQNR of the outputs {worst:.1f} dB"

    def table(self) -> Rows:
        """One row per layer."""
        return [
            {
                "layer": loss.name,
                "kind": loss.kind,
                "sqnr_db": loss.sqnr_db,
                "drop_db": loss.drop_db,
            }
            for loss in self.layers
        ]


class Chosen(Struct, frozen=True):
    """The best plan, and what was tried on the way."""

    best: Trial
    steps: list[ChoiceStep]
    interrupted: bool = False


_OFFERS: tuple[tuple[str, Callable[[QuantizingBench, Trial], Sequence[Part]]], ...] = (
    (
        "the whole range of Softmax, Sigmoid and Tanh",
        lambda bench, best: fixed_tails(best.plan, bench.work.layers),
    ),
    (
        "one scale for the parts of a Concat",
        lambda bench, best: shared_scales(best.plan, bench.work.layers, "Concat"),
    ),
    (
        "one scale for the operands of an Add",
        lambda bench, best: shared_scales(best.plan, bench.work.layers, "Add"),
    ),
    (
        "zero points that allow the fast mode",
        lambda bench, best: fast_zero_points(
            best.plan, bench.work.layers, bench.zero_point_gains(best)
        ),
    ),
)


def quantize(
    path: Path, wish: Wish, options: Options, progress: Progress = lambda text: None
) -> Quantized:
    with work_folder(Path(tempfile.gettempdir())) as folder:
        progress("preparing the float network")
        opening = _opened(path, wish, options, folder)
        work, judge, samples = opening.work, opening.judge, opening.samples
        most = wish.task.max_drop if wish.task else 0.0
        bench = QuantizingBench(path, work, samples, options, wish.loss_db, progress, judge, most)
        plain = bench.plain()
        choice = chosen(bench, wish)
        best = choice.best
        data = bench.bordered(best.data)
        build, profile = bench.timed(data)
        assert build.graph is not None
        inputs, outputs = bench.border(data, build.graph)
        judged = judgement(bench, judge, plain, data, (inputs, outputs)) if judge else None
        progress("comparing layer by layer")
        return Quantized(
            data=data,
            machine=build.machine,
            inputs=inputs,
            outputs=outputs,
            before=bench.float_profile(),
            plain=plain,
            after=profile,
            results=bench.final_losses(data, inputs, outputs),
            layers=layer_losses(
                work.layers,
                best.plan,
                work.inside(best.data, best.plan, samples.held_out),
                work.weights(best.data, best.plan),
            ),
            steps=tuple(choice.steps),
            notes=(*work.notes, *opening.notes, *bench.notes),
            samples=samples,
            wish=wish,
            tool=work.tool,
            method=best.plan.method,
            interrupted=choice.interrupted,
            judgement=judged,
        )


class _Opening(Struct, frozen=True):
    work: FloatFile
    judge: TaskJudge | None
    samples: CalibrationSamples
    notes: tuple[str, ...] = ()


def _opened(path: Path, wish: Wish, options: Options, folder: Path) -> _Opening:
    """The float file with its data; with outputs in parts where that was asked for."""
    work = opened(path, options, folder)
    judge = _judge(work, wish)
    if judge is None:
        samples = load_samples(wish.data, work.borders(), wish.form, wish.samples, wish.seed)
    else:
        samples = judge.parts(work.borders(), wish.samples, wish.seed)
    names = unlike_outputs(work, samples.calibration) if wish.split else []
    if not names:
        notes = ("no output has columns of unlike ranges: none was split",) if wish.split else ()
        return _Opening(work, judge, samples, notes)
    first = next(iter(work.outputs(None, samples.calibration[:1])))
    file, joins, whole = split_outputs(path, names, options.get("shapes"), folder)
    if judge is not None:
        parts = {join.name: (len(join.parts), join.axis) for join in joins}
        judge.parts_of_outputs = tuple(parts.get(name, (1, 0)) for name in first)
    return _Opening(opened(file, options, folder), judge, samples, tuple(whole))


def _judge(work: FloatFile, wish: Wish) -> TaskJudge | None:
    """With the shapes of the outputs, which one run of the float network tells."""
    if wish.task is None:
        return None
    borders = work.borders()
    zeros = {border.name: np.zeros(border.shape, border.dtype) for border in borders}
    outputs = next(iter(work.outputs(None, [zeros])))
    judge = open_judge(wish.task, borders, [v.shape for v in outputs.values()], wish.form)
    judge.check(outputs)
    return judge


def opened(path: Path, options: Options, folder: Path) -> FloatFile:
    if is_tflite(model_bytes(path)):
        from npuscope.quantizing.litert import LitertWork

        return LitertWork(path, options.get("shapes"))
    from npuscope.quantizing.onnx_work import OnnxWork

    return OnnxWork(path, options.get("shapes"), folder)


def chosen(bench: QuantizingBench, wish: Wish) -> Chosen:
    """The choices in order, each on what the one before left. An interruption ends the search: the
    best so far is the result."""
    methods = METHODS if wish.calibration == AUTO else (wish.calibration,)
    choice = Chosen(*_calibrated(bench, methods))
    try:
        for title, offer in (*_OFFERS, *(task_choices.OFFERS if wish.task else ())):
            best, more = bench.tried(title, choice.best, offer(bench, choice.best))
            choice = Chosen(best, [*choice.steps, *more])
        if wish.task is not None:
            if wish.task.max_drop > 0:
                best, more = task_choices.four_bits(bench, choice.best, wish.task.max_flash)
                choice = Chosen(best, [*choice.steps, *more])
            title, offer = task_choices.WIDE
            best, more = bench.tried(title, choice.best, offer(bench, choice.best))
            choice = Chosen(best, [*choice.steps, *more])
    except KeyboardInterrupt:
        log.warning("interrupted after %d choices: the best so far is kept", len(choice.steps))
        return replace(choice, interrupted=True)
    return choice


def _calibrated(bench: QuantizingBench, methods: tuple[str, ...]) -> tuple[Trial, list[ChoiceStep]]:
    """The method whose ranges serve best, then the same with equalised layers."""
    trials = [bench.calibrated(method, False) for method in methods]
    best = max(trials, key=lambda trial: trial.mean_db)
    for trial in trials:  # answers decide where they differ by more than chance
        if trial.score and best.score and surely_worse(trial.score.right, best.score.right):
            best = trial
    bench.remember(best)
    for trial in trials:
        bench.log(f"calibration by {trial.plan.method}", trial, trial is best)
    steps: list[ChoiceStep] = []
    if len(trials) > 1:
        figures = [f"{t.score.figure.value:.4g}" if t.score else f"{t.mean_db:.1f}" for t in trials]
        pairs = zip(trials, figures, strict=True)
        means = ", ".join(f"{trial.plan.method} {figure}" for trial, figure in pairs)
        title = f"calibration by {best.plan.method}"
        what = best.score.figure.name if best.score else "mean of the outputs in dB"
        steps.append(ChoiceStep(title, 1, 1, f"{what}: {means}", trials[0], best))
    other = bench.planned(replace(best.plan, narrow=True))
    if other.data != best.data:  # an op alone among floats gains nothing from integers
        title = f"ops that {bench.work.tool} leaves in float stay in float"
        best, step = bench.judged(title, best, other)
        steps.append(step)
    bench.progress("equalising layers")
    if not bench.work.equalise(bench.samples.calibration):
        return best, steps
    title = "weights moved between layers to equalise channels"
    try:
        other = bench.calibrated(best.plan.method, True, best.plan.narrow)
    except ModelError as error:
        return best, [*steps, ChoiceStep(title, 0, 1, error.message, best, best)]
    best, step = bench.judged(title, best, other)
    return best, [*steps, step]
