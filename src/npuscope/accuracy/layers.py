"""Which layers cost most: the error of one layer at a time, put into the better arithmetic.

A layer's own error is what it makes of its inputs less what the other arithmetic makes of the same
inputs. Tensors of two networks are matched by name and shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from npuscope.accuracy.result import AccuracyCost
from npuscope.accuracy.tasks import AnswerTask, TaskSample
from npuscope.graph.model import DType, Graph
from npuscope.ops.run import disturbed

Values = Mapping[str, np.ndarray]
_TRIED, _LISTED = 24, 5
# What quantizers add to the name of the tensor that they quantize.
_ENDINGS = ("_QuantizeLinear_Output", "_DequantizeLinear_Output", "_quantized", "_dq", "_q")


class ValueSource(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def graph(self) -> Graph: ...
    def outputs(self, values: Values) -> list[np.ndarray]: ...


def layer_costs(
    one: ValueSource,
    other: ValueSource,
    samples: Sequence[tuple[TaskSample, Values, Values]],
    task: AnswerTask,
) -> list[AccuracyCost]:
    """Of samples: the sample, inputs of the better arithmetic, and all values of the other."""
    errors = [
        _own_errors(one.graph, inputs, _translated(one, other, values))
        for _, inputs, values in samples
    ]
    moves: dict[str, list[float]] = {}
    flips: dict[str, int] = {}
    sizes: dict[str, float] = {}  # of its own error, against what the tensor can hold
    for error in errors:
        for name, difference in error.items():
            # In steps of an integer; floats have none.
            step = 1.0 if one.graph.tensor(name).dtype is not DType.FLOAT32 else 1e-3
            size = float(np.sqrt(np.mean(np.square(difference)))) / step
            sizes[name] = sizes.get(name, 0.0) + size
    for name in sorted(sizes, key=lambda n: -sizes[n])[:_TRIED]:
        for (sample, inputs, _), error in zip(samples, errors, strict=True):
            if name not in error:
                continue
            plain = one.outputs(disturbed(one.graph, inputs, lambda _, value: value))
            moved = one.outputs(disturbed(one.graph, inputs, _adding(one.graph, name, error[name])))
            spread = np.sqrt(sum(float(np.var(p)) * p.size for p in plain)) or 1.0
            distance = np.sqrt(
                sum(float(((m - p) ** 2).sum()) for m, p in zip(moved, plain, strict=True))
            )
            moves.setdefault(name, []).append(distance / spread)
            same = task.same(task.answer(plain, sample), task.answer(moved, sample))
            flips[name] = flips.get(name, 0) + (not same)
    makers = one.graph.producers()
    rows = [
        AccuracyCost(
            one.name,
            other.name,
            next(iter(makers[name].origin), makers[name].name),
            float(np.sqrt(np.mean(np.square(distances)))),
            flips[name],
            len(samples),
        )
        for name, distances in moves.items()
    ]
    rows = [row for row in rows if row.output_move > 0]
    return sorted(rows, key=lambda row: (-row.answers_changed, -row.output_move))[:_LISTED]


def _translated(one: ValueSource, other: ValueSource, values: Values) -> dict[str, np.ndarray]:
    """Values of the second in the numbers of the first, by the first one's names."""
    plain = {_stem(name): name for name in other.graph.tensors if name in values}
    result = {}
    for name, tensor in one.graph.tensors.items():
        match = name if name in values else plain.get(_stem(name), "")
        if not match or tensor.data is not None:
            continue
        source, array = other.graph.tensor(match), np.asarray(values[match])
        if array.shape != tensor.shape:
            continue
        if source.quant is not None and array.dtype.kind != "f" and tensor.dtype is DType.FLOAT32:
            if source.quant.per_channel:
                continue
            array = (array.astype(np.float32) - source.quant.zero_point) * np.float32(
                source.quant.scale
            )
        if (array.dtype.kind == "f") == (tensor.dtype is DType.FLOAT32):
            result[name] = array
    return result


def _stem(name: str) -> str:
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name


def _own_errors(graph: Graph, inputs: Values, values: Values) -> dict[str, np.ndarray]:
    """Of every matched tensor: the other's value less what comes of the other's inputs here."""
    errors: dict[str, np.ndarray] = {}

    def take(name: str, value: np.ndarray) -> np.ndarray:
        if name not in values or values[name].shape != value.shape:
            return value
        if value.dtype.kind in "fiu":
            difference = values[name].astype(np.float64) - value
            if np.any(difference):
                errors[name] = difference
        return values[name].astype(value.dtype)

    disturbed(graph, inputs, take)
    return errors


def _adding(graph: Graph, name: str, error: np.ndarray) -> Callable[[str, np.ndarray], np.ndarray]:
    def change(other: str, value: np.ndarray) -> np.ndarray:
        if other != name:
            return value
        tensor = graph.tensor(name)
        if tensor.dtype is DType.FLOAT32:
            return np.asarray(value + error, np.float32)
        low, high = tensor.dtype.limits
        return np.asarray(np.clip(np.rint(value + error), low, high), value.dtype)

    return change
