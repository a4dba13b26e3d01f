"""Compute once what does not depend on the input."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuscope.graph.model import Graph, Op
from npuscope.graph.run import run
from npuscope.machine.model import Machine


@dataclass(frozen=True, slots=True)
class FoldConstants:
    name: str = "fold-constants"

    def run(self, graph: Graph, machine: Machine) -> bool:
        before = len(graph.ops)
        for op in list(graph.ops):  # in order, so that a chain folds from its beginning
            if _is_constant(graph, op):
                _fold(graph, op)
        return len(graph.ops) < before


def _is_constant(graph: Graph, op: Op) -> bool:
    inputs = [graph.tensor(name) for name in op.inputs if name]
    return bool(inputs) and all(tensor.is_constant for tensor in inputs)


def _fold(graph: Graph, op: Op) -> None:
    names = [name for name in op.inputs if name] + list(op.outputs)
    tensors = [graph.tensor(name) for name in names]
    alone = Graph(op.name, tensors, [op], (), op.outputs, graph.numerics)
    results = run(alone, {})
    for name in op.outputs:
        graph.tensors[name] = replace(graph.tensor(name), data=results[name])
    graph.ops.remove(op)
