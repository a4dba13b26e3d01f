"""Concat, Slice, Split, Reshape, Transpose, Pad and Resize: views where the bytes stay, DMA where
channels move."""

from __future__ import annotations

from typing import cast

import numpy as np

from npuscope.compiler.lower.context import Context, moved, plane_shape, quant_pair, rescale
from npuscope.compiler.lower.software import call_stage, fall_back
from npuscope.compiler.stages import ConvMode, ConvStage, CopyStage, Tiling, Value
from npuscope.graph.model import Op, Tensor
from npuscope.ops.images import BlockAttrs, DepthOrder
from npuscope.ops.moves import PadAttrs, SliceAttrs, TransposeAttrs
from npuscope.program.modes import Simd
from npuscope.rulebook import refusals
from npuscope.rulebook.layout import resize_factor

# --- Concat, Slice and Split along the channels: DMA copies between windows of channels ---


def lower_concat(context: Context, op: Op) -> None:
    """One copy per part; a part with another scale goes through an ARITH unit on the way."""
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


# --- Reshape and Transpose: views where the bytes stay, DMA where channels move ---

_TO_CHANNEL_LAST = (0, 2, 3, 1)


def lower_view(context: Context, op: Op) -> None:
    """Same bytes, other shape (or none: Identity)."""
    define_view(context, op, context.value(op.inputs[0]))


def define_view(context: Context, op: Op, source: Value) -> None:
    """The bytes under the output's shape; a change of scale on the way is computed first."""
    tensor = context.graph.output_tensor(op)
    source = moved(context, op, source)
    view = source.named(tensor.name, shape=plane_shape(tensor.shape), tensor=tensor.name, batch=0)
    if view.shape == source.shape and source.stored_batch == source.channels:
        view = source
    else:
        context.result.views[view.name] = source
    context.define(op.outputs[0], view)


def lower_transpose(context: Context, op: Op) -> None:
    """Between channel-first and channel-last by DMA."""
    tensor, target = context.graph.first_input(op), context.graph.output_tensor(op)
    permutation = cast(TransposeAttrs, op.attrs).permutation
    if _moves_nothing(tensor, permutation):
        define_view(context, op, context.value(op.inputs[0]))
    elif permutation == _TO_CHANNEL_LAST:
        _copy_in(context, op, target.shape)
    else:
        _copy_out(context, op)


def _moves_nothing(tensor: Tensor, permutation: tuple[int, ...]) -> bool:
    """True if only axes of size 1 move."""
    kept = [axis for axis in permutation if tensor.shape[axis] != 1]
    return kept == sorted(kept)


def _copy_in(context: Context, op: Op, shape: tuple[int, ...]) -> None:
    """NCHW bytes, seen as (H, W, C) with one channel stored at a time, to channel-last."""
    value = moved(context, op, context.value(op.inputs[0]))
    planes = _planes(context, value, f"{op.inputs[0]}.planes", shape)
    output = planes.named(op.outputs[0], tensor=op.outputs[0], batch=0)
    stage = CopyStage(op.name, "Identity", (planes,), output, op.origin)
    context.define(op.outputs[0], context.emit(stage))


def _planes(context: Context, value: Value, name: str, shape: tuple[int, ...]) -> Value:
    """Planes that a copy out has made are taken as they are."""
    made = context.result.views.get(value.name)
    if made is not None and made.name == name:
        return made
    planes = value.named(name, shape=plane_shape(shape), batch=1, tensor="")
    context.result.views[planes.name] = value
    return planes


def _copy_out(context: Context, op: Op) -> None:
    """Channel-last to NCHW bytes: copy plane by plane, then name the bytes by their shape."""
    source = moved(context, op, context.value(op.inputs[0]))
    planes = source.named(f"{op.outputs[0]}.planes", batch=1, tensor="", pitch=0, first=0)
    context.emit(CopyStage(op.name, "Identity", (source,), planes, op.origin))
    define_view(context, op, planes)


def channel_first_copy(context: Context, value: Value, origin: tuple[str, ...]) -> Value:
    """A copy with one channel stored at a time, for kernels that read single channels."""
    output = value.named(f"{value.name}.cp", batch=1, tensor="")
    return context.emit(CopyStage(f"{value.name}.identity", "Identity", (value,), output, origin))


# --- Pad of a map: an identity convolution whose padding holds the fill value ---


def lower_pad(context: Context, op: Op) -> None:
    """One channel per frame through a kernel of 1."""
    attrs = op.attrs_as(PadAttrs)
    source = context.signed(context.value(op.inputs[0]), op.origin)
    output = context.new_value(context.graph.output_tensor(op))
    if output.quant != source.quant:
        output = output.named(f"{output.name}.padded", quant=source.quant, tensor="")
    scale, zero = quant_pair(source)
    (top, bottom), (left, right) = attrs.pads[1:3]
    channels = source.channels
    stage = ConvStage(
        op.name,
        "Conv",
        (source,),
        output,
        op.origin,
        tiling=Tiling(ConvMode.DEPTHWISE, 1, 1, 1, 1, channels),
        weights=np.ones(channels, np.int8),
        window=(1, 1),
        strides=(1, 1),
        pads=(top, left, bottom, right),
        simd=Simd.S8X8,
        zfbias=int(np.clip(zero + round(attrs.value / scale), -128, 127)),
        shift_o=0,
    )
    context.define(op.outputs[0], moved(context, op, context.emit(stage)))


# --- Resize: nearest by whole factors is replication and depth-to-space; the rest runs on the CPU
# ---


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
