"""The usual mistakes of preprocessing, tried: does another form give far better answers?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from npuscope.accuracy.dataset import Dataset
from npuscope.accuracy.figures import Figure, surely_worse
from npuscope.accuracy.inputs import NetworkInput, given, network_inputs
from npuscope.accuracy.pictures import FORMS, ImageForm, form_text
from npuscope.accuracy.tasks import AnswerTask, TaskSample
from npuscope.errors import NpuscopeError
from npuscope.graph.model import Graph
from npuscope.structs import replace

_SAMPLES = 48
_FAR = 0.10  # of the samples, or a figure that improves by as much
Values = Any
Change = Callable[[np.ndarray], np.ndarray]


class Runner(Protocol):
    @property
    def graph(self) -> Graph: ...
    @property
    def execute(self) -> Callable[[Values], Values]: ...
    def outputs(self, values: Values) -> list[np.ndarray]: ...


def better_preprocessing(
    runner: Runner,
    data: Dataset,
    truths: Sequence[Any],
    task: AnswerTask,
    form: ImageForm,
) -> list[str]:
    """Sentences; none where the form that was used is as good as any."""
    inputs = network_inputs(runner.graph)
    count = len(truths)
    places = [n * count // min(count, _SAMPLES) for n in range(min(count, _SAMPLES))]
    own_truths = [truths[place] for place in places]

    def judged(form: ImageForm, change: Change | None) -> tuple[Figure, list[bool], float]:
        """The figure, which answers are right, and the share of values that the input cuts off."""
        answers, outside = [], []
        low, high = data.network.reals or (-np.inf, np.inf)
        for place in places:
            reals = data.read(place, form, change)
            first = next(iter(reals.values()))
            outside.append(float(np.mean((first < low) | (first > high))))
            values = runner.execute(given(runner.graph, reals, inputs))
            answers.append(
                task.answer(runner.outputs(values), TaskSample(reals, data.names[place]))
            )
        right = [task.right(a, t) for a, t in zip(answers, own_truths, strict=True)]
        return task.figures(answers, own_truths)[0], right, float(np.mean(outside))

    base, base_right, best_outside = judged(form, None)
    best, best_right, words = base, base_right, ""
    best_form: ImageForm = form
    best_change: Change | None = None
    for group in _variants(data, data.network):
        start_form, start_change = best_form, best_change
        start_words = words
        for text, new_form, change in group(start_form):
            joined = _both(start_change, change)
            try:
                figure, right, outside = judged(new_form, joined)
            except (NpuscopeError, ValueError):
                continue
            # Values that are cut off may do as well; those that fit are what was meant.
            tie = bool(words) and _gain(best, figure) == 0 and outside < best_outside
            if _gain(best, figure) > 0 or tie:
                best_outside = outside
                best, best_right, best_form, best_change = figure, right, new_form, joined
                words = ", ".join(w for w in (start_words, text) if w)
    # Figures without right and wrong answers have no test of their own; they must gain more.
    has_errors = not all(base_right) or not all(best_right)
    sure = surely_worse(best_right, base_right) if has_errors else _gain(base, best) > 2 * _FAR
    if not words or _gain(base, best) < _FAR or not sure:
        return []
    before, after = (
        f"{figure.value:.1%}" if figure.is_share else f"{figure.value:.4g}"
        for figure in (base, best)
    )
    return [
        f"the answers are far better with {words}: {base.name} {after} against {before} on "
        f"{len(places)} samples"
    ]


def _gain(before: Figure, after: Figure) -> float:
    """Of shares the difference; of errors the part that goes."""
    if before.higher_is_better:
        return after.value - before.value
    return (before.value - after.value) / (before.value or 1.0)


def _both(first: Change | None, second: Change | None) -> Change | None:
    if first is None or second is None:
        return first or second
    return lambda values: second(first(values))


Variant = tuple[str, ImageForm, Change | None]


def _variants(
    data: Dataset, network: NetworkInput
) -> Iterator[Callable[[ImageForm], Iterator[Variant]]]:
    """Groups of variants; the best of a group is kept while the next one is tried."""
    if data.pixels:
        yield _other_pixels
    else:
        yield _other_values(network)
        if len(network.shape) == 4 and 3 in (network.shape[1], network.shape[3]):
            yield _swapped_channels(network)
    if len(network.shape) == 4:
        yield _turned(data, network)


def _other_pixels(form: ImageForm) -> Iterator[Variant]:
    """Every range with either order of colours: one mistake may hide the other."""
    for bgr in (form.bgr, not form.bgr):
        colours = "" if bgr == form.bgr else " (BGR)" if bgr else " (RGB, not BGR)"
        for plain in FORMS.values():
            other = replace(form, mean=plain.mean, std=plain.std, factor=plain.factor, bgr=bgr)
            yield f"--preprocess {form_text(other)}{colours}", other, None
        twice = replace(form, factor=form.factor * 255, bgr=bgr)
        yield f"pixels that are scaled once, not twice{colours}", twice, None


def _other_values(network: NetworkInput) -> Callable[[ImageForm], Iterator[Variant]]:
    """Factors and shifts between the usual ranges: 0 to 255, 0 to 1 and -1 to 1."""
    changes: dict[str, Change] = {
        "inputs divided by 255 (they are pixels)": lambda v: v / 255,
        "inputs times 255 (they were scaled twice)": lambda v: v * 255,
        "inputs from -1 to 1 instead of 0 to 1": lambda v: v * 2 - 1,
        "inputs from 0 to 1 instead of -1 to 1": lambda v: (v + 1) / 2,
        "inputs from -1 to 1 instead of 0 to 255": lambda v: v / 127.5 - 1,
        "inputs from 0 to 255 instead of -1 to 1": lambda v: (v + 1) * 127.5,
    }
    if network.quant is not None:
        step = network.quant.scale * 128
        changes["integers moved by +128 (uint8 was read as int8)"] = lambda v: v + step
        changes["integers moved by -128 (int8 was read as uint8)"] = lambda v: v - step

    def group(form: ImageForm) -> Iterator[Variant]:
        for text, change in changes.items():
            yield text, form, change

    return group


def _swapped_channels(network: NetworkInput) -> Callable[[ImageForm], Iterator[Variant]]:
    axis = 3 if network.shape[3] == 3 else 1

    def group(form: ImageForm) -> Iterator[Variant]:
        yield "red and blue swapped (BGR)", form, lambda v: np.flip(v, axis).copy()

    return group


def _turned(data: Dataset, network: NetworkInput) -> Callable[[ImageForm], Iterator[Variant]]:
    """Rows for columns, where a picture is square. Pixels are changed before their channels move
    to where the network wants them."""
    shape = network.shape
    first = shape[1] in (1, 3) and shape[3] not in (1, 3)
    rows = -2 if first and not data.pixels else -3
    sizes = (shape[2], shape[3]) if first else (shape[1], shape[2])

    def group(form: ImageForm) -> Iterator[Variant]:
        if sizes[0] == sizes[1]:
            yield "rows and columns swapped", form, lambda v: np.swapaxes(v, rows, rows + 1).copy()

    return group
