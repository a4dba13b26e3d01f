"""A machine of which no more is known than what it computes, against the reference executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Self

import numpy as np

from npuscope.errors import ModelError
from npuscope.families.interface import Layers
from npuscope.graph.model import Graph
from npuscope.ops.run import check_work, trace
from npuscope.profiling.agreement import AgreementTally, LayerAgreement
from npuscope.profiling.output_tallies import OutputTallies, samples_of
from npuscope.profiling.outside import outside_outputs
from npuscope.profiling.rounding import steps_inside
from npuscope.profiling.validate import Validation, run_all
from npuscope.profiling.verdict import LAYER_LSB, Coverage, judge
from npuscope.progress import progress
from npuscope.shown import counted
from npuscope.text import safe_terminal

Array = np.ndarray
Values = Mapping[str, Array]


def validate_execution(
    graph: Graph,
    execute: Callable[[Values], Values],
    inputs: Sequence[Array] | None = None,
    seeds: int = 1,
    model: Path | None = None,
    layers: Layers | None = None,
    notes: tuple[str, ...] = (),
) -> Validation:
    """`execute` gives the outputs for a sample. Other tensors that it gives are compared too, but
    not judged: what was wrong before them makes them differ. Those of `layers` are."""
    check_work(graph, keeps_all=True)
    samples = list(samples_of(graph, inputs, seeds))

    def add(tallies: _WithTensors, sample: Values) -> None:
        expected, values = trace(graph, sample), execute(sample)
        for name in graph.outputs:
            size = values[name].size if name in values else 0
            if size != expected[name].size:
                raise ModelError(
                    f"the program was not made from this network: its output in the place of "
                    f"'{safe_terminal(name)}' has {counted(size, 'element')}, the network's "
                    f"{expected[name].size:,}",
                    where="--model",
                    hint="give the model file that the program was compiled from",
                )
        tallies.add_outputs(sample, values, expected)
        if layers is not None:
            tallies.add_layers(layers, {**sample, **expected})
            return
        inner = values.keys() - {*graph.outputs}
        for name in values if inner else ():
            if name in expected and expected[name].dtype.kind != "f":
                tally = tallies.tensors.setdefault(name, AgreementTally(1.0))
                tally.add(values[name], expected[name])

    finished = run_all(_WithTensors(graph), samples, add)
    progress("comparing with an outside runtime")
    finished.check_reference(outside_outputs(model, graph, samples[: finished.count]))
    judged = layers is not None
    rows = tuple(
        LayerAgreement(
            op.name,
            (op.kind,),
            op.origin,
            tally.equal / max(1, tally.elements),
            tally.close / max(1, tally.elements),
            round(tally.largest, 3),
            *((tally.near_share, tally.channel_near_share, tally.bias) if judged else ()),
        )
        for op in graph.ops
        for name in op.outputs
        if (tally := finished.tensors.get(name)) is not None
    )
    tensors = finished.tensors.values()
    elements = sum(tally.elements for tally in tensors)
    outputs = finished.agreements()
    verdict = judge(outputs, rows, Coverage(0, 0))
    worst = min(rows, key=lambda row: row.exact_share, default=None)
    return Validation(
        outputs=outputs,
        layers=rows,
        layers_exact_share=sum(t.equal for t in tensors) / elements if elements else 1.0,
        worst_op=worst.origin[0] if worst and worst.origin else None,
        saturated_share=0.0,
        reference=finished.outside(),
        seeds=finished.count,
        passed=verdict.holds,
        notes=notes,
        verdict=verdict,
        layers_compared=len(rows),
        layers_total=len(graph.ops) if rows else 0,
        not_compared=() if rows else tuple(op.name for op in graph.ops),
    )


class _WithTensors(OutputTallies):
    """Agreement of outputs and of integer tensors, by name."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.tensors: dict[str, AgreementTally] = {}

    def add_layers(self, layers: Layers, reference: Values) -> None:
        inside = steps_inside(self.graph, reference, reference)
        for layer in layers(reference):
            near = LAYER_LSB * max(1.0, inside.get(layer.tensor, 0.0))
            tally = self.tensors.setdefault(layer.tensor, AgreementTally(1.0, near))
            tally.add(layer.values, reference[layer.tensor])

    def snapshot(self) -> Self:
        clone = super().snapshot()
        clone.tensors = deepcopy(self.tensors)
        return clone
