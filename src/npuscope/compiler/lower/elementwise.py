"""Add, Sub, Clip and requantisation on one ARITH unit."""

from __future__ import annotations

from typing import cast

import numpy as np

from npuscope.compiler.lower.clamp import clamp_range, quantized_range
from npuscope.compiler.lower.context import SIGN_OFFSET, Context, quant_pair
from npuscope.compiler.lower.rescale import rescale
from npuscope.compiler.numbers import int16, norm, offset32, residual_add
from npuscope.compiler.stages import ArithStage, Value
from npuscope.graph.model import Activation, Op, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.norms import BatchNormAttrs


def lower_add(context: Context, op: Op) -> None:
    """Two activations to a common scale, added; Sub negates the second coefficient."""
    if any(context.graph.tensor(name).is_constant for name in op.inputs):
        lower_with_constant(context, op)
        return
    x, y = (context.value(name) for name in op.inputs[:2])
    output = context.new_value(context.graph.output_tensor(op))
    sign = -1 if op.kind == "Sub" else 1
    numbers = residual_add(quant_pair(x), quant_pair(y), quant_pair(output), sign)
    stage = ArithStage(
        op.name,
        op.kind,
        (x, y),
        output,
        op.origin,
        a=np.array([numbers.a]),
        b=numbers.b,
        c=np.array([numbers.c]),
        shift=numbers.shift,
        ax_shift=numbers.ax_shift,
        by_shift=numbers.by_shift,
        c_shift=numbers.c_shift,
        clip=clamp_range(cast(BinaryAttrs, op.attrs).activation, output),
    )
    context.define(op.outputs[0], context.emit(stage))


def lower_with_constant(context: Context, op: Op) -> None:
    """A scalar or one value per channel: coefficients of a single AFFINE stage."""
    places = [context.graph.tensor(name).is_constant for name in op.inputs]
    constant = real_constant(context.graph.tensor(op.inputs[places.index(True)]))
    source = context.value(op.inputs[places.index(False)])
    gain, offset = _affine_terms(op.kind, constant, places[0])
    emit_affine(context, op, source, gain, offset)


def lower_batch_norm(context: Context, op: Op) -> None:
    """One gain and one offset per channel."""
    scale, bias, mean, variance = (real_constant(context.graph.tensor(n)) for n in op.inputs[1:5])
    gain = scale / np.sqrt(variance + op.attrs_as(BatchNormAttrs).epsilon)
    source = context.value(op.inputs[0])
    emit_affine(context, op, source, gain, bias - mean * gain)


def emit_affine(
    context: Context, op: Op, source: Value, gain: np.ndarray, offset: np.ndarray
) -> None:
    """y = gain * x + offset in real numbers, on one ARITH stage."""
    output = context.new_value(context.graph.output_tensor(op))
    (scale, zero), (out_scale, out_zero) = quant_pair(source), quant_pair(output)
    ratio = gain * scale / out_scale
    n = norm(np.abs(ratio).max())
    c, c_shift = offset32((offset / out_scale + out_zero - ratio * zero) * 2.0**n)
    stage = ArithStage(
        op.name,
        op.kind,
        (source,),
        output,
        op.origin,
        a=int16(ratio * 2.0**n),
        c=c,
        c_shift=c_shift,
        shift=n,
        clip=clamp_range(getattr(op.attrs, "activation", Activation.NONE), output),
    )
    context.define(op.outputs[0], context.emit(stage))


def real_constant(tensor: Tensor) -> np.ndarray:
    """The constant's real values, one or one per channel."""
    assert tensor.data is not None
    values = tensor.data.astype(np.float64).reshape(-1)
    if tensor.quant is None:
        return values
    return np.asarray((values - np.array(tensor.quant.zero_points)) * np.array(tensor.quant.scales))


def _affine_terms(
    kind: str, constant: np.ndarray, constant_first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """y = gain * x + offset in real numbers."""
    one, zero = np.ones(1), np.zeros(1)
    if kind == "Mul":
        return constant, zero
    if kind == "Add":
        return one, constant
    return (-one, constant) if constant_first else (one, -constant)  # Sub


def lower_clip(context: Context, op: Op) -> None:
    attrs = cast(ClipAttrs, op.attrs)
    source = context.value(op.inputs[0])
    output = context.new_value(context.graph.output_tensor(op))
    clip = quantized_range((attrs.low, attrs.high), output)
    context.define(op.outputs[0], rescale(context, op.name, source, output, op.origin, clip))


def lower_quantize(context: Context, op: Op) -> None:
    """Integer to integer, for free where only the sign bit differs."""
    target_tensor = context.graph.output_tensor(op)
    source, output = context.value(op.inputs[0]), context.new_value(target_tensor)
    if _same_bytes(source, output):
        context.define(op.outputs[0], source)
    elif context.machine.generation.free_uint8_input and _sign_change(source, output):
        # The units read the unsigned byte as it is; its zero point is 128 higher.
        context.define(op.outputs[0], source)
    else:
        context.define(op.outputs[0], rescale(context, op.name, source, output, op.origin))


def _same_bytes(source: Value, output: Value) -> bool:
    return source.signed == output.signed and source.quant == output.quant


def _sign_change(source: Value, output: Value) -> bool:
    """uint8 to int8 of the same scale: only the top bit differs."""
    (scale, zero), (out_scale, out_zero) = quant_pair(source), quant_pair(output)
    shifted = zero - SIGN_OFFSET == out_zero
    return not source.signed and output.signed and scale == out_scale and shifted
