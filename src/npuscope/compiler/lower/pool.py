"""Pools on the POOL units, and the stages behind a convolution: 16-bit sums to the output's scale
and zero point."""

from __future__ import annotations

from typing import cast

import numpy as np
from msgspec import Struct

from npuscope.compiler.lower.context import ZERO, Lowering, quant_pair, require_batch_one
from npuscope.compiler.lower.scaling import (
    affine_stage,
    clamp_range,
    emit_activated,
    moved,
    rescale,
)
from npuscope.compiler.numbers import (
    Affine,
    LayerScaling,
    average_multiplier,
    int16,
    norm,
    requantize_one_stage,
    requantize_per_channel,
    requantize_two_stage,
    requantize_value,
)
from npuscope.compiler.stages import ArithStage, PoolKind, PoolStage, Value
from npuscope.geometry.tiling import pool_limit
from npuscope.graph.model import Activation, Op
from npuscope.machine.npu_ops import support
from npuscope.ops.reduce import PoolAttrs
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.rulebook import refusals
from npuscope.rulebook.pool import covers_the_map

# --- MaxPool, AveragePool and Mean on the POOL units ---

FRACTION_BITS = 8  # an average leaves the unit with 8 bits below its LSB


def lower_max_pool(context: Lowering, op: Op) -> None:
    attrs = cast(PoolAttrs, op.attrs)
    require_batch_one(context.graph.first_input(op), op)
    source = context.signed(context.value(op.inputs[0]), op.origin)
    target = context.new_value(context.graph.output_tensor(op))
    clip = clamp_range(attrs.activation, target)
    largest = target
    if clip is not None or target.quant != source.quant:
        largest = target.named(f"{target.name}.max", quant=source.quant, signed=True, tensor="")
    stage = PoolStage(
        op.name,
        "MaxPool",
        (source,),
        largest,
        op.origin,
        kind=PoolKind.MAX,
        window=attrs.window,
        strides=attrs.strides,
        pads=attrs.pads,
    )
    largest = context.emit(stage)
    if clip is None:
        context.define(op.outputs[0], moved(context, op, largest))
        return
    name = f"{op.name}.clamp"
    context.define(op.outputs[0], rescale(context, name, largest, target, op.origin, clip))


def lower_average_pool(context: Lowering, op: Op) -> None:
    """A windowed average, or a global one when the window covers the map."""
    attrs = cast(PoolAttrs, op.attrs)
    if covers_the_map(context.graph, op):
        _average(context, op, PoolKind.GLOBAL_AVERAGE, attrs.window, (1, 1))
    else:
        _average(context, op, PoolKind.AVERAGE, attrs.window, attrs.strides)


def lower_mean(context: Lowering, op: Op) -> None:
    size = context.value(op.inputs[0]).shape[:2]
    _average(context, op, PoolKind.GLOBAL_AVERAGE, size, (1, 1))


def _average(
    context: Lowering,
    op: Op,
    kind: PoolKind,
    window: tuple[int, int],
    strides: tuple[int, int],
) -> None:
    """POOL gives the mean with 8 fraction bits; an ARITH stage rounds and rescales it."""
    require_batch_one(context.graph.first_input(op), op)
    source = context.signed(context.value(op.inputs[0]), op.origin)
    target = context.new_value(context.graph.output_tensor(op))
    clip = clamp_range(getattr(op.attrs, "activation", Activation.NONE), target)
    keeps_scale = quant_pair(source) == quant_pair(target) and clip is None
    fraction = 0 if keeps_scale else FRACTION_BITS
    mulval, shift = average_multiplier(window[0] * window[1])
    mean = target.named(
        f"{op.outputs[0]}.mean",
        shape=_pooled(source, kind, window, strides),
        nbits=8 if keeps_scale else 16,
        signed=True,
        tensor="",
    )
    context.emit(
        PoolStage(
            op.name,
            "AveragePool",
            (source,),
            mean,
            op.origin,
            kind=kind,
            window=window,
            strides=strides,
            mulval=mulval,
            shift=shift + FRACTION_BITS - fraction,
        )
    )
    if keeps_scale:
        context.define(op.outputs[0], mean)
        return
    numbers = requantize_value(quant_pair(source), quant_pair(target), FRACTION_BITS)
    output = target.named(target.name, shape=mean.shape)
    name = f"{op.outputs[0]}.requantize"
    context.emit(affine_stage(name, "Add", mean, output, numbers, op.origin, clip))
    context.define(op.outputs[0], output)


def _pooled(
    source: Value, kind: PoolKind, window: tuple[int, int], strides: tuple[int, int]
) -> tuple[int, int, int]:
    height, width, channels = source.shape
    if kind is PoolKind.GLOBAL_AVERAGE:
        return 1, 1, channels
    rows = (height - window[0]) // strides[0] + 1
    columns = (width - window[1]) // strides[1] + 1
    return rows, columns, channels


def kernels_for_pool(context: Lowering, op: Op, width: int) -> int:
    """Most kernels that a convolution computes at once for the pool that alone reads it, so that
    the pool can share its epoch: its buffer holds lines of all of them. 0 where no pool does.

    Before 3.0 that is a pool directly after the layer, and eight kernels at any width. Where lines
    of eight channels do not fit, every generation takes fewer, also with a function of one value
    between them, if the pool has a window and no padding [RAM of Tiny-YOLO 416 at 3.0 and 4.0,
    exact; no pool of twelve public builds has a line of more than 1,792 values].
    """
    limit = pool_limit(width, context.machine)
    reader = _only_reader(context, op)
    if context.machine.generation.shrink_tile_for_pool and _is_pool(context, reader):
        return limit
    while reader is not None and reader.kind in _FUNCTIONS and support(reader.kind).unit:
        reader = _only_reader(context, reader)
    fits = limit == context.machine.pool.max_fused_channels
    if fits or reader is None or not _is_pool(context, reader):
        return 0
    attrs = reader.attrs
    return limit if isinstance(attrs, PoolAttrs) and not any(attrs.pads) else 0


_FUNCTIONS = having(Trait.FUNCTION) - having(Trait.CONVERSION)


def _only_reader(context: Lowering, op: Op) -> Op | None:
    readers = [other for other in context.graph.ops if op.outputs[0] in other.inputs]
    alone = len(readers) == 1 and op.outputs[0] not in context.graph.outputs
    return readers[0] if alone else None


def _is_pool(context: Lowering, op: Op | None) -> bool:
    """An op that runs on the POOL unit."""
    if op is None or support(op.kind).unit != "POOL":
        return False
    return not refusals(context.graph, op, context.machine)


# --- The stages after a convolution: 16-bit sums to the output's scale and zero point ---

Array = np.ndarray


class LayerSums(Struct, frozen=True):
    """What a convolution leaves: 16-bit sums, shifted right by `shift_o`."""

    value: Value
    scaling: LayerScaling
    shift_o: int
    largest: Array | None  # per channel, before the shift; for stages per channel


def requantize_sums(
    context: Lowering,
    sums: LayerSums,
    output: Value,
    activation: Activation,
    origin: tuple[str, ...],
) -> Value:
    """Emit the generation's stages from raw sums to `output`."""
    generation = context.machine.generation
    value, scaling, shift_o = sums.value, sums.scaling, sums.shift_o
    if value.channels > context.machine.arith.max_vector:
        return _streamed(context, sums, output, activation, origin)
    if sums.largest is not None:
        stages = requantize_per_channel(scaling, shift_o, sums.largest)
        return _two_stage(context, value, output, stages, activation, origin)
    if generation.requantize == "mul_add":
        stages = requantize_two_stage(scaling, shift_o)
        return _two_stage(context, value, output, stages, activation, origin)
    affine = requantize_one_stage(scaling, shift_o)
    stage = affine_stage(f"{output.name}.bias", "Add", value, output, affine, origin)
    return emit_activated(context, stage, activation)


def _two_stage(
    context: Lowering,
    sums: Value,
    output: Value,
    stages: tuple[Affine, Affine],
    activation: Activation,
    origin: tuple[str, ...],
) -> Value:
    scaled = sums.named(f"{output.name}.scaled")
    mul, add = stages
    context.emit(affine_stage(f"{output.name}.mul", "Mul", sums, scaled, mul, origin))
    stage = affine_stage(f"{output.name}.bias", "Add", scaled, output, add, origin)
    return emit_activated(context, stage, activation)


def _streamed(
    context: Lowering,
    sums: LayerSums,
    output: Value,
    activation: Activation,
    origin: tuple[str, ...],
) -> Value:
    """More channels than the unit holds coefficients: an engine streams them into port Y.

    The scale multiplies, the bias is added in the same 16-bit fixed point.
    """
    scaling = sums.scaling
    mul, add = requantize_two_stage(scaling, sums.shift_o)
    # Fraction bits of the value between the two stages.
    fraction = add.shift - norm(1.0 / scaling.output_scale)
    scaled = sums.value.named(f"{output.name}.scaled")
    context.emit(_streamed_scale(f"{output.name}.mul", sums.value, scaled, mul, origin))
    factor = int(add.a[0])
    stage = ArithStage(
        f"{output.name}.bias",
        "Add",
        (scaled,),
        output,
        origin,
        a=np.array([factor]),
        b=factor,
        c=np.array([scaling.output_zero]),
        c_shift=add.shift,
        shift=add.shift,
        table=int16(scaling.bias * 2.0**fraction),
    )
    return emit_activated(context, stage, activation)


def _streamed_scale(
    name: str, sums: Value, scaled: Value, mul: Affine, origin: tuple[str, ...]
) -> ArithStage:
    """One scale for all channels stays in a register; many are streamed."""
    if len(mul.a) == 1:
        return affine_stage(name, "Mul", sums, scaled, mul, origin)
    return ArithStage(
        name,
        "Mul",
        (sums,),
        scaled,
        origin,
        multiply=True,
        a=ZERO,
        c=ZERO,
        shift=mul.shift,
        table=mul.a,
    )
