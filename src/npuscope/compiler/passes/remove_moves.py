"""Ops that move nothing: Identity, reshapes to the same shape, transposes that cancel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from npuscope.compiler.passes.base import bypass, only_reader, replace_op
from npuscope.graph.attrs import TransposeAttrs
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine


@dataclass(frozen=True, slots=True)
class RemoveMoves:
    name: str = "remove-moves"

    def run(self, graph: Graph, machine: Machine) -> bool:
        before = len(graph.ops)
        while any(_remove(graph, op) for op in graph.ops):
            pass  # what one removal brings together, the next may remove
        return len(graph.ops) < before


def _remove(graph: Graph, op: Op) -> bool:
    if op.outputs[0] in graph.outputs:
        return False
    return _drop_idle(graph, op) or _merge_reshape(graph, op) or _cancel_transpose(graph, op)


def _drop_idle(graph: Graph, op: Op) -> bool:
    source, target = graph.first_input(op), graph.output_tensor(op)
    idle = op.kind == "Identity" or (op.kind == "Reshape" and source.shape == target.shape)
    same = (source.quant, source.dtype) == (target.quant, target.dtype)
    if idle and same and not source.is_constant:
        bypass(graph, op)
        return True
    return False


def _merge_reshape(graph: Graph, op: Op) -> bool:
    """Of two reshapes in a row only the last one counts."""
    reader = only_reader(graph, op.outputs[0])
    if op.kind != "Reshape" or reader is None or reader.kind != "Reshape":
        return False
    if graph.first_input(op).quant != graph.output_tensor(op).quant:
        return False
    origin = (*op.origin, *reader.origin)
    replace_op(graph, reader, reader.replace(inputs=op.inputs, origin=origin))
    graph.ops.remove(op)
    graph.drop_unused()
    return True


def _cancel_transpose(graph: Graph, op: Op) -> bool:
    """A transpose and its inverse leave nothing behind."""
    reader = only_reader(graph, op.outputs[0])
    if op.kind != "Transpose" or reader is None or reader.kind != "Transpose":
        return False
    if reader.outputs[0] in graph.outputs:
        return False
    first = cast(TransposeAttrs, op.attrs).permutation
    second = cast(TransposeAttrs, reader.attrs).permutation
    if tuple(first[axis] for axis in second) != tuple(range(len(first))):
        return False
    tensors = graph.first_input(op), graph.output_tensor(op), graph.output_tensor(reader)
    if len({tensor.quant for tensor in tensors}) > 1:
        return False
    bypass(graph, reader)
    bypass(graph, op)
    return True
