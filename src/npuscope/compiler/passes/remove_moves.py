"""Ops that move nothing: Identity, reshapes to the same shape, transposes that cancel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from npuscope.compiler.passes.base import Edits
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.ops.moves import TransposeAttrs


@dataclass(frozen=True, slots=True)
class RemoveMoves:
    name: str = "remove-moves"

    def run(self, graph: Graph, machine: Machine) -> bool:
        edits, outputs = Edits(graph), set(graph.outputs)
        makers = {name: edits.place(op) for op in graph.ops for name in op.outputs}
        place = 0
        while place < len(edits.slots):
            op = edits.slots[place]
            if op is not None and op.outputs[0] not in outputs and _remove(edits, op):
                # what one removal brings together, the next may remove
                place = min(place, makers.get(op.inputs[0], place))
            else:
                place += 1
        return edits.finish()


def _remove(edits: Edits, op: Op) -> bool:
    return _drop_idle(edits, op) or _merge_reshape(edits, op) or _cancel_transpose(edits, op)


def _drop_idle(edits: Edits, op: Op) -> bool:
    graph = edits.graph
    source, target = graph.first_input(op), graph.output_tensor(op)
    idle = op.kind == "Identity" or (op.kind == "Reshape" and source.shape == target.shape)
    same = (source.quant, source.dtype) == (target.quant, target.dtype)
    if idle and same and not source.is_constant:
        edits.bypass(op)
        return True
    return False


def _merge_reshape(edits: Edits, op: Op) -> bool:
    """Of two reshapes in a row only the last one counts."""
    graph, reader = edits.graph, edits.only_reader(op.outputs[0])
    if op.kind != "Reshape" or reader is None or reader.kind != "Reshape":
        return False
    if graph.first_input(op).quant != graph.output_tensor(op).quant:
        return False
    origin = (*op.origin, *reader.origin)
    edits.replace(reader, reader.replace(inputs=op.inputs, origin=origin))
    edits.remove(op)
    return True


def _cancel_transpose(edits: Edits, op: Op) -> bool:
    """A transpose and its inverse leave nothing behind."""
    graph, reader = edits.graph, edits.only_reader(op.outputs[0])
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
    edits.bypass(reader)
    edits.bypass(op)
    return True
