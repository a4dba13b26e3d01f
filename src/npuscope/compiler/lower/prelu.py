"""PReLU with constant slopes: one slope is a table, one per channel is a sum of two sides.

As in public builds of 2.1, 2.2 and 3.0: min(x, 0) times the slopes, exact in 16 bits, is brought to
the output's scale, max(x, 0) by a table, and the two are added. One of them is always zero, so a
value is rounded once.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

from npuscope.compiler.function_table import fit_function
from npuscope.compiler.lower.context import ZERO, Lowering, quant_pair
from npuscope.compiler.lower.elementwise import real_constant
from npuscope.compiler.lower.functions import lower_function
from npuscope.compiler.numbers import int16, int32, norm, offset32
from npuscope.compiler.stages import ActivStage, ArithStage, Value
from npuscope.geometry.sums import INT16_MAX
from npuscope.graph.model import Op, Tensor

_BYTE_SPAN = 255


def lower_prelu(context: Lowering, op: Op) -> None:
    tensor = context.graph.tensor(op.inputs[1])
    slopes = real_constant(tensor)
    if len(slopes) == 1:
        lower_function(context, op)
        return
    source = context.signed(context.value(op.inputs[0]), op.origin)
    output = context.new_value(context.graph.output_tensor(op))
    steps = _steps(tensor) if context.machine.generation.prelu_by_sides else None
    upper = fit_function(_above(source, output)) if steps is not None else None
    if steps is None or upper is None:
        stage = _joined(op, source, _maximum(context, op, source), output, slopes)
    else:
        table = ActivStage(
            f"{op.name}.above",
            "Relu",
            (source,),
            output.named(f"{output.name}.above", tensor=""),
            op.origin,
            table=upper,
            from_memory=True,
        )
        below = _below(context, op, source, output, steps, slopes)
        stage = _sum_of_sides(op, context.emit(table), below, output)
    context.define(op.outputs[0], context.emit(stage))


def _steps(slopes: Tensor) -> np.ndarray | None:
    """Slopes in quantized steps; None where their product with a byte leaves 16 bits."""
    assert slopes.data is not None
    if slopes.quant is None:
        return None
    steps = slopes.data.astype(np.int64).reshape(-1) - np.array(slopes.quant.zero_points)
    return np.asarray(steps) if np.abs(steps).max() * _BYTE_SPAN <= INT16_MAX else None


def _above(source: Value, output: Value) -> np.ndarray:
    """max(x, 0) of every byte, -128 first, in the output's numbers."""
    (scale, zero), (out_scale, out_zero) = quant_pair(source), quant_pair(output)
    real = np.maximum(np.arange(-128, 128) - zero, 0) * scale
    return np.asarray(np.clip(np.rint(real / out_scale) + out_zero, -128, 127), np.int64)


def _below(
    context: Lowering,
    op: Op,
    source: Value,
    output: Value,
    steps: np.ndarray,
    slopes: np.ndarray,
) -> Value:
    """slope * min(x, 0) in the output's numbers: clipped, multiplied, rescaled."""
    (scale, zero), (out_scale, out_zero) = quant_pair(source), quant_pair(output)
    low = source.named(f"{output.name}.low", tensor="", batch=0, pitch=0, first=0)
    wide = low.named(f"{output.name}.product", nbits=16, quant=None)
    part = output.named(f"{output.name}.below", tensor="")
    clip = ArithStage(
        f"{op.name}.low",
        "Clip",
        (source,),
        low,
        op.origin,
        limits=True,
        a=np.array([-128]),
        c=np.array([zero]),
        shift=0,
    )
    product = ArithStage(
        f"{op.name}.mul",
        "Mul",
        (context.emit(clip),),
        wide,
        op.origin,
        a=int16(steps),
        c=int32(-zero * steps),
        shift=0,
    )
    # Steps of zero have no scale of their own.
    unit = np.divide(slopes, steps, out=np.zeros(len(steps)), where=steps != 0)
    ratio = scale * unit / out_scale
    n = norm(np.abs(ratio).max())
    c, c_shift = offset32(np.full(len(steps), out_zero * 2.0**n))
    rescaled = ArithStage(
        f"{op.name}.off",
        "Add",
        (context.emit(product),),
        part,
        op.origin,
        a=int16(ratio * 2.0**n),
        c=c,
        c_shift=c_shift,
        shift=n,
    )
    return context.emit(rescaled)


def _sum_of_sides(op: Op, above: Value, below: Value, output: Value) -> ArithStage:
    """Both hold the output's zero point: one of them goes."""
    zero = quant_pair(output)[1]
    return ArithStage(
        op.name,
        "Add",
        (above, below),
        output,
        op.origin,
        a=np.ones(1),
        b=1,
        c=np.array([-zero]),
        shift=0,
    )


def _maximum(context: Lowering, op: Op, source: Value) -> Value:
    above = source.named(f"{op.outputs[0]}.above", tensor="", batch=0, pitch=0, first=0)
    stage = ArithStage(
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
    return context.emit(stage)


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
