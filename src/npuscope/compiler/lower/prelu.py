"""PReLU with constant slopes: one slope is a table, one per channel takes two ARITH stages.

slope * x below zero and x above it is slope * x + (1 - slope) * max(x, 0).
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

from npuscope.compiler.lower.activation import lower_function
from npuscope.compiler.lower.context import ZERO, Context, quant_pair
from npuscope.compiler.lower.elementwise import real_constant
from npuscope.compiler.numbers import INT16_MAX, int16, norm
from npuscope.compiler.stages import ArithStage, Value
from npuscope.graph.model import Op


def lower_prelu(context: Context, op: Op) -> None:
    slopes = real_constant(context.graph.tensor(op.inputs[1]))
    if len(slopes) == 1:
        lower_function(context, op)
        return
    source = context.signed(context.value(op.inputs[0]), op.origin)
    above = source.named(f"{op.outputs[0]}.above", tensor="", batch=0, pitch=0, first=0)
    context.emit(
        ArithStage(
            f"{op.name}.above",
            "Max",
            (source,),
            above,
            op.origin,
            maximum=True,
            a=ZERO,
            c=np.array([quant_pair(source)[1]]),
            shift=0,
        )
    )
    output = context.new_value(context.graph.output_tensor(op))
    context.define(op.outputs[0], context.emit(_joined(op, source, above, output, slopes)))


def _joined(op: Op, source: Value, above: Value, output: Value, slopes: np.ndarray) -> ArithStage:
    """A[c] * x + B[c] * max(x, zero) + C."""
    (scale, zero), (out_scale, out_zero) = quant_pair(source), quant_pair(output)
    ratio = scale / out_scale
    a, b = ratio * slopes, ratio * (1 - slopes)
    n = norm(max(np.abs(a).max(), np.abs(b).max()))
    offset = (out_zero - ratio * zero) * 2.0**n
    c_shift = max(0, ceil(log2((abs(offset) + 1) / INT16_MAX)))
    return ArithStage(
        op.name,
        "PRelu",
        (source, above),
        output,
        op.origin,
        a=int16(a * 2.0**n),
        b=int16(b * 2.0**n),
        c=int16(offset / 2.0**c_shift).reshape(1),
        c_shift=c_shift,
        shift=n,
    )
