"""One tensor to another scale or sign, on one or two ARITH stages."""

from __future__ import annotations

from dataclasses import replace

from npuscope.compiler.lower.affine import Clip, affine_stage
from npuscope.compiler.lower.context import SIGN_OFFSET, Context, quant_pair, tensor_value
from npuscope.compiler.numbers import requantize_value
from npuscope.compiler.stages import ArithStage, Value
from npuscope.graph.model import Op


def rescale(
    context: Context,
    name: str,
    source: Value,
    output: Value,
    origin: tuple[str, ...],
    clip: Clip = None,
) -> Value:
    """Emit what turns `source` into `output`; the unit saturates to signed bytes, so an
    unsigned result is made signed first and its top bit turned after."""
    if output.signed:
        return context.emit(_affine(name, source, output, origin, clip))
    signed = as_signed(output).named(f"{output.name}.signed", tensor="")
    if quant_pair(source) != quant_pair(signed) or not source.signed:
        low_high = clip and (clip[0] - SIGN_OFFSET, clip[1] - SIGN_OFFSET)
        context.emit(_affine(name, source, signed, origin, low_high))
    else:
        signed = source
    return context.flip_sign(signed, output, origin)


def moved(context: Context, op: Op, value: Value) -> Value:
    """The result of an op that only moves values, brought to its output's own scale."""
    target = context.graph.output_tensor(op)
    if target.quant is None or value.quant is None or value.is_float:
        return value
    output = tensor_value(target).named(f"{target.name}.rescaled", shape=value.shape, tensor="")
    if _signed_pair(value) == _signed_pair(output):
        return value
    return rescale(context, f"{op.name}.rescale", value, output, op.origin)


def _signed_pair(value: Value) -> tuple[float, int]:
    """Scale and zero point as if the bytes were signed."""
    return quant_pair(value if value.signed else as_signed(value))


def as_signed(value: Value) -> Value:
    """The same real numbers as signed bytes: the zero point is 128 lower."""
    assert value.quant is not None
    zero = value.quant.zero_point - SIGN_OFFSET
    return value.named(value.name, signed=True, quant=replace(value.quant, zero_points=(zero,)))


def _affine(
    name: str, source: Value, output: Value, origin: tuple[str, ...], clip: Clip
) -> ArithStage:
    numbers = requantize_value(quant_pair(source), quant_pair(output))
    return affine_stage(name, "Add", source, output, numbers, origin, clip)
