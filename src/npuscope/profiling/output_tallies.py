"""Outputs of a machine against the reference and an outside runtime, over all samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy, deepcopy
from typing import Self

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError, UsageError
from npuscope.graph.model import DType, Graph, Tensor
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.profiling.agreement import Agreement, AgreementTally, random_sample
from npuscope.profiling.rounding import deciding, rounded, rounded_alike
from npuscope.structs import replace
from npuscope.text import safe_terminal

Array = np.ndarray
Values = Mapping[str, Array]
# Runs of the reference with rounding, per sample: an output of few elements needs more than one.
_DRAWS = 2
_STEPS = 255  # of a float output without a quantization


class Reference(Struct, frozen=True):
    """Our reference executor against an outside runtime; name None when there is none."""

    name: str | None
    elements: int = 0
    mismatches: int = 0
    max_lsb: float = 0.0


class OutputTallies:
    """Agreement of the outputs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.runtime: str | None = None
        self.expected: list[dict[str, Array]] = []  # outputs of the reference, of each sample
        self.outputs: dict[str, AgreementTally] = {}
        self.rounding = dict.fromkeys(graph.outputs, 0.0)
        self.answers = {name: AgreementTally(1.0) for name in graph.outputs}
        # An output has its own number of channels, so it has sums of its own.
        self.reference = {name: AgreementTally(1.0) for name in graph.outputs}

    def snapshot(self) -> Self:
        """A copy of the sums; the network does not change."""
        clone = copy(self)
        clone.expected = list(self.expected)
        for name in ("outputs", "rounding", "answers", "reference"):
            setattr(clone, name, deepcopy(getattr(self, name)))
        return clone

    @property
    def count(self) -> int:
        """Samples that are in it."""
        return len(self.expected)

    @property
    def worst(self) -> float:
        return max((tally.largest for tally in self.outputs.values()), default=0.0)

    def add_outputs(
        self,
        sample: Values,
        outputs: Values,
        expected: Values,
        choices: Values | None = None,
        steps: Values | None = None,
    ) -> None:
        """Of the machine's inside: `choices` are results of comparisons, `steps` by how much its
        layers round otherwise."""
        for name in self.graph.outputs:
            step = output_step(self.graph, name, expected[name])
            self.outputs.setdefault(name, AgreementTally(step)).add(outputs[name], expected[name])
            same = same_answers(self.graph, name, outputs[name], expected[name])
            self.answers[name].add(same, np.ones_like(same))
        runs = [rounded(self.graph, sample, draw) for draw in range(_DRAWS)]
        if choices and (results := deciding(self.graph, sample, expected, choices)):
            runs.append(results)
        if steps:
            runs.append(rounded_alike(self.graph, sample, steps))
        for run in runs:
            for name, values in run.items():
                tally = AgreementTally(self.outputs[name].lsb)
                tally.add(values, expected[name])
                self.rounding[name] = max(self.rounding[name], tally.rms)
        self.expected.append({name: expected[name] for name in self.graph.outputs})

    def check_reference(self, outside: tuple[str, list[list[Array]]] | None) -> None:
        """Our reference executor against what another runtime made of the same samples."""
        if outside is None:
            return
        self.runtime, results = outside
        for expected, row in zip(self.expected, results, strict=True):
            for name, values in zip(self.graph.outputs, row, strict=True):
                if values.shape != expected[name].shape:
                    raise ModelError(
                        f"{self.runtime} gives it the shape {values.shape}, expected "
                        f"{expected[name].shape}",
                        where=f"output '{safe_terminal(name)}'",
                    )
                # In steps of the output, so that float and integer outputs share one figure.
                lsb = self.outputs[name].lsb
                self.reference[name].add(values / lsb, expected[name] / lsb)

    def agreements(self) -> tuple[Agreement, ...]:
        return tuple(
            replace(
                tally.agreement(name),
                rounding_rms_lsb=self.rounding[name],
                top1_same_share=same.equal / same.elements if same.elements else None,
            )
            for name, tally in self.outputs.items()
            for same in [self.answers[name]]
        )

    def outside(self) -> Reference:
        if self.runtime is None:
            return Reference(None)
        tallies = self.reference.values()
        return Reference(
            self.runtime,
            sum(tally.elements for tally in tallies),
            sum(tally.elements - tally.equal for tally in tallies),
            max((tally.largest for tally in tallies), default=0.0),
        )


def output_step(graph: Graph, name: str, values: Array) -> float:
    """One step of an output; a float output counts in steps of what was dequantized, else in
    parts of the range that it takes."""
    tensor = graph.tensor(name)
    if tensor.dtype is not DType.FLOAT32:
        return 1.0
    maker = graph.producers().get(name)
    source = graph.first_input(maker) if maker and maker.kind == "Dequantize" else None
    if source and source.quant:
        return source.quant.scale
    return float(np.ptp(values)) / _STEPS or 1.0


# --- Samples ---


def samples_of(
    graph: Graph, inputs: Sequence[Array] | None, seeds: int
) -> Iterator[dict[str, Array]]:
    """What the user gave, along the first axis of the arrays, one array per input; else random."""
    if not inputs:
        for seed in range(seeds):
            yield random_sample(graph, np.random.default_rng(seed))
        return
    if len(inputs) != len(graph.inputs):
        raise UsageError(
            f"the network has {len(graph.inputs)} inputs, {len(inputs)} arrays were given",
            where="--inputs",
        )
    stacks = [_stack(graph.tensor(n), a) for n, a in zip(graph.inputs, inputs, strict=True)]
    counts = {len(stack) for stack in stacks}
    if len(counts) > 1 or 0 in counts:
        raise UsageError(
            f"expected the same number of samples for every input, found {sorted(counts)}",
            where="--inputs",
        )
    for rows in zip(*stacks, strict=True):
        yield dict(zip(graph.inputs, rows, strict=True))


def _stack(tensor: Tensor, array: Array) -> Array:
    shape = tensor.shape
    if array.dtype != tensor.dtype.numpy or array.shape[-len(shape) + 1 :] != shape[1:]:
        raise UsageError(
            f"expected {tensor.dtype.value} of shape {shape}, found {array.dtype} of {array.shape}",
            where="--inputs",
            hint="a leading axis holds the samples",
        )
    return array.reshape(-1, *shape)


# --- Whether the answers that an output gives to its task are the same ---

_MOST_STEPS_BACK = 4


def same_answers(graph: Graph, name: str, values: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """One value for each answer, true where it is the same; none where there are no classes.

    Classes are the last axis of a vector, and of whatever a Softmax made. Places of ArgMax are
    answers as they are. Of several equal scores any may win.
    """
    kind = _maker(graph, name)
    if kind in having(Trait.FINDS_PLACES):
        return np.asarray(values == expected).ravel()
    classes = expected.shape[-1] if expected.ndim else 0
    if classes < 2 or (expected.size != classes and kind != "Softmax"):
        return np.zeros(0, bool)
    rows, scores = values.reshape(-1, classes), expected.reshape(-1, classes)
    scores_of_choice = np.take_along_axis(scores, rows.argmax(1)[:, None], 1)[:, 0]
    return np.asarray(scores_of_choice == scores.max(1))


def _maker(graph: Graph, name: str) -> str:
    """The op behind an output, past those that only move or convert its values."""
    makers = graph.producers()
    for _ in range(_MOST_STEPS_BACK):
        op = makers.get(name)
        if op is None:
            return ""
        if op.kind not in having(Trait.MOVES, Trait.CONVERSION):
            return op.kind
        name = op.inputs[0]
    return ""
