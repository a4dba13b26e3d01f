"""Labelled samples in three parts: to find ranges on, to choose by, and to judge the result on.

What was chosen by some samples looks better on them than it is; so the figures that are reported
come from samples that no choice has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.accuracy.dataset import Dataset, open_dataset
from npuscope.accuracy.figures import Figure, share
from npuscope.accuracy.inputs import NetworkInput
from npuscope.accuracy.labels import Labels
from npuscope.accuracy.pictures import ImageForm
from npuscope.accuracy.result import TaskFigures
from npuscope.accuracy.run import DataRequest, Shapes, task_of
from npuscope.accuracy.tasks import AnswerTask, TaskSample
from npuscope.errors import FileError
from npuscope.quantizing.samples import Border, CalibrationSamples, Sample
from npuscope.quantizing.split import whole_outputs

_MOST_CHOOSING, _MOST_UNUSED = 512, 1000
_MOST_BYTES = 1 << 28  # of samples that are held while plans are tried
_FEWEST = 12  # three parts of four

Outputs = Mapping[str, np.ndarray]


class TaskWish(Struct, frozen=True):
    """`max_drop` is what the metric may lose against the float network, for time or flash;
    `max_flash` in bytes."""

    request: DataRequest
    max_drop: float = 0.0
    max_flash: int | None = None


class TaskScore(Struct, frozen=True):
    """Of the samples that choices are made by."""

    figure: Figure
    right: tuple[bool, ...]


class TriedForm(Struct, frozen=True):
    """A form that was made, timed and measured on the way."""

    title: str
    total_ms: float
    figure: float
    sqnr_db: float
    weights_bytes: int
    kept: bool


class TaskJudgement(Struct, frozen=True):
    """What the answers are worth: `rows` on samples that no choice has seen."""

    task: str
    metric: str
    choosing: int
    unused: int
    rows: tuple[TaskFigures, ...]
    changed: Figure  # answers that the machine gives otherwise than the integer reference
    tried: tuple[TriedForm, ...]
    max_drop: float
    drop: float  # of the machine's figure against the float network's

    def value(self, name: str) -> float:
        return next(row.figures[0].value for row in self.rows if row.name == name)


class TaskJudge:
    """Samples, truths and the task of one data set."""

    def __init__(self, data: Dataset, form: ImageForm, task: AnswerTask, labels: Labels) -> None:
        self.data, self.form, self.task, self.truths = data, form, task, labels.truths
        self.choosing: tuple[int, ...] = ()
        self.unused: tuple[int, ...] = ()
        self.parts_of_outputs: tuple[tuple[int, int], ...] = ()  # where outputs come in parts
        self._dtypes: dict[str, Any] = {}

    def parts(self, borders: Sequence[Border], most: int, seed: int) -> CalibrationSamples:
        """Those for ranges and for choices, as the network takes them."""
        total = len(self.data)
        if total < _FEWEST:
            raise FileError(
                f"{total} samples are too few to find ranges, to choose and to judge on",
                where=str(self.data.source),
                hint=f"give at least {_FEWEST}, better some hundreds",
            )
        self._dtypes = {border.name: border.dtype for border in borders}
        order = [int(place) for place in np.random.default_rng(seed).permutation(total)]
        size = sum(4 * prod(border.shape) for border in borders)
        limit = max(_FEWEST // 3, _MOST_BYTES // max(size, 1))
        ranges = min(most, total // 4, limit)
        choosing = min((total - ranges) // 2, _MOST_CHOOSING, limit)
        self.choosing = tuple(sorted(order[ranges : ranges + choosing]))
        self.unused = tuple(sorted(order[ranges + choosing :][:_MOST_UNUSED]))
        return CalibrationSamples(
            tuple(self.samples(sorted(order[:ranges]))),
            tuple(self.samples(self.choosing)),
            f"{total} labelled samples of {self.data.source}",
            True,
        )

    def samples(self, places: Iterable[int]) -> Iterator[Sample]:
        for place in places:
            reals = self.data.read(place, self.form, None)
            yield {n: np.ascontiguousarray(v, self._dtypes[n]) for n, v in reals.items()}

    def answers(self, rows: Iterable[Outputs], places: Sequence[int]) -> list[Any]:
        """Of outputs as real values, in the order of the network."""
        answers = []
        for place, outputs in zip(places, rows, strict=True):
            values = [np.asarray(v, np.float32) for v in outputs.values()]
            if self.parts_of_outputs:
                values = whole_outputs(values, self.parts_of_outputs)
            sample = TaskSample(self.data.read(place, self.form, None), self.data.names[place])
            answers.append(self.task.answer(values, sample))
        return answers

    def figures(self, answers: Sequence[Any], places: Sequence[int]) -> tuple[Figure, ...]:
        return self.task.figures(answers, [self.truths[place] for place in places])

    def score(self, rows: Iterable[Outputs]) -> TaskScore:
        answers = self.answers(rows, self.choosing)
        pairs = zip(answers, self.choosing, strict=True)
        right = tuple(self.task.right(answer, self.truths[place]) for answer, place in pairs)
        return TaskScore(self.figures(answers, self.choosing)[0], right)

    def changed(self, one: Sequence[Any], other: Sequence[Any]) -> Figure:
        count = sum(not self.task.same(a, b) for a, b in zip(one, other, strict=True))
        return share("answers changed", count, len(one))

    def check(self, outputs: Outputs) -> None:
        """Labels that the outputs cannot give."""
        names = [self.data.names[place] for place in range(len(self.truths))]
        self.task.check(list(outputs.values()), self.truths, names)


def open_judge(
    wish: TaskWish, borders: Sequence[Border], outputs: Shapes, form: ImageForm
) -> TaskJudge:
    inputs = tuple(NetworkInput(b.name, b.shape, b.dtype, None) for b in borders)
    data = open_dataset(wish.request.data, inputs, wish.request.limit)
    task, labels = task_of(outputs, [border.shape for border in borders], data, wish.request)
    if labels is None:
        raise FileError(
            "has no labels to judge by",
            where=str(wish.request.data),
            hint="give them with --labels, as folders of classes, or as `labels` in the .npz",
        )
    return TaskJudge(data, form, task, labels)
