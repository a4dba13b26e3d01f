"""Compute once what does not depend on the input."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuscope.errors import ModelError
from npuscope.graph.limits import Computed
from npuscope.graph.model import Graph, Op, Tensor
from npuscope.machine.model import Machine
from npuscope.ops.run import run


@dataclass(frozen=True, slots=True)
class FoldConstants:
    name: str = "fold-constants"

    def run(self, graph: Graph, machine: Machine) -> bool:
        given = sum(t.size_bytes for t in graph.tensors.values() if t.is_constant)
        computed, left = Computed(given), list[Op]()
        for op in graph.ops:  # in order, so that a chain folds from its beginning
            if _is_constant(graph, op):
                _fold(graph, op, computed)
            else:
                left.append(op)
        changed = len(left) < len(graph.ops)
        graph.ops = left
        return changed


def _is_constant(graph: Graph, op: Op) -> bool:
    inputs = [graph.tensor(name) for name in op.inputs if name]
    return bool(inputs) and all(tensor.is_constant for tensor in inputs)


def _fold(graph: Graph, op: Op, computed: Computed) -> None:
    for name in op.outputs:
        _check(graph.tensor(name), op, computed)
    names = [name for name in op.inputs if name] + list(op.outputs)
    tensors = [graph.tensor(name) for name in names]
    alone = Graph(op.name, tensors, [op], (), op.outputs, graph.numerics)
    results = run(alone, {})
    for name in op.outputs:
        graph.tensors[name] = replace(graph.tensor(name), data=results[name])


def _check(tensor: Tensor, op: Op, computed: Computed) -> None:
    try:
        computed.check(tensor.shape, tensor.dtype.numpy.itemsize)
    except ModelError as error:
        error.where = op.name
        raise
    computed.take(tensor.elements * tensor.dtype.numpy.itemsize)
