"""Zero padding in front of a convolution or max pool becomes the op's own padding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from npuscope.compiler.passes.base import Edits
from npuscope.graph.model import Graph, Numerics, Op
from npuscope.machine.model import Machine
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.moves import PadAttrs


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
