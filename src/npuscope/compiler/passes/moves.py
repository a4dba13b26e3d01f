"""Ops that move nothing, padding that an op takes over, and Split as slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import cast

from npuscope.compiler.passes.base import Edits
from npuscope.graph.model import Graph, Numerics, Op
from npuscope.machine.model import Machine
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.moves import PadAttrs, SliceAttrs, SplitAttrs, TransposeAttrs

# Zero padding in front of a convolution or max pool becomes the op's own padding.


@dataclass(frozen=True, slots=True)
class AbsorbPad:
    name: str = "absorb-pad"

    def run(self, graph: Graph, machine: Machine) -> bool:
        if graph.numerics is Numerics.QDQ and not machine.generation.absorbs_qdq_pads:
            return False
        edits = Edits(graph)
        pairs = [(op, conv) for op in graph.ops if (conv := _absorber(edits, op))]
        for pad, conv in pairs:
            _absorb(edits, pad, conv)
        return edits.finish()


def _absorber(edits: Edits, op: Op) -> Op | None:
    """The convolution that is the only reader of a spatial zero padding."""
    if op.kind != "Pad":
        return None
    attrs = cast(PadAttrs, op.attrs)
    spatial = len(attrs.pads) == 4 and attrs.pads[0] == attrs.pads[3] == (0, 0)
    reader = edits.only_reader(op.outputs[0])
    if reader is None or not spatial or attrs.value != 0.0:
        return None
    graph = edits.graph
    same = graph.first_input(op).quant == graph.output_tensor(op).quant
    padded = reader.kind == "Conv2D" and reader.inputs[0] == op.outputs[0]
    return reader if padded and same else None


def _absorb(edits: Edits, pad: Op, conv: Op) -> None:
    (top, bottom), (left, right) = cast(PadAttrs, pad.attrs).pads[1:3]
    attrs = cast(ConvAttrs, conv.attrs)
    total = tuple(
        own + extra for own, extra in zip(attrs.pads, (top, left, bottom, right), strict=True)
    )
    inputs = (pad.inputs[0], *conv.inputs[1:])
    wider = replace(attrs, pads=cast(tuple[int, int, int, int], total))
    origin = (*pad.origin, *conv.origin)
    edits.replace(conv, conv.replace(inputs=inputs, attrs=wider, origin=origin))
    edits.remove(pad)


# Ops that move nothing: Identity, reshapes to the same shape, transposes that cancel.


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


# Split becomes one Slice an output: each is mapped for itself.


@dataclass(frozen=True, slots=True)
class SplitToSlices:
    name: str = "split-to-slices"

    def run(self, graph: Graph, machine: Machine) -> bool:
        before = graph.ops
        graph.ops = [part for op in before for part in _slices(graph, op)]
        return len(graph.ops) != len(before)


def _slices(graph: Graph, op: Op) -> list[Op]:
    if op.kind != "Split":
        return [op]
    attrs = op.attrs_as(SplitAttrs)
    starts = accumulate(attrs.sizes, initial=0)
    pairs = zip(op.outputs, starts, strict=False)
    return [_slice(graph, op, name, attrs.axis, start) for name, start in pairs]


def _slice(graph: Graph, op: Op, output: str, axis: int, start: int) -> Op:
    shape = graph.tensor(output).shape
    starts = tuple(start if place == axis else 0 for place in range(len(shape)))
    attrs = SliceAttrs(starts, shape, (1,) * len(shape))
    return Op("Slice", f"{op.name}.{output}", op.inputs[:1], (output,), attrs, op.origin)
