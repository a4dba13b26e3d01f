"""What a pass is, and the edits passes share."""

from __future__ import annotations

from typing import Protocol

from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine


class Pass(Protocol):
    """Edits a graph; says whether it changed anything."""

    @property
    def name(self) -> str: ...

    def run(self, graph: Graph, machine: Machine) -> bool: ...


def replace_op(graph: Graph, old: Op, new: Op) -> None:
    graph.ops[graph.ops.index(old)] = new


def bypass(graph: Graph, op: Op) -> None:
    """Remove an op that passes its first input on; its readers read that input instead."""
    source, gone = op.inputs[0], op.outputs[0]
    graph.ops.remove(op)
    for reader in [other for other in graph.ops if gone in other.inputs]:
        inputs = tuple(source if name == gone else name for name in reader.inputs)
        replace_op(graph, reader, reader.replace(inputs=inputs))
    graph.drop_unused()


def only_reader(graph: Graph, tensor: str) -> Op | None:
    """The single op that reads a tensor which is not a graph output; else None."""
    readers = [op for op in graph.ops if tensor in op.inputs]
    return readers[0] if len(readers) == 1 and tensor not in graph.outputs else None
