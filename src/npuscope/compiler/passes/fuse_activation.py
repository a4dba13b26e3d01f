"""A clamp behind an op of the same scale becomes the op's own activation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import cast

from npuscope.compiler.passes.base import Edits
from npuscope.graph.model import Activation, Graph, Op
from npuscope.machine.model import Machine
from npuscope.ops.functions import ClipAttrs

_FUSING = ("Conv2D", "FullyConnected", "Add", "Sub", "Mul")
_CLAMPS = {
    (0.0, inf): Activation.RELU,
    (0.0, 6.0): Activation.RELU6,
    (-1.0, 1.0): Activation.RELU_N1_TO_1,
}


@dataclass(frozen=True, slots=True)
class FuseActivation:
    name: str = "fuse-activation"

    def run(self, graph: Graph, machine: Machine) -> bool:
        edits = Edits(graph)
        pairs = [(op, clip) for op in graph.ops if (clip := _fusable(edits, op))]
        for op, clip in pairs:
            _fuse(edits, op, clip)
        return edits.finish()


def _fusable(edits: Edits, op: Op) -> Op | None:
    """The clamp that is the only reader and keeps the scale (else it would round twice)."""
    if op.kind not in _FUSING or getattr(op.attrs, "activation", None) is not Activation.NONE:
        return None
    clip = edits.only_reader(op.outputs[0])
    if clip is None or clip.kind != "Clip" or _clamp(clip) is None:
        return None
    before, after = edits.graph.output_tensor(op), edits.graph.output_tensor(clip)
    return clip if (before.quant, before.dtype) == (after.quant, after.dtype) else None


def _clamp(clip: Op) -> Activation | None:
    attrs = cast(ClipAttrs, clip.attrs)
    return _CLAMPS.get((attrs.low, attrs.high))


def _fuse(edits: Edits, op: Op, clip: Op) -> None:
    attrs = replace(op.attrs, activation=_clamp(clip))  # type: ignore[call-arg]
    fused = op.replace(attrs=attrs, outputs=clip.outputs, origin=(*op.origin, *clip.origin))
    edits.replace(op, fused)
    edits.remove(clip)
