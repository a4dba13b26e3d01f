"""Tasks: what an output answers, whether that is right, and the figures of many samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from npuscope.accuracy.figures import Figure, resampled, share
from npuscope.errors import FileError, UsageError

Arrays = Sequence[np.ndarray]
_TOP = 5
_MOVED = 0.01  # of the range of the truths: a number that moves by less is the same answer


class TaskSample(Struct, frozen=True):
    """What a task may need beside the outputs: real inputs, and the size of the picture."""

    inputs: Mapping[str, np.ndarray]
    name: str = ""


class AnswerTask(Protocol):
    """`answer` is of one sample's outputs, as real values in the order of the network."""

    @property
    def name(self) -> str: ...

    def answer(self, outputs: Arrays, sample: TaskSample) -> Any: ...

    def figures(self, answers: Sequence[Any], truths: Sequence[Any]) -> tuple[Figure, ...]: ...

    def right(self, answer: Any, truth: Any) -> bool: ...

    def same(self, one: Any, other: Any) -> bool: ...

    def shown(self, answer: Any) -> str: ...

    def check(self, outputs: Arrays, truths: Sequence[Any], names: Sequence[str]) -> None:
        """Refuse labels that the outputs cannot give."""
        ...


class Classification(Struct, frozen=True):
    """The place of the largest score. An answer holds all places, the best first."""

    name = "classification"
    classes: tuple[str, ...] = ()

    def answer(self, outputs: Arrays, sample: TaskSample) -> tuple[int, ...]:
        scores = max(outputs, key=lambda values: values.size).ravel()
        return tuple(int(place) for place in np.argsort(-scores, kind="stable")[:_TOP])

    def figures(self, answers: Sequence[Any], truths: Sequence[Any]) -> tuple[Figure, ...]:
        pairs = list(zip(answers, truths, strict=True))
        first = share("top-1", sum(a[0] == t for a, t in pairs), len(pairs))
        if len(answers[0]) < _TOP or max(len(self.classes), max(truths, default=0) + 1) <= _TOP:
            return (first,)
        return first, share("top-5", sum(t in a for a, t in pairs), len(pairs))

    def right(self, answer: Any, truth: Any) -> bool:
        return bool(answer[0] == truth)

    def same(self, one: Any, other: Any) -> bool:
        return bool(one[0] == other[0])

    def shown(self, answer: Any) -> str:
        place = answer if isinstance(answer, int) else answer[0]
        return self.classes[place] if place < len(self.classes) else f"class {place}"

    def check(self, outputs: Arrays, truths: Sequence[Any], names: Sequence[str]) -> None:
        count = max(values.size for values in outputs)
        beyond = [name for name, truth in zip(names, truths, strict=True) if truth >= count]
        if beyond:
            raise FileError(
                f"{len(beyond)} of {len(names)} labels do not fit the outputs: {beyond[0]} is of "
                f"class {max(truths)}, but the network has {count}",
                where="--labels",
                hint="classes count from 0, in the order of the network's outputs",
            )


class Anomaly(Struct, frozen=True):
    """A score that is large for what is not normal: the error of an autoencoder, or the output."""

    name = "anomaly"

    def answer(self, outputs: Arrays, sample: TaskSample) -> float:
        inputs = list(sample.inputs.values())
        if len(outputs) == len(inputs) == 1 and outputs[0].size == inputs[0].size:
            return float(np.mean((outputs[0].ravel() - inputs[0].ravel()) ** 2))
        scores = outputs[0].ravel()
        return float(scores[-1] if scores.size == 2 else scores.mean())

    def figures(self, answers: Sequence[Any], truths: Sequence[Any]) -> tuple[Figure, ...]:
        scores, odd = np.asarray(answers, float), np.asarray(truths) > 0

        def area(places: np.ndarray) -> float:
            sample, which = scores[places], odd[places]
            order = np.argsort(np.argsort(sample, kind="stable"), kind="stable") + 1.0
            for value in np.unique(sample):
                order[sample == value] = order[sample == value].mean()
            ones = int(which.sum())
            zeros = which.size - ones
            if not ones or not zeros:
                return float("nan")
            return float((order[which].sum() - ones * (ones + 1) / 2) / (ones * zeros))

        return (resampled("AUC", len(scores), area),)

    def right(self, answer: Any, truth: Any) -> bool:
        return True  # a score alone is neither right nor wrong

    def same(self, one: Any, other: Any) -> bool:
        return bool(abs(one - other) <= _MOVED * max(abs(one), abs(other)))

    def shown(self, answer: Any) -> str:
        return f"{answer:.4g}"

    def check(self, outputs: Arrays, truths: Sequence[Any], names: Sequence[str]) -> None:
        if len({bool(truth) for truth in truths}) < 2:
            raise FileError(
                "all samples have the same label, expected normal (0) and not normal (1)",
                where="--labels",
            )


class Regression(Struct, frozen=True):
    """Numbers; an answer holds all that the outputs give."""

    name = "regression"
    extent: float = 0.0

    def answer(self, outputs: Arrays, sample: TaskSample) -> np.ndarray:
        return np.concatenate([values.ravel() for values in outputs])

    def figures(self, answers: Sequence[Any], truths: Sequence[Any]) -> tuple[Figure, ...]:
        errors = np.stack([np.abs(a - np.ravel(t)) for a, t in zip(answers, truths, strict=True)])
        plain: dict[str, Any] = {"is_share": False, "higher_is_better": False}
        means, squares = errors.mean(1), (errors**2).mean(1)
        count = len(errors)
        return (
            resampled("mean error", count, lambda places: float(means[places].mean()), **plain),
            resampled(
                "RMSE", count, lambda places: float(np.sqrt(squares[places].mean())), **plain
            ),
        )

    def right(self, answer: Any, truth: Any) -> bool:
        return True

    def same(self, one: Any, other: Any) -> bool:
        extent = self.extent or float(np.abs(one).max())
        return bool(np.abs(one - other).max() <= _MOVED * extent)

    def shown(self, answer: Any) -> str:
        return ", ".join(f"{value:.4g}" for value in np.ravel(answer)[:4])

    def check(self, outputs: Arrays, truths: Sequence[Any], names: Sequence[str]) -> None:
        size = sum(values.size for values in outputs)
        other = next((truth for truth in truths if np.size(truth) != size), None)
        if other is not None:
            raise FileError(
                f"a label has {np.size(other)} numbers, but the network gives {size}",
                where="--labels",
            )


TASKS = ("classification", "detection", "segmentation", "keypoints", "anomaly", "regression")


def likely_task(outputs: Sequence[tuple[int, ...]], inputs: Sequence[tuple[int, ...]]) -> str:
    """The task that outputs of these shapes are for, where only one comes into question."""
    if len(outputs) != 1:
        return ""
    sizes = [size for size in outputs[0][1:] if size > 1]
    if [*outputs[0]] == [*inputs[0]] and len(sizes) == 1:
        return "anomaly"
    if len(sizes) == 1:
        return "classification"
    if len(outputs[0]) == 4 and len(inputs[0]) == 4 and len(sizes) >= 2:
        return "segmentation" if outputs[0][1] * 16 >= inputs[0][1] else ""
    return "regression" if not sizes else ""


def needs_task(outputs: Sequence[tuple[int, ...]]) -> UsageError:
    shapes = ", ".join(str(shape) for shape in outputs)
    return UsageError(
        f"the outputs {shapes} do not tell the task",
        where="--task",
        hint=f"known: {', '.join(TASKS)}",
    )
