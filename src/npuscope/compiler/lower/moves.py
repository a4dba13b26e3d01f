"""Concat, Slice, Split, Reshape, Transpose and Resize: views where the bytes stay, DMA where
channels move."""

from __future__ import annotations

from math import gcd, prod
from typing import cast

from npuscope.compiler.joining import root
from npuscope.compiler.lower.context import (
    Lowering,
    carrier,
    plane_shape,
    quant_pair,
    require_batch_one,
)
from npuscope.compiler.lower.scaling import moved, rescale
from npuscope.compiler.lower.software import call_stage, fall_back
from npuscope.compiler.stages import CallStage, CopyStage, Value
from npuscope.graph.model import Op
from npuscope.ops.images import BlockAttrs, DepthOrder
from npuscope.ops.moves import ConcatAttrs, SliceAttrs, TransposeAttrs
from npuscope.rulebook import refusals
from npuscope.rulebook.layout import resize_factor
from npuscope.structs import replace

# --- Concat, Slice and Split along the channels: DMA copies between windows of channels ---


def lower_concat(context: Lowering, op: Op) -> None:
    """Parts that are made in their place cost nothing; others are copied, and one of another
    scale goes through an ARITH unit on its way."""
    output = context.new_value(context.graph.output_tensor(op))
    in_place = context.machine.generation.concat_in_place
    trail = refusals(context.graph, op, context.machine)
    if trail:  # along another axis than the channels
        if not (in_place and _made_in_a_row(context, op, output)):
            fall_back(context, op, trail)
        return
    if not in_place and _copied_as_block(context, op, output):
        return
    if in_place:
        sizes = [context.value(name).channels for name in op.inputs]
        output = output.named(output.name, part=gcd(*sizes))
    apart = context.machine.generation.rescaled_parts_apart
    copied = []
    first = 0
    # The inputs; those that are all windows of one value, in their order, together.
    names_ahead, runs = list(op.inputs), list[list[str]]()
    while names_ahead:
        count = _windows_ahead(context, names_ahead)
        runs.append(names_ahead[:count])
        names_ahead = names_ahead[count:]
    for number, names in enumerate(runs):
        value = context.value(names[0])
        if len(names) > 1:
            value = context.result.views[value.name]
        # The stage that makes a part may write it straight into the whole.
        late = apart and any(r.kind == "Quantize" for name in names for r in context.readers[name])
        if in_place and not late and _can_move(context, op, names, value, output):
            _move_into(context, value, output, first)
            first += value.channels
            continue
        for name in names:
            part = context.operand(name, op.origin)
            copied.append(part.name)
            label = f"{output.name}.part{number}.{first}"
            target = window(context, output, label, first, part.channels)
            others = tuple(context.value(other).name for other in op.inputs) if late else ()
            _fill(context, op, part, target, f"{number}.{first}", others)
            first += part.channels
    if len(copied) == len(op.inputs):
        context.result.blocks.append(tuple(copied))
    context.define(op.outputs[0], output)


def _made_in_a_row(context: Lowering, op: Op, output: Value) -> bool:
    """Parts that follow each other in memory: every stage that makes one writes it there."""
    tensor, axis = context.graph.output_tensor(op), op.attrs_as(ConcatAttrs).axis
    # One that is channel-first in the file is copied by the CPU [board: two networks of 4.0.1].
    if tensor.source_shape is not None or any(size > 1 for size in tensor.shape[:axis]):
        return False
    parts = [root(context.result, context.value(name)) for name in op.inputs]
    distinct = len({part.name for part in parts}) == len(parts)
    whole = all(
        part.elements == context.graph.tensor(name).elements
        and _can_follow(context, context.value(name), part, output)
        for name, part in zip(op.inputs, parts, strict=True)
    )
    if not (distinct and whole):
        return False
    skip = 0
    for part in parts:
        context.result.views[part.name] = output
        context.relocate({part.name: part.named(part.name, skip=skip, tensor="")})
        skip += part.elements
    context.define(op.outputs[0], output)
    return True


def _can_follow(context: Lowering, view: Value, part: Value, output: Value) -> bool:
    """It is made by the NPU, byte behind byte, and nobody else reads it."""
    same = view.signed == output.signed and quant_pair(view) == quant_pair(output)
    plain = all(not one.pitch and one.stored_batch == one.channels for one in (view, part))
    if not (same and plain) or part.nbits != 8 or part.name in context.graph.inputs:
        return False
    names = [part.name]
    for name in names:  # it grows: views of views
        names += context.result.views.of.get(name, [])
    tensors = [tensor for name in names for tensor in context.carried.get(name, [])]
    if any(name in context.graph.outputs or len(context.readers[name]) > 1 for name in tensors):
        return False
    places = {place for name in names for place in context.users.get(name, [])}
    stages = [context.result.stages[place] for place in places]
    makers = [stage for stage in stages if stage.output.name == part.name]
    return len(makers) == len(stages) > 0 and not isinstance(makers[0], CallStage)


def _copied_as_block(context: Lowering, op: Op, output: Value) -> bool:
    """Equal parts that can be made side by side: one copy brings their channels together."""
    parts = [context.value(name) for name in op.inputs]
    channels = parts[0].channels
    block = output.named(f"{output.name}.block", batch=channels, tensor="")
    names = dict.fromkeys(part.name for part in parts)
    equal = len(names) == len(parts) > 1 and all(part.channels == channels for part in parts)
    if not equal or not all(
        _can_move(context, op, [name], part, block)
        for name, part in zip(op.inputs, parts, strict=True)
    ):
        return False
    for number, part in enumerate(parts):
        _move_into(context, part, block, number * channels)
    context.emit(CopyStage(f"{op.name}.copy", op.kind, (block,), output, op.origin))
    context.define(op.outputs[0], output)
    return True


def _windows_ahead(context: Lowering, names: list[str]) -> int:
    """How many of the first inputs make up a whole value, else 1."""
    parent = context.result.views.get(context.value(names[0]).name)
    if parent is None or parent.pitch:
        return 1
    covered = 0
    for count, name in enumerate(names, 1):
        value = context.value(name)
        if context.result.views.get(value.name) != parent or value.first != covered:
            return 1
        covered += value.channels
        if not value.pitch or covered == parent.channels:
            return count if value.pitch else 1
    return 1


def _can_move(context: Lowering, op: Op, names: list[str], value: Value, output: Value) -> bool:
    result = context.result
    if op.inputs.count(names[0]) > 1:
        return False
    same = value.signed == output.signed and quant_pair(value) == quant_pair(output)
    whole = not value.pitch and value.stored_batch == value.channels and value.nbits == 8
    if not (same and whole) or value.name in result.views:
        return False
    if any(name in context.graph.outputs for name in (*names, value.tensor)):
        return False
    windows = _with_windows(context, value)
    if any(not one.pitch for one in windows.values() if one != value):
        return False  # its bytes have another name: a reshape, planes
    places = [place for name in windows for place in context.users.get(name, [])]
    users = [result.stages[place] for place in places]
    produced = any(stage.output == value for stage in users)
    return produced and not any(isinstance(stage, CallStage) for stage in users)


def _with_windows(context: Lowering, value: Value) -> dict[str, Value]:
    """The value and all that show its bytes, by name; a name that nobody reads or carries any
    more says nothing about the layout."""
    windows = {value.name: value}
    for name in context.result.views.of.get(value.name, []):
        stages = [context.result.stages[place] for place in context.users.get(name, [])]
        holders = [one for stage in stages for one in (*stage.inputs, stage.output)]
        holders += [context.values[tensor] for tensor in context.carried.get(name, [])]
        windows.update((one.name, one) for one in holders if one.name == name)
    return windows


def _move_into(context: Lowering, value: Value, output: Value, first: int) -> None:
    """Let every stage that makes or reads the value do so in its window of the output."""
    moved_to = {
        name: one.named(name, pitch=output.stored_batch, first=first + one.first, tensor="")
        for name, one in _with_windows(context, value).items()
    }
    context.result.views[value.name] = output
    context.relocate(moved_to)


def window(context: Lowering, parent: Value, name: str, first: int, channels: int) -> Value:
    """Some channels of a channel-last value, as a value of their own."""
    part = parent.named(
        name,
        shape=(*parent.shape[:2], channels),
        pitch=parent.stored_batch,
        first=parent.first + first,
        skip=parent.skip,
        tensor="",
    )
    context.result.views[name] = parent
    return part


def _fill(
    context: Lowering, op: Op, part: Value, target: Value, number: str, waits: tuple[str, ...]
) -> None:
    name = f"{op.name}.copy{number}"
    if quant_pair(part) == quant_pair(target) and part.signed == target.signed:
        context.emit(CopyStage(name, op.kind, (part,), target, op.origin, waits=waits))
        return
    rescale(context, name, part, target, op.origin)


def copy_channels(context: Lowering, op: Op, name: str, first: int, channels: int) -> None:
    """Define the tensor `name` as a copy of some channels of the op's first input."""
    source = context.value(op.inputs[0])
    part = window(context, source, f"{name}.window", first, channels)
    output = context.new_value(context.graph.tensor(name))
    same = quant_pair(output) == quant_pair(source) and output.signed == source.signed
    in_place = context.machine.generation.concat_in_place
    if same and in_place and source.stored_batch in (source.channels, source.pitch):
        context.define(name, part)
        return
    target = output.named(
        output.name if same else f"{name}.slice",
        shape=part.shape,
        signed=source.signed,
        quant=source.quant,
        tensor=name if same else "",
    )
    stage = CopyStage(f"{op.name}.{name}", op.kind, (part,), target, op.origin)
    context.define(name, moved(context, op, context.emit(stage)))


def lower_slice(context: Lowering, op: Op) -> None:
    """Some channels of every pixel, by DMA, or rows; other cuts by the CPU."""
    attrs = op.attrs_as(SliceAttrs)
    shape = context.graph.first_input(op).shape
    if attrs.sizes[:-1] != shape[:-1]:  # rows that are read where they lie
        source = context.gathered(context.value(op.inputs[0]), op.origin)
        tensor = context.graph.output_tensor(op)
        row = next(axis for axis, size in enumerate(attrs.sizes) if size != shape[axis])
        skip = source.skip + attrs.starts[row] * prod(shape[row + 1 :])
        rows = replace(carrier(source, tensor), shape=plane_shape(tensor.shape), skip=skip)
        context.result.views[rows.name] = source
        context.define(op.outputs[0], moved(context, op, replace(rows, tensor="")))
        return
    copy_channels(context, op, op.outputs[0], attrs.starts[-1], attrs.sizes[-1])


# --- Reshape and Transpose: views where the bytes stay, DMA where channels move ---

_TO_CHANNEL_LAST = (0, 2, 3, 1)


def lower_view(context: Lowering, op: Op) -> None:
    """Same bytes, other shape (or none: Identity)."""
    define_view(context, op, context.value(op.inputs[0]))


def define_view(context: Lowering, op: Op, source: Value) -> None:
    """The bytes under the output's shape; a change of scale on the way is computed first."""
    tensor = context.graph.output_tensor(op)
    source = context.gathered(moved(context, op, source), op.origin)
    view = replace(carrier(source, tensor), shape=plane_shape(tensor.shape), batch=0)
    if view.shape == source.shape and source.stored_batch == source.channels:
        view = source
    else:
        context.result.views[view.name] = source
    context.define(op.outputs[0], view)


def lower_transpose(context: Lowering, op: Op) -> None:
    """Between channel-first and channel-last by DMA."""
    tensor, target = context.graph.first_input(op), context.graph.output_tensor(op)
    permutation = cast(TransposeAttrs, op.attrs).permutation
    # Whether only axes of size 1 move.
    wide_axes = [axis for axis in permutation if tensor.shape[axis] != 1]
    if wide_axes == sorted(wide_axes):
        define_view(context, op, context.value(op.inputs[0]))
    elif permutation == _TO_CHANNEL_LAST:
        # NCHW bytes, seen as (H, W, C) with one channel stored at a time, to channel-last.
        value = context.gathered(moved(context, op, context.value(op.inputs[0])), op.origin)
        planes = _planes(context, value, f"{op.inputs[0]}.planes", target.shape)
        output = replace(carrier(planes, context.graph.output_tensor(op)), batch=0)
        stage = CopyStage(op.name, "Identity", (planes,), output, op.origin)
        context.define(op.outputs[0], context.emit(stage))
    else:
        # Channel-last to NCHW bytes: copy plane by plane, then name the bytes by their shape.
        source = moved(context, op, context.value(op.inputs[0]))
        planes = source.named(f"{op.outputs[0]}.planes", batch=1, tensor="", pitch=0, first=0)
        context.emit(CopyStage(op.name, "Identity", (source,), planes, op.origin))
        define_view(context, op, planes)


def _planes(context: Lowering, value: Value, name: str, shape: tuple[int, ...]) -> Value:
    """Planes that a copy out has made are taken as they are."""
    viewed = context.result.views.get(value.name)
    if viewed is not None and viewed.name == name:
        return viewed
    planes = value.named(name, shape=plane_shape(shape), batch=1, tensor="", skip=value.skip)
    context.result.views[planes.name] = value
    return planes


def channel_copy(context: Lowering, value: Value, batch: int, origin: tuple[str, ...]) -> Value:
    """A copy with `batch` channels stored at a time, for all kernels that read so many."""
    name = f"{value.name}.of{batch}.cp"
    if name not in context.shifted:
        output = value.named(name, batch=batch, tensor="", pitch=0, first=0)
        stage = CopyStage(f"{name}.identity", "Identity", (value,), output, origin)
        context.shifted[name] = context.emit(stage)
    return context.shifted[name]


# --- Resize: nearest by whole factors is replication and depth-to-space; the rest runs on the CPU
# ---


def lower_resize(context: Lowering, op: Op) -> None:
    """C channels are written r*r times side by side, then moved into r x r pixels."""
    trail = refusals(context.graph, op, context.machine)
    factor = resize_factor(context.graph, op)
    if any(refused.way == "NPU+CPU" for refused in trail) or factor is None:
        fall_back(context, op, trail)
        return
    require_batch_one(context.graph.first_input(op), op)
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
