"""Add, Sub, Clip, Mul and requantisation on ARITH units."""

from __future__ import annotations

from math import ceil, inf, log2
from typing import cast

import numpy as np

from npuscope.compiler.lower.context import SIGN_OFFSET, ZERO, Lowering, plane_shape, quant_pair
from npuscope.compiler.lower.functions import lower_function, lower_swish
from npuscope.compiler.lower.scaling import (
    clamp_range,
    emit_activated,
    quantized_range,
    rescale,
)
from npuscope.compiler.lower.software import lower_software
from npuscope.compiler.numbers import (
    int16,
    norm,
    offset32,
    residual_add,
)
from npuscope.compiler.stages import ArithStage, Value
from npuscope.geometry.sums import INT16_MAX
from npuscope.graph.model import Activation, DType, Graph, Numerics, Op, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.norms import BatchNormAttrs
from npuscope.rulebook.elementwise import is_streamed_constant
from npuscope.structs import replace

# --- Add, Sub, Clip and requantisation on one ARITH unit ---

_ONE = np.array([1])
_BYTE_REACH = 255  # of a byte, whatever its sign


def lower_add(context: Lowering, op: Op) -> None:
    """Two maps to a common scale, added; Sub negates the second coefficient."""
    if _has_coefficients(context.graph, op):
        lower_with_constant(context, op)
        return
    x, y = (_map(context, op, name) for name in op.inputs[:2])
    output = context.new_value(context.graph.output_tensor(op))
    if x.elements < y.elements:
        x, y = y, x  # the broadcast operand goes into port Y
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
    )
    activation = cast(BinaryAttrs, op.attrs).activation
    context.define(op.outputs[0], emit_activated(context, stage, activation))


def _has_coefficients(graph: Graph, op: Op) -> bool:
    """One operand is a constant that the unit itself holds."""
    constants = [t for t in map(graph.tensor, op.inputs[:2]) if t.is_constant]
    return any(not is_streamed_constant(tensor) for tensor in constants)


def _map(context: Lowering, op: Op, name: str) -> Value:
    """An operand that is streamed, constant or not; constants may lack leading axes."""
    tensor = context.graph.tensor(name)
    if not tensor.is_constant:
        return context.value(name)
    shape = context.graph.output_tensor(op).shape
    quant = tensor.quant
    if not is_streamed_constant(tensor) and quant and quant.zero_points == (-SIGN_OFFSET,):
        # A vector as a map: unsigned bytes need no correction of the product [board: units of 91
        # such products in two spiking networks of 2.2].
        name, data = f"{name}.unsigned", np.asarray(tensor.data).astype(np.int16) + SIGN_OFFSET
        tensor = replace(
            tensor,
            name=name,
            dtype=DType.UINT8,
            quant=replace(quant, zero_points=(0,)),
            data=data.astype(np.uint8),
        )
    return replace(context.constant(name, tensor), shape=plane_shape(shape))


def lower_with_constant(context: Lowering, op: Op) -> None:
    """A scalar or one value per channel: coefficients of a single AFFINE stage."""
    places = [context.graph.tensor(name).is_constant for name in op.inputs]
    constant = real_constant(context.graph.tensor(op.inputs[places.index(True)]))
    source = context.value(op.inputs[places.index(False)])
    # y = gain * x + offset in real numbers.
    one, zero = np.ones(1), np.zeros(1)
    if op.kind == "Mul":
        gain, offset = constant, zero
    elif op.kind == "Add":
        gain, offset = one, constant
    else:
        gain, offset = (-one, constant) if places[0] else (one, -constant)
    emit_affine(context, op, source, gain, offset)


def lower_batch_norm(context: Lowering, op: Op) -> None:
    """One gain and one offset per channel."""
    scale, bias, mean, variance = (real_constant(context.graph.tensor(n)) for n in op.inputs[1:5])
    gain = scale / np.sqrt(variance + op.attrs_as(BatchNormAttrs).epsilon)
    source = context.value(op.inputs[0])
    emit_affine(context, op, source, gain, bias - mean * gain)


def emit_affine(
    context: Lowering, op: Op, source: Value, gain: np.ndarray, offset: np.ndarray
) -> None:
    """y = gain * x + offset in real numbers, on one ARITH stage."""
    output = context.new_value(context.graph.output_tensor(op))
    (scale, zero), (out_scale, out_zero) = quant_pair(source), quant_pair(output)
    ratio = gain * scale / out_scale
    offset = offset / out_scale + out_zero - ratio * zero
    if max(ratio.size, offset.size) > context.machine.arith.max_vector:
        _emit_streamed(context, op, source, ratio, offset)
        return
    n = norm(np.abs(ratio).max())
    c, c_shift = offset32(offset * 2.0**n)
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


def _emit_streamed(
    context: Lowering, op: Op, source: Value, ratio: np.ndarray, offset: np.ndarray
) -> None:
    """The same where the unit does not hold a value for each channel: engines stream them, the
    products first. In between are 16 bits with a fraction."""
    output = context.new_value(context.graph.output_tensor(op))
    ratio, offset = (np.broadcast_to(one, (source.channels,)) for one in (ratio, offset))
    n = norm(np.abs(ratio).max())
    reach = max(np.abs(ratio).max() * _BYTE_REACH, np.abs(offset).max())
    fraction = max(0, min(n, norm(reach)))
    scaled = _wide(source, f"{op.outputs[0]}.scaled")
    gains, offsets = int16(ratio * 2.0**n), int16(offset * 2.0**fraction)
    label, shift = f"{op.name}.mul", n - fraction
    product = ArithStage(
        label,
        "Mul",
        (source,),
        scaled,
        op.origin,
        multiply=True,
        a=ZERO,
        c=ZERO,
        shift=shift,
        table=gains,
    )
    stage = ArithStage(
        op.name,
        "Add",
        (context.emit(product),),
        output,
        op.origin,
        a=_ONE,
        b=1,
        c=ZERO,
        shift=fraction,
        table=offsets,
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


def lower_clip(context: Lowering, op: Op) -> None:
    attrs = cast(ClipAttrs, op.attrs)
    source = context.value(op.inputs[0])
    output = context.new_value(context.graph.output_tensor(op))
    relu = (attrs.low, attrs.high) == (0.0, inf) and context.graph.numerics is Numerics.LITERT
    rescaled = quant_pair(source) != quant_pair(output)
    if relu and rescaled and context.machine.generation.relu_in_table:
        lower_function(context, op)
        return
    clip = quantized_range((attrs.low, attrs.high), output)
    context.define(op.outputs[0], rescale(context, op.name, source, output, op.origin, clip))


_WIDEST = 16  # bits that stream engines read and write as they are


def lower_quantize(context: Lowering, op: Op) -> None:
    """Integer to integer, for free where only the sign bit differs."""
    target_tensor = context.graph.output_tensor(op)
    source, output = context.value(op.inputs[0]), context.new_value(target_tensor)
    if source.signed == output.signed and source.quant == output.quant:
        context.define(op.outputs[0], source)
    elif max(source.nbits, output.nbits) > _WIDEST:
        lower_software(context, op)
    elif context.machine.generation.free_uint8_input and _sign_change(source, output):
        # The units read the unsigned byte as it is; its zero point is 128 higher.
        context.define(op.outputs[0], source)
    else:
        context.define(op.outputs[0], rescale(context, op.name, source, output, op.origin))


def _sign_change(source: Value, output: Value) -> bool:
    """uint8 to int8 of the same scale: only the top bit differs."""
    (scale, zero), (out_scale, out_zero) = quant_pair(source), quant_pair(output)
    shifted = zero - SIGN_OFFSET == out_zero
    return not source.signed and output.signed and scale == out_scale and shifted


# --- Mul of two quantized tensors on ARITH units ---
#
# With zero points the product has four terms: x*y - zx*y - zy*x + zx*zy. The raw product fits 16
# bits; two more stages take the mixed terms off, the last one rescales.


def lower_mul(context: Lowering, op: Op) -> None:
    sigmoid = context.swishes.get(op.outputs[0])
    if sigmoid is not None and lower_swish(context, op, sigmoid):
        return
    as_map = context.machine.generation.map_constants_streamed and _is_map(context.graph, op)
    if as_map or not _has_coefficients(context.graph, op):
        _product(context, op)
    elif context.machine.generation.products_in_steps and _scalar(context.graph, op) is not None:
        _product_with_scalar(context, op)
    else:
        lower_with_constant(context, op)


def _is_map(graph: Graph, op: Op) -> bool:
    """A constant in bytes has as many entries as the map that it is multiplied with."""
    constants = [t for t in map(graph.tensor, op.inputs[:2]) if t.is_constant]
    entries = graph.output_tensor(op).elements
    return len(constants) == 1 and all(
        tensor.elements == entries > 1
        and tensor.dtype is DType.INT8
        and tensor.quant is not None
        and not tensor.quant.per_channel
        for tensor in constants
    )


def _scalar(graph: Graph, op: Op) -> Tensor | None:
    """The constant operand, where it is one quantized number."""
    constants = [t for t in map(graph.tensor, op.inputs) if t.is_constant and t.elements == 1]
    one = len(constants) == 1 and constants[0].quant is not None
    return constants[0] if one and constants[0].dtype is DType.INT8 else None


def _product_with_scalar(context: Lowering, op: Op) -> None:
    """As of two maps: x * k in 16 bits, less the zero point of k times x, rescaled."""
    constant = _scalar(context.graph, op)
    assert constant is not None and constant.data is not None and constant.quant is not None
    factor, zero = int(constant.data.item()), constant.quant.zero_point
    name = next(n for n in op.inputs if not context.graph.tensor(n).is_constant)
    x = context.operand(name, op.origin)
    output = context.new_value(context.graph.output_tensor(op))
    (x_scale, x_zero), (out_scale, out_zero) = quant_pair(x), quant_pair(output)
    sums = _wide(x, f"{op.outputs[0]}.product")
    k = np.array([factor])
    mul = ArithStage(f"{op.name}.mul", "Mul", (x,), sums, op.origin, a=k, c=ZERO, shift=0)
    sums = context.emit(mul)
    if zero:
        part = _wide(x, f"{op.outputs[0]}.product_sub")
        label, operands = f"{op.name}.sub1", (sums, x)
        take_off = ArithStage(
            label, "Sub", operands, part, op.origin, a=_ONE, b=-zero, c=ZERO, shift=0
        )
        sums = context.emit(take_off)
    ratio = x_scale * constant.quant.scale / out_scale
    n = norm(ratio)
    c, c_shift = offset32(np.array([out_zero - ratio * x_zero * (factor - zero)]) * 2.0**n)
    last = ArithStage(
        f"{op.name}.sub2",
        "Add",
        (sums,),
        output,
        op.origin,
        a=int16(ratio * 2.0**n).reshape(1),
        c=c,
        c_shift=c_shift,
        shift=n,
    )
    context.define(
        op.outputs[0], emit_activated(context, last, cast(BinaryAttrs, op.attrs).activation)
    )


def _wide(x: Value, name: str) -> Value:
    """A raw product of x, in 16 bits."""
    return x.named(name, nbits=16, signed=True, quant=None, tensor="", batch=0, pitch=0, first=0)


def _product(context: Lowering, op: Op) -> None:
    constants = {n for n in op.inputs if context.graph.tensor(n).is_constant}
    x, y = (
        _map(context, op, n) if n in constants else context.operand(n, op.origin) for n in op.inputs
    )
    if x.elements < y.elements:
        x, y = y, x  # the broadcast operand goes into port Y
    output = context.new_value(context.graph.output_tensor(op))
    (x_scale, x_zero), (y_scale, y_zero) = quant_pair(x), quant_pair(y)
    raw = _wide(x, f"{op.outputs[0]}.product")
    sums = context.emit(
        ArithStage(
            f"{op.name}.mul", "Mul", (x, y), raw, op.origin, multiply=True, a=ZERO, c=ZERO, shift=0
        )
    )
    if x_zero:
        part = raw.named(f"{op.outputs[0]}.product_sub")
        # product - zx * y
        take_off = ArithStage(
            f"{op.name}.sub1", "Sub", (sums, y), part, op.origin, a=_ONE, b=-x_zero, c=ZERO, shift=0
        )
        sums = context.emit(take_off)
    ratio = x_scale * y_scale / quant_pair(output)[0]
    last = _rescale(op, sums, x, output, ratio, x_zero, y_zero)
    context.define(op.outputs[0], context.emit(last))


def _rescale(
    op: Op, sums: Value, x: Value, output: Value, ratio: float, x_zero: int, y_zero: int
) -> ArithStage:
    """ratio * (sums - zy * (x - zx)) + zero point; one operand where zy is 0."""
    zero = quant_pair(output)[1]
    clip = clamp_range(cast(BinaryAttrs, op.attrs).activation, output)
    n_sums = norm(ratio)
    if y_zero == 0:
        c, c_shift = offset32(zero * 2.0**n_sums)
        return ArithStage(
            f"{op.name}.sub2",
            "Add",
            (sums,),
            output,
            op.origin,
            a=int16(ratio * 2.0**n_sums).reshape(1),
            c=c,
            c_shift=c_shift,
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
