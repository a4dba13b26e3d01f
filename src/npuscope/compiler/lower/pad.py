"""Pad of a map: an identity convolution whose padding holds the fill value."""

from __future__ import annotations

import numpy as np

from npuscope.compiler.lower.context import Lowering, quant_pair, require_batch_one
from npuscope.compiler.lower.scaling import moved
from npuscope.compiler.lower.software import call_stage, fall_back
from npuscope.compiler.stages import ConvStage, CopyStage, Value
from npuscope.geometry.tiling import ConvMode, Tiling
from npuscope.graph.model import Op
from npuscope.ops.moves import PadAttrs, TransposeAttrs
from npuscope.program.model import Refused
from npuscope.program.modes import Simd
from npuscope.rulebook import refusals
from npuscope.rulebook.queries import is_npu_tensor
from npuscope.structs import replace


def lower_pad(context: Lowering, op: Op) -> None:
    """One channel per frame through a kernel of 1."""
    attrs = op.attrs_as(PadAttrs)
    trail = refusals(context.graph, op, context.machine)
    if trail and not _pads_channels(context, op):
        fall_back(context, op, trail)
        return
    if trail:
        _pad_channels(context, op, trail)
        return
    require_batch_one(context.graph.first_input(op), op)
    source = context.signed(context.value(op.inputs[0]), op.origin)
    output = context.new_value(context.graph.output_tensor(op))
    if output.quant != source.quant:
        output = output.named(f"{output.name}.padded", quant=source.quant, tensor="")
    scale, zero = quant_pair(source)
    (top, bottom), (left, right) = attrs.pads[1:3]
    fill = int(np.clip(zero + round(attrs.value / scale), -128, 127))
    stage = pad_stage(op.name, source, output, (top, left, bottom, right), fill, op.origin)
    context.define(op.outputs[0], moved(context, op, context.emit(stage)))


def _pads_channels(context: Lowering, op: Op) -> bool:
    """Channels of one map alone; zeros in front of a depth-to-space are written by its own call."""
    tensor, pads = context.graph.first_input(op), op.attrs_as(PadAttrs).pads
    one_map = len(pads) == 4 and tensor.shape[0] == 1
    plain = is_npu_tensor(tensor) and one_map and not any(map(any, pads[:3]))
    spread = [reader.kind for reader in context.readers[op.outputs[0]]] == ["DepthToSpace"]
    return plain and context.machine.generation.pads_by_transposes and not spread


def _pad_channels(context: Lowering, op: Op, trail: tuple[Refused, ...]) -> None:
    """(H, W, C) as (C, W, H), where channels are rows that a unit can pad; it leaves planes
    (H, C, W), which become (C, H, W) and are copied to channel-last."""
    before, after = op.attrs_as(PadAttrs).pads[3]
    source = context.operand(op.inputs[0], op.origin, gathered=True)
    output = context.new_value(context.graph.output_tensor(op))
    scale, zero = quant_pair(source)
    height, width, channels = source.shape
    total = channels + before + after

    def part(name: str, shape: tuple[int, int, int], batch: int = 0) -> Value:
        return source.named(f"{op.outputs[0]}.{name}", shape=shape, tensor="", batch=batch)

    def transposed(name: str, value: Value, target: Value, order: tuple[int, ...]) -> Value:
        attrs = TransposeAttrs(order)
        stage = call_stage(context, op, "Transpose", attrs, value, target, trail, hybrid=True)
        return context.emit(replace(stage, name=f"{op.name}.{name}"))

    rows = transposed("turn", source, part("turned", (channels, width, height)), (0, 3, 2, 1))
    padded = part("padded", (total, width, height), 1)
    fill = int(np.clip(zero + round(op.attrs_as(PadAttrs).value / scale), -128, 127))
    context.emit(pad_stage(op.name, rows, padded, (before, 0, after, 0), fill, op.origin))
    turned = part("planes", (height, total, width))
    context.result.views[turned.name] = padded
    first = transposed("back", turned, part("first", (total, height, width)), (0, 2, 1, 3))
    planes = part("first.planes", (height, width, total), 1)
    context.result.views[planes.name] = first
    wide = output.named(output.name, shape=planes.shape, quant=source.quant)
    if quant_pair(source) != quant_pair(output):
        wide = wide.named(f"{output.name}.wide", tensor="")
    context.emit(CopyStage(f"{op.name}.last", "Identity", (planes,), wide, op.origin))
    context.define(op.outputs[0], moved(context, op, wide))


def pad_stage(
    name: str,
    source: Value,
    output: Value,
    pads: tuple[int, int, int, int],
    fill: int,
    origin: tuple[str, ...],
) -> ConvStage:
    """`pads` are top, left, bottom, right."""
    channels = source.channels
    return ConvStage(
        name,
        "Conv",
        (source,),
        output,
        origin,
        tiling=Tiling(ConvMode.DEPTHWISE, 1, 1, 1, 1, channels),
        weights=np.ones(channels, np.int8),
        window=(1, 1),
        strides=(1, 1),
        pads=pads,
        simd=Simd.S8X8,
        zfbias=fill,
        shift_o=0,
    )
