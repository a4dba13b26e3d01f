"""Resize: nearest by whole factors is replication and depth-to-space; all else on the CPU."""

from __future__ import annotations

from npuscope.compiler.lower.context import Context
from npuscope.compiler.lower.rescale import moved
from npuscope.compiler.lower.software import call_stage, fall_back
from npuscope.compiler.stages import CopyStage
from npuscope.graph.model import Op
from npuscope.ops.images import BlockAttrs, DepthOrder
from npuscope.rules import refusals
from npuscope.rules.layout import resize_factor


def lower_resize(context: Context, op: Op) -> None:
    """C channels are written r*r times side by side, then moved into r x r pixels."""
    trail = refusals(context.graph, op, context.machine)
    factor = resize_factor(context.graph, op)
    if any(refused.way == "NPU+CPU" for refused in trail) or factor is None:
        fall_back(context, op, trail)
        return
    source = context.signed(context.value(op.inputs[0]), op.origin)
    height, width, channels = source.shape
    copies = factor * factor
    deep = source.named(
        f"{op.outputs[0]}.copies",
        shape=(height, width, channels * copies),
        tensor="",
        batch=0,
        pitch=0,
        first=0,
    )
    stage = CopyStage(f"{op.name}.copies", "Resize", (source,), deep, op.origin, repeats=copies)
    context.emit(stage)
    output = context.new_value(context.graph.output_tensor(op))
    wide = output.named(f"{output.name}.wide", quant=source.quant, tensor="")
    if output.quant == source.quant:
        wide = output
    attrs = BlockAttrs(factor, DepthOrder.DCR)
    context.emit(call_stage(context, op, "DepthToSpace", attrs, deep, wide, trail, hybrid=True))
    context.define(op.outputs[0], moved(context, op, wide))
