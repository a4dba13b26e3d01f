"""MaxPool, AveragePool and Mean on the POOL units."""

from __future__ import annotations

from typing import cast

from npuscope.compiler.lower.affine import affine_stage
from npuscope.compiler.lower.context import Context, quant_pair
from npuscope.compiler.lower.rescale import moved
from npuscope.compiler.numbers import average_multiplier, requantize_value
from npuscope.compiler.stages import PoolKind, PoolStage, Value
from npuscope.graph.model import Op
from npuscope.ops.reduce import PoolAttrs
from npuscope.rules import refusals
from npuscope.rules.pool import covers_the_map

FRACTION_BITS = 8  # an average leaves the unit with 8 bits below its LSB


def lower_max_pool(context: Context, op: Op) -> None:
    attrs = cast(PoolAttrs, op.attrs)
    source = context.signed(context.value(op.inputs[0]), op.origin)
    output = context.new_value(context.graph.output_tensor(op))
    if output.quant != source.quant:
        output = output.named(f"{output.name}.max", quant=source.quant, signed=True, tensor="")
    stage = PoolStage(
        op.name,
        "MaxPool",
        (source,),
        output,
        op.origin,
        kind=PoolKind.MAX,
        window=attrs.window,
        strides=attrs.strides,
        pads=attrs.pads,
    )
    context.define(op.outputs[0], moved(context, op, context.emit(stage)))


def lower_average_pool(context: Context, op: Op) -> None:
    """A windowed average, or a global one when the window covers the map."""
    attrs = cast(PoolAttrs, op.attrs)
    if covers_the_map(context.graph, op):
        _average(context, op, PoolKind.GLOBAL_AVERAGE, attrs.window, (1, 1))
    else:
        _average(context, op, PoolKind.AVERAGE, attrs.window, attrs.strides)


def lower_mean(context: Context, op: Op) -> None:
    size = context.value(op.inputs[0]).shape[:2]
    _average(context, op, PoolKind.GLOBAL_AVERAGE, size, (1, 1))


def _average(
    context: Context,
    op: Op,
    kind: PoolKind,
    window: tuple[int, int],
    strides: tuple[int, int],
) -> None:
    """POOL gives the mean with 8 fraction bits; an ARITH stage rounds and rescales it."""
    source = context.signed(context.value(op.inputs[0]), op.origin)
    target = context.new_value(context.graph.output_tensor(op))
    keeps_scale = quant_pair(source) == quant_pair(target)
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
    context.emit(affine_stage(name, "Add", mean, output, numbers, op.origin))
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


def pool_follows(context: Context, op: Op) -> bool:
    """The op's only reader is a pool that can share its epoch."""
    readers = [other for other in context.graph.ops if op.outputs[0] in other.inputs]
    if len(readers) != 1 or op.outputs[0] in context.graph.outputs:
        return False
    reader = readers[0]
    is_pool = reader.kind in ("MaxPool", "AveragePool", "Mean")
    return is_pool and not refusals(context.graph, reader, context.machine)
