"""Mul of two quantized tensors on ARITH units.

With zero points the product has four terms: x*y - zx*y - zy*x + zx*zy. The raw product fits 16
bits; two more stages take the mixed terms off, the last one rescales.
"""

from __future__ import annotations

from math import ceil, log2
from typing import cast

import numpy as np

from npuscope.compiler.lower.clamp import clamp_range
from npuscope.compiler.lower.context import ZERO, Context, quant_pair
from npuscope.compiler.lower.elementwise import lower_with_constant
from npuscope.compiler.numbers import INT16_MAX, int16, int32, norm
from npuscope.compiler.stages import ArithStage, Value
from npuscope.graph.model import Op
from npuscope.ops.elementwise import BinaryAttrs

_ONE = np.array([1])


def lower_mul(context: Context, op: Op) -> None:
    if any(context.graph.tensor(name).is_constant for name in op.inputs):
        lower_with_constant(context, op)
    else:
        _product(context, op)


def _product(context: Context, op: Op) -> None:
    x, y = (context.operand(name, op.origin) for name in op.inputs)
    if x.elements < y.elements:
        x, y = y, x  # the broadcast operand goes into port Y
    output = context.new_value(context.graph.output_tensor(op))
    (x_scale, x_zero), (y_scale, y_zero) = quant_pair(x), quant_pair(y)
    raw = x.named(f"{op.outputs[0]}.product", nbits=16, signed=True, quant=None, tensor="")
    sums = context.emit(_multiply(op, x, y, raw))
    if x_zero:
        part = raw.named(f"{op.outputs[0]}.product_sub")
        sums = context.emit(_take_off(op, sums, y, part, x_zero))
    ratio = x_scale * y_scale / quant_pair(output)[0]
    last = _rescale(op, sums, x, output, ratio, x_zero, y_zero)
    context.define(op.outputs[0], context.emit(last))


def _multiply(op: Op, x: Value, y: Value, raw: Value) -> ArithStage:
    return ArithStage(
        f"{op.name}.mul", "Mul", (x, y), raw, op.origin, multiply=True, a=ZERO, c=ZERO, shift=0
    )


def _take_off(op: Op, product: Value, y: Value, out: Value, x_zero: int) -> ArithStage:
    """product - zx * y"""
    return ArithStage(
        f"{op.name}.sub1", "Sub", (product, y), out, op.origin, a=_ONE, b=-x_zero, c=ZERO, shift=0
    )


def _rescale(
    op: Op, sums: Value, x: Value, output: Value, ratio: float, x_zero: int, y_zero: int
) -> ArithStage:
    """ratio * (sums - zy * (x - zx)) + zero point; one operand where zy is 0."""
    zero = quant_pair(output)[1]
    clip = clamp_range(cast(BinaryAttrs, op.attrs).activation, output)
    n_sums = norm(ratio)
    if y_zero == 0:
        return ArithStage(
            f"{op.name}.sub2",
            "Add",
            (sums,),
            output,
            op.origin,
            a=int16(ratio * 2.0**n_sums).reshape(1),
            c=int32(zero * 2.0**n_sums).reshape(1),
            shift=n_sums,
            clip=clip,
        )
    n_x = norm(abs(y_zero) * ratio)
    shift = min(n_sums, n_x)
    offset = (zero + ratio * y_zero * x_zero) * 2.0**shift
    c_shift = max(0, ceil(log2((abs(offset) + 1) / INT16_MAX)))
    return ArithStage(
        f"{op.name}.sub2",
        "Sub",
        (sums, x),
        output,
        op.origin,
        a=int16(ratio * 2.0**n_sums).reshape(1),
        b=int(int16(-y_zero * ratio * 2.0**n_x)),
        c=int16(offset / 2.0**c_shift).reshape(1),
        shift=shift,
        ax_shift=n_sums - shift,
        by_shift=n_x - shift,
        c_shift=c_shift,
        clip=clip,
    )
