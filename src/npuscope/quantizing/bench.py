"""Plans carried out and judged: a file, its time on the machine, and how near its outputs are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path

import numpy as np
from msgspec import Struct

from npuscope.building import Build, Options, build
from npuscope.edits import EditRequest, NotFitting, apply_edit, open_document
from npuscope.edits.border import convertible
from npuscope.edits.four_bits import may_be_four_bits, to_four_bits
from npuscope.errors import ModelError, NpuscopeError
from npuscope.families.registry import family_of
from npuscope.files.load import read_model
from npuscope.graph.model import DType, Graph, Tensor
from npuscope.profiling.model import Profile
from npuscope.quantizing.choices import Part
from npuscope.quantizing.outputs import OutputLoss, output_loss
from npuscope.quantizing.plan import RangePlan
from npuscope.quantizing.samples import CalibrationSamples
from npuscope.quantizing.sqnr import Noise
from npuscope.quantizing.task import TaskJudge, TriedForm
from npuscope.quantizing.trial import NOISE, Trial, task_verdict, verdict
from npuscope.quantizing.work import FloatFile, Progress
from npuscope.structs import replace

_MOST_PARTS = 8  # of one choice that are tried one by one


class ChoiceStep(Struct, frozen=True):
    """One choice: at how many of its places it was taken, why, and what it gave."""

    title: str
    kept: int
    places: int
    reason: str
    before: Trial
    after: Trial


class QuantizingBench:
    """What stays the same while plans are tried."""

    def __init__(
        self,
        path: Path,
        work: FloatFile,
        samples: CalibrationSamples,
        options: Options,
        loss_db: float,
        progress: Progress,
        judge: TaskJudge | None = None,
        max_drop: float = 0.0,
    ) -> None:
        self.path = path
        self.family = family_of(options.get("machine"))
        self.work = work
        self.samples = samples
        self.options = options
        self.loss_db = loss_db
        self.progress = progress
        self.notes: list[str] = []
        self.float_outputs = list(work.outputs(None, samples.held_out))
        self.floor_db: Mapping[str, float] = {}
        self.best_db: dict[str, float] = {}
        self.judge, self.max_drop = judge, max_drop
        self.float_score = judge.score(self.float_outputs) if judge else None
        self.plain_trial: Trial | None = None
        self.tried_forms: list[TriedForm] = []

    # one trial

    def trial(self, data: bytes, plan: RangePlan) -> Trial:
        noise = Noise()
        outputs = list(self.work.outputs(data, self.samples.held_out))
        for reals, values in zip(self.float_outputs, outputs, strict=True):
            for name, real in reals.items():
                if real.dtype.kind == "f":
                    noise.add(name, real, values[name])
        if not noise.signal:
            raise ModelError("nothing to compare: the network has no float output")
        profile = self.timed(self.bordered(data))[1]
        score = self.judge.score(outputs) if self.judge else None
        return Trial(plan, data, profile, noise.all_db(), score)

    def planned(self, plan: RangePlan) -> Trial:
        data = self.work.make(plan)
        return self.trial(with_four_bits(self.path, data, plan.four_bits), plan)

    def attempted(
        self, title: str, before: Trial, plan: RangePlan, *, saves_flash: bool = False
    ) -> tuple[Trial, ChoiceStep]:
        """Judged, if it can be made and run; fewer weights count where they are too many."""
        try:
            return self.judged(title, before, self.planned(plan), saves_flash)
        except ModelError as error:
            return before, ChoiceStep(title, 0, 1, error.message, before, before)

    def log(self, title: str, trial: Trial, kept: bool) -> None:
        if trial.score is not None:
            memory = trial.profile.memory.weights_bytes
            row = (trial.profile.total_ms, trial.score.figure.value, trial.mean_db, memory)
            self.tried_forms.append(TriedForm(title, *row, kept))

    def calibrated(self, method: str, equalised: bool, narrow: bool = False) -> Trial:
        ranges = self.work.ranges(method, self.samples.calibration, equalised, self.progress)
        return self.planned(RangePlan(method, ranges, equalised, narrow))

    def plain(self) -> Trial | None:
        """By the defaults of the tool underneath, on the same data: the floor for all choices."""
        self.progress("the quantizer's defaults")
        data = self.work.plain(self.samples.calibration)
        if data is None:
            return None
        try:
            trial = self.trial(data, RangePlan("plain", {}))
        except NpuscopeError:
            return None
        self.floor_db, self.plain_trial = trial.sqnr_db, trial
        self.log(f"{self.work.tool} with default settings", trial, False)
        return trial

    # time

    def timed(self, data: bytes) -> tuple[Build, Profile]:
        graph = read_model(self.path, data)
        if self.family.house_machines:
            result = build(graph, self._without_border())
            result = replace(result, program=replace(result.program, model_file=self.path.name))
        else:
            result = self.family.compile(graph, self._without_border())
        return result, self.family.time(result)

    def _without_border(self) -> Options:
        """The types at the border are those of the file."""
        return {**self.options, "input_data_type": None, "output_data_type": None, "shapes": {}}

    def float_profile(self) -> Profile | None:
        """The float network as if it were int8; None where it cannot be compiled."""
        try:
            graph = read_model(self.path, self.work.float_bytes())
            options = {**self._without_border(), "as_int8": True}
            return self.family.time(self.family.compile(graph, options))
        except NpuscopeError:
            return None

    def zero_point_gains(self, trial: Trial) -> dict[str, float]:
        """Milliseconds by layer, as the rules find them."""
        gains: dict[str, float] = {}
        for finding in self.family.advise(*self.timed(self.bordered(trial.data))).findings:
            fixes = [fix for fix in finding.fixes if fix.id == "zero-point"]
            for op in finding.ops if fixes else ():
                name = op.partition(":")[2]
                gains[name] = max(gains.get(name, 0.0), fixes[0].gain_ms or 0.0)
        return {name: gain for name, gain in gains.items() if gain > 0}

    # the border

    def bordered(self, data: bytes) -> bytes:
        """With integers at inputs and outputs, unless float was asked for."""
        document = open_document(self.path, data)
        wishes = (("integer-input", "input_data_type"), ("integer-output", "output_data_type"))
        for edit, option in wishes:
            kind, side = self.options.get(option) or "int8", option.partition("_")[0]
            border = getattr(document, f"network_{side}s")
            if kind == "float32" or not convertible(document, border):
                continue
            request = EditRequest((), {"type": str(kind)}, None)  # type: ignore[arg-type]
            try:
                apply_edit(document, edit, request)
            except NotFitting as misfit:
                self.note(f"an {side} stays float32: {misfit}")
        return document.to_bytes()

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def border(self, data: bytes, graph: Graph) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Inputs and outputs as the file has them: the Graph has no conversions at its border."""
        names = (graph.inputs, graph.outputs)
        sides = zip(names, self.work.border_is_float(data), strict=True)
        inputs, outputs = (
            tuple(
                replace(graph.tensor(name), dtype=DType.FLOAT32, quant=None)
                if is_float
                else graph.tensor(name)
                for name, is_float in zip(side, floats, strict=True)
            )
            for side, floats in sides
        )
        return inputs, outputs

    def final_losses(
        self, data: bytes, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> tuple[OutputLoss, ...]:
        """Of the file as it is written: given integers, giving integers."""
        samples = [
            {n: in_steps(t, v) for (n, v), t in zip(sample.items(), inputs, strict=True)}
            for sample in self.samples.held_out
        ]
        results = list(self.work.outputs(data, samples))
        losses = []
        for name, output in zip(self.float_outputs[0], outputs, strict=True):
            if self.float_outputs[0][name].dtype.kind != "f":
                continue
            real = np.stack([values[name] for values in self.float_outputs])
            other = np.stack([real_values(output, values[name]) for values in results])
            scale = None if output.quant is None else output.quant.scale
            losses.append(output_loss(name, real, other, scale, self.work.layers))
        return tuple(losses)

    # judging

    def remember(self, trial: Trial) -> None:
        for name, db in trial.sqnr_db.items():
            self.best_db[name] = max(db, self.best_db.get(name, db))

    def judged(
        self, title: str, before: Trial, after: Trial, saves_flash: bool = False
    ) -> tuple[Trial, ChoiceStep]:
        helps, reason = self._verdict(before, after)
        if saves_flash and not helps:
            helps, reason = self._smaller(before, after, reason)
        if helps:
            self.remember(after)
        self.log(title, after, helps)
        return after if helps else before, ChoiceStep(title, int(helps), 1, reason, before, after)

    def _verdict(self, before: Trial, after: Trial) -> tuple[bool, str]:
        if self.float_score is not None:
            return task_verdict(before, after, self.float_score, self.plain_trial, self.max_drop)
        return verdict(before, after, self.best_db, self.floor_db, self.loss_db)

    def _smaller(self, before: Trial, after: Trial, reason: str) -> tuple[bool, str]:
        """Answers within the limit, and fewer weights for no more time."""
        assert self.float_score is not None and after.score is not None
        sizes = [trial.profile.memory.weights_bytes for trial in (before, after)]
        slower = after.profile.total_ms > before.profile.total_ms * (1 + NOISE)
        drop = self.float_score.figure.drop(after.score.figure)
        if slower or sizes[1] >= sizes[0] or drop > self.max_drop:
            return False, reason
        return True, f"{sizes[0] - sizes[1]:,} bytes of flash less"

    def tried(
        self, title: str, best: Trial, parts: Sequence[Part]
    ) -> tuple[Trial, list[ChoiceStep]]:
        """All parts together; if that does not help, one by one."""
        if not parts:
            return best, []
        self.progress(f"{_best(best)}; trying: {title}")
        whole = reduce(lambda plan, part: part(plan), parts, best.plan)
        better, step = self.attempted(title, best, whole)
        count = len(parts)
        if step.kept or count == 1:
            return better, [replace(step, kept=step.kept * count, places=count)]
        helpful, first = 0, best
        for number, part in enumerate(parts[:_MOST_PARTS], 1):
            self.progress(f"{_best(best)}; trying: {title}, {number} of {count}")
            best, one = self.attempted(title, best, part(best.plan))
            helpful += one.kept
        if not helpful:
            return best, [replace(step, places=count)]
        _, reason = self._verdict(first, best)
        return best, [ChoiceStep(title, helpful, count, reason, first, best)]


def _best(trial: Trial) -> str:
    return f"best so far {trial.profile.total_ms:.3f} ms, {trial.mean_db:.1f} dB"


def with_four_bits(path: Path, data: bytes, weights: Sequence[str]) -> bytes:
    """The file with these weights in steps of 4 bits."""
    if not weights:
        return data
    document = open_document(path, data)
    names = {name for stem in weights for name in (stem, f"{stem}_quantized")}
    try:
        for op in document.nodes:
            layer = document.layer(op)
            if layer is not None and layer.weights.name in names and may_be_four_bits(layer):
                to_four_bits(document, layer)
    except NotFitting as misfit:
        raise ModelError(f"4 bits cannot be written: {misfit}") from None
    return document.to_bytes()


def in_steps(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """Real values as an input of the written file takes them."""
    quant = tensor.quant
    if quant is None or tensor.dtype.is_float or values.dtype.kind != "f":
        return values.astype(tensor.dtype.numpy)
    steps = np.rint(values / np.float32(quant.scale)) + quant.zero_point
    return np.asarray(np.clip(steps, *tensor.dtype.limits), tensor.dtype.numpy)


def real_values(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """An output of the written file as real values."""
    quant = tensor.quant
    if quant is None or values.dtype.kind == "f":
        return values
    return np.asarray((values.astype(np.float64) - quant.zero_point) * quant.scale)
