"""Concat, Slice and Split along the channels: copies by DMA between windows of channels."""

from __future__ import annotations

from npuscope.compiler.lower.context import Context, quant_pair
from npuscope.compiler.lower.rescale import moved, rescale
from npuscope.compiler.stages import CopyStage, Value
from npuscope.graph.model import Op
from npuscope.ops.moves import SliceAttrs


def lower_concat(context: Context, op: Op) -> None:
    """One copy a part; a part of another scale goes through an ARITH unit on its way."""
    output = context.new_value(context.graph.output_tensor(op))
    parts = [context.operand(name, op.origin) for name in op.inputs]
    first = 0
    for number, part in enumerate(parts):
        target = window(context, output, f"{output.name}.part{number}", first, part.channels)
        _fill(context, op, part, target, number)
        first += part.channels
    context.result.blocks.append(tuple(part.name for part in parts))
    context.define(op.outputs[0], output)


def window(context: Context, parent: Value, name: str, first: int, channels: int) -> Value:
    """Some channels of a channel-last value, as a value of their own."""
    seen = parent.named(
        name,
        shape=(*parent.shape[:2], channels),
        pitch=parent.stored_batch,
        first=parent.first + first,
        tensor="",
    )
    context.result.views[name] = parent
    return seen


def _fill(context: Context, op: Op, part: Value, target: Value, number: int) -> None:
    name = f"{op.name}.copy{number}"
    if quant_pair(part) == quant_pair(target) and part.signed == target.signed:
        context.emit(CopyStage(name, op.kind, (part,), target, op.origin))
        return
    rescale(context, name, part, target, op.origin)


def copy_channels(context: Context, op: Op, name: str, first: int, channels: int) -> None:
    """Define the tensor `name` as a copy of some channels of the op's first input."""
    source = context.value(op.inputs[0])
    part = window(context, source, f"{name}.window", first, channels)
    output = context.new_value(context.graph.tensor(name))
    same = quant_pair(output) == quant_pair(source) and output.signed == source.signed
    target = output.named(
        output.name if same else f"{name}.slice",
        shape=part.shape,
        signed=source.signed,
        quant=source.quant,
        tensor=name if same else "",
    )
    stage = CopyStage(f"{op.name}.{name}", op.kind, (part,), target, op.origin)
    context.define(name, moved(context, op, context.emit(stage)))


def lower_slice(context: Context, op: Op) -> None:
    """Some channels of every pixel, by DMA; other cuts by the CPU."""
    attrs = op.attrs_as(SliceAttrs)
    copy_channels(context, op, op.outputs[0], attrs.starts[-1], attrs.sizes[-1])
