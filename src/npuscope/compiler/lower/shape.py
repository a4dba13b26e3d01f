"""Reshape and Transpose: views where the bytes stay, DMA where channels move."""

from __future__ import annotations

from typing import cast

from npuscope.compiler.lower.context import Context, plane_shape
from npuscope.compiler.lower.rescale import moved
from npuscope.compiler.stages import CopyStage, Value
from npuscope.graph.model import Op, Tensor
from npuscope.ops.moves import TransposeAttrs

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
    """Only axes of size 1 change places."""
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
