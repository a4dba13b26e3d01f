"""A data set through several arithmetics, and what a task makes of their answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.accuracy.boxes import Detection
from npuscope.accuracy.dataset import Dataset, open_dataset
from npuscope.accuracy.figures import share, surely_worse
from npuscope.accuracy.inputs import NetworkInput, given, likely_form, network_inputs
from npuscope.accuracy.labels import Labels, labels_of
from npuscope.accuracy.layers import layer_costs
from npuscope.accuracy.maps import Keypoints, Segmentation
from npuscope.accuracy.mistakes import better_preprocessing
from npuscope.accuracy.pictures import ImageForm, form_text, named_form, pixels_of
from npuscope.accuracy.result import AccuracyCost, ChangedSample, Pairing, TaskAccuracy, TaskFigures
from npuscope.accuracy.tasks import (
    TASKS,
    Anomaly,
    AnswerTask,
    Classification,
    Regression,
    TaskSample,
    likely_task,
    needs_task,
)
from npuscope.errors import FileError, ModelError, UsageError
from npuscope.graph.model import DType, Graph
from npuscope.progress import progress
from npuscope.structs import replace

Values = Mapping[str, np.ndarray]
log = logging.getLogger(__name__)
_LISTED = 20  # samples whose answer changes
_LAYER_SAMPLES = 4
_THUMBNAIL = (96, 96)


class Arithmetic(Struct, frozen=True):
    """One way to compute a network: from inputs, as stored, to values by tensor."""

    name: str
    title: str
    graph: Graph
    execute: Callable[[Values], Values]
    everything: Callable[[Values], Values]  # with the tensors inside

    def outputs(self, values: Values) -> list[np.ndarray]:
        """Real values, in the order of the network."""
        reals = []
        for name in self.graph.outputs:
            tensor, array = self.graph.tensor(name), np.asarray(values[name])
            quant = tensor.quant
            if quant and array.dtype.kind != "f" and tensor.dtype is not DType.FLOAT32:
                array = (array.astype(np.float32) - quant.zero_point) * np.float32(quant.scale)
            reals.append(array)
        return reals


class DataRequest(Struct, frozen=True):
    """What the user said of the data."""

    data: str | Path
    labels: str | Path | None = None
    task: str | None = None
    preprocess: str | None = None
    layout: str = ""
    resize: str = "stretch"
    limit: int | None = None
    made_for: tuple[NetworkInput, ...] = ()  # whose integers samples hold, if not the network's own


def measure(
    model: str, machine: str, arithmetics: Sequence[Arithmetic], request: DataRequest
) -> TaskAccuracy:
    """The integer reference is in every list; its inputs are those that samples are made for."""
    reference = next(a for a in arithmetics if a.name == "int8")
    inputs = _sample_inputs(reference.graph, request)
    data = open_dataset(request.data, inputs, request.limit)
    task, labels = task_of(*_shapes(reference.graph), data, request)
    form, why = form_of(inputs[0], request)
    answers, first = _answers(arithmetics, data, form, task)
    count = len(answers[reference.name])
    truths = labels.truths[:count] if labels else ()
    if labels:
        task.check(first, truths, data.names[:count])
    rows = tuple(
        TaskFigures(a.name, a.title, task.figures(answers[a.name], truths) if truths else ())
        for a in arithmetics
    )
    pairs = [
        (one, other)
        for place, one in enumerate(arithmetics)
        for other in arithmetics[place + 1 :]
        if other.name != "npu" or one.name == "int8"
    ]
    notes: list[str] = []
    if labels and count:
        # Integers saturate, which hides mistakes: floats tell them better.
        notes += better_preprocessing(arithmetics[0], data, truths, task, form)
    elif not labels:
        notes.append("no labels: answers are compared with each other only")
    costs: list[AccuracyCost] = []
    for one, other in pairs:
        costs += _costs(one, other, answers, data, form, task)
    return TaskAccuracy(
        model=model,
        machine=machine,
        task=task.name,
        data=f"{data.kind} of {data.source}",
        samples=count,
        samples_total=len(data),
        preprocess=f"{form_text(form)} ({why})" if data.pixels else "none: inputs as they are",
        rows=rows,
        pairings=tuple(_pairing(one, other, answers, truths, task) for one, other in pairs),
        changed=tuple(_changed(arithmetics, answers, truths, data, task)),
        layers=tuple(costs),
        notes=tuple(notes),
        labelled=labels is not None,
    )


def _sample_inputs(graph: Graph, request: DataRequest) -> tuple[NetworkInput, ...]:
    """Samples that hold integers mean those of the network that they were made for."""
    own = network_inputs(graph)
    if len(own) != len(request.made_for):
        return own
    pairs = zip(own, request.made_for, strict=True)
    return tuple(replace(a, dtype=b.dtype, quant=b.quant) for a, b in pairs)


Shapes = Sequence[tuple[int, ...]]


def _shapes(graph: Graph) -> tuple[Shapes, Shapes]:
    shapes = [[graph.tensor(n).shape for n in side] for side in (graph.outputs, graph.inputs)]
    return shapes[0], shapes[1]


def task_of(
    shapes: Shapes, inputs: Shapes, data: Dataset, request: DataRequest
) -> tuple[AnswerTask, Labels | None]:
    """By the shapes of outputs and inputs, where it is not stated."""
    name = request.task or likely_task(shapes, inputs)
    if name not in TASKS:
        raise (
            needs_task(shapes)
            if not name
            else UsageError(
                f"unknown task '{name}'", where="--task", hint=f"known: {', '.join(TASKS)}"
            )
        )
    labels = labels_of(data, request.labels, name)
    classes = labels.classes if labels else ()
    if name == "regression":
        values = [v for truth in labels.truths for v in truth] if labels else []
        return Regression(float(np.ptp(values)) if values else 0.0), labels
    makers: dict[str, Callable[[], AnswerTask]] = {
        "classification": lambda: Classification(classes),
        "detection": lambda: Detection(classes),
        "segmentation": Segmentation,
        "keypoints": Keypoints,
        "anomaly": Anomaly,
    }
    return makers[name](), labels


def form_of(network: NetworkInput, request: DataRequest) -> tuple[ImageForm, str]:
    if request.preprocess:
        return named_form(request.preprocess, request.layout, request.resize), "as asked"
    form, why = likely_form(network)
    return replace(form, layout=request.layout, resize=request.resize), why


def _answers(
    arithmetics: Sequence[Arithmetic],
    data: Dataset,
    form: ImageForm,
    task: AnswerTask,
) -> tuple[dict[str, list[Any]], list[np.ndarray]]:
    """By arithmetic, of every sample; after an interruption of those before it. And the outputs of
    the first sample."""
    answers: dict[str, list[Any]] = {a.name: [] for a in arithmetics}
    first: list[np.ndarray] = []
    own = {a.name: network_inputs(a.graph) for a in arithmetics}
    try:
        for place in range(len(data)):
            if place % 16 == 0:
                progress("sample %d of %d", place + 1, len(data))
            reals = _read(data, place, form)
            row = {}
            for arithmetic in arithmetics:
                values = arithmetic.execute(given(arithmetic.graph, reals, own[arithmetic.name]))
                outputs = arithmetic.outputs(values)
                if arithmetic.name == "int8" and not first:
                    first = outputs
                row[arithmetic.name] = task.answer(outputs, TaskSample(reals, data.names[place]))
            for name, answer in row.items():
                answers[name].append(answer)
    except KeyboardInterrupt:
        if not answers["int8"]:
            raise
        log.warning("interrupted after %d of %d samples", len(answers["int8"]), len(data))
    return answers, first


def _read(data: Dataset, place: int, form: ImageForm) -> dict[str, np.ndarray]:
    """One sample; the others are looked at too before an unreadable one is refused."""
    try:
        return data.read(place, form, None)
    except FileError as error:
        bad = 1
        for other in range(place + 1, len(data)):
            try:
                data.read(other, form, None)
            except FileError:
                bad += 1
        raise FileError(
            f"{bad} of {len(data)} samples cannot be used; the first: {error.message}",
            where=error.where,
            hint=error.hint,
        ) from None


def _pairing(
    one: Arithmetic,
    other: Arithmetic,
    answers: Mapping[str, Sequence[Any]],
    truths: Sequence[Any],
    task: AnswerTask,
) -> Pairing:
    first, second = answers[one.name], answers[other.name]
    changed = sum(not task.same(a, b) for a, b in zip(first, second, strict=True))
    before, after = (
        [task.right(a, t) for a, t in zip(row, truths, strict=True)] if truths else []
        for row in (first, second)
    )
    return Pairing(
        one.name,
        other.name,
        share("answers changed", changed, len(first)),
        len(first),
        sum(b and not a for b, a in zip(before, after, strict=True)),
        sum(a and not b for b, a in zip(before, after, strict=True)),
        surely_worse(before, after),
    )


def _changed(
    arithmetics: Sequence[Arithmetic],
    answers: Mapping[str, Sequence[Any]],
    truths: Sequence[Any],
    data: Dataset,
    task: AnswerTask,
) -> list[ChangedSample]:
    rows = []
    for place in range(len(answers["int8"])):
        own = {a.name: answers[a.name][place] for a in arithmetics}
        if all(task.same(own["int8"], answer) for answer in own.values()):
            continue
        truth = task.shown(truths[place]) if truths else ""
        texts = {name: task.shown(answer) for name, answer in own.items()}
        rows.append(ChangedSample(data.names[place], truth, texts, _thumbnail(data, place)))
        if len(rows) == _LISTED:
            break
    return rows


def _thumbnail(data: Dataset, place: int) -> bytes:
    if data.kind != "pictures":
        return b""
    from io import BytesIO

    from PIL import Image

    pixels = pixels_of(data.files[place], *_THUMBNAIL, 3, "letterbox")
    file = BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def _costs(
    one: Arithmetic,
    other: Arithmetic,
    answers: Mapping[str, Sequence[Any]],
    data: Dataset,
    form: ImageForm,
    task: AnswerTask,
) -> list[AccuracyCost]:
    """Of layers, on samples whose answers change, else on the first."""
    pairs = zip(answers[one.name], answers[other.name], strict=True)
    differing = [place for place, (a, b) in enumerate(pairs) if not task.same(a, b)]
    places = (differing or list(range(len(answers[one.name]))))[:_LAYER_SAMPLES]
    samples = []
    for place in places:
        reals = data.read(place, form, None)
        samples.append(
            (
                TaskSample(reals, data.names[place]),
                given(one.graph, reals, network_inputs(one.graph)),
                other.everything(given(other.graph, reals, network_inputs(other.graph))),
            )
        )
    progress("layers of %s against %s", other.title, one.title)
    try:
        return layer_costs(one, other, samples, task)
    except ModelError as error:  # figures are known; what a layer costs is not
        log.warning("layers were not compared: %s", error.message)
        return []
