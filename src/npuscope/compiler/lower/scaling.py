"""Scales and limits as stages: sums and products with numbers, clamps of layers, other scales."""

from __future__ import annotations

from math import inf

import numpy as np

from npuscope.compiler.lower.context import SIGN_OFFSET, Lowering, quant_pair, tensor_value
from npuscope.compiler.numbers import Affine, LayerScaling, requantize_value
from npuscope.compiler.stages import ActivStage, ArithStage, Value
from npuscope.graph.model import Activation, DType, Graph, Numerics, Op
from npuscope.structs import replace

# --- One ARITH stage that multiplies and adds ---

Clip = tuple[int, int] | None


def affine_stage(
    name: str,
    operator: str,
    source: Value,
    output: Value,
    numbers: Affine,
    origin: tuple[str, ...],
    clip: Clip = None,
) -> ArithStage:
    return ArithStage(
        name,
        operator,
        (source,),
        output,
        origin,
        a=numbers.a,
        c=numbers.c,
        shift=numbers.shift,
        ax_shift=numbers.ax_shift,
        c_shift=numbers.c_shift,
        clip=clip,
    )


# --- Fused activations as a clamp of the quantized output ---

_RANGES = {
    Activation.NONE: (-inf, inf),
    Activation.RELU: (0.0, inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def emit_activated(context: Lowering, stage: ArithStage, activation: Activation) -> Value:
    """The stage and the clamp of its layer: a limit of the stage itself, or a stage of its own."""
    output = stage.output
    on_unit = context.machine.generation.relu_on_unit and context.graph.numerics is Numerics.LITERT
    if not on_unit or activation is not Activation.RELU or not output.signed:
        return context.emit(replace(stage, clip=clamp_range(activation, output)))
    full = output.named(f"{output.name}.full", tensor="", pitch=0, first=0)
    context.emit(replace(stage, output=full))
    zero = quant_pair(output)[1]
    name = f"{stage.name}.relu"
    return context.emit(ActivStage(name, "Relu", (full,), output, stage.origin, floor=zero))


def clamp_range(activation: Activation, output: Value) -> tuple[int, int] | None:
    """The clamp in quantized steps; None when the byte's own range does the same."""
    return quantized_range(_RANGES[activation], output)


_FAR = 1024.0  # steps that lead out of the byte range from any zero point


def quantized_range(limits: tuple[float, float], output: Value) -> tuple[int, int] | None:
    if limits == (-inf, inf):
        return None
    scale, zero = quant_pair(output)
    lowest, highest = (-128, 127) if output.signed else (0, 255)
    # limits may be infinite or outside of the byte range
    ends = (min(max(limit / scale, -_FAR), _FAR) for limit in limits)
    low, high = (min(max(zero + round(end), lowest), highest) for end in ends)
    return None if (low, high) == (lowest, highest) else (low, high)


# --- Scales of a layer ---


def layer_scaling(graph: Graph, op: Op, source: Value, output: Value) -> LayerScaling:
    """Scales of a layer; the bias in real values."""
    weights = graph.tensor(op.inputs[1])
    channels = weights.shape[0]
    assert weights.quant is not None  # a refuse rule has checked it
    weight_scales = np.array(weights.quant.scales, np.float64)
    if len(weight_scales) != channels:
        weight_scales = np.broadcast_to(weight_scales, (channels,))
    input_scale, _ = quant_pair(source)
    output_scale, output_zero = quant_pair(output)
    unit = input_scale * weight_scales
    if len(op.inputs) < 3 or not op.inputs[2]:
        bias = np.zeros(len(unit))
    else:
        tensor = graph.tensor(op.inputs[2])
        data = constant_of(graph, tensor.name).astype(np.float64).reshape(-1)
        bias = data if tensor.dtype is DType.FLOAT32 else data * unit
    return LayerScaling(input_scale, weight_scales, output_scale, output_zero, bias).about_one


def constant_of(graph: Graph, name: str) -> np.ndarray:
    data = graph.tensor(name).data
    assert data is not None  # a refuse rule has checked it
    return data


# --- One tensor to another scale or sign, on one or two ARITH stages ---


def rescale(
    context: Lowering,
    name: str,
    source: Value,
    output: Value,
    origin: tuple[str, ...],
    clip: Clip = None,
) -> Value:
    """Emit stages that convert `source` to `output`; the unit saturates to signed bytes, so an
    unsigned result is made signed first and its top bit flipped afterwards."""
    if output.signed:
        return context.emit(_affine(name, source, output, origin, clip))
    signed = as_signed(output).named(f"{output.name}.signed", tensor="", pitch=0, first=0)
    if quant_pair(source) != quant_pair(signed) or not source.signed:
        low_high = clip and (clip[0] - SIGN_OFFSET, clip[1] - SIGN_OFFSET)
        context.emit(_affine(name, source, signed, origin, low_high))
    else:
        signed = source
    return context.flip_sign(signed, output, origin)


def moved(context: Lowering, op: Op, value: Value) -> Value:
    """The result of an op that only moves values, rescaled to that of its output."""
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
    quant = replace(value.quant, zero_points=(zero,))
    return value.named(value.name, signed=True, quant=quant, skip=value.skip)


def _affine(
    name: str, source: Value, output: Value, origin: tuple[str, ...], clip: Clip
) -> ArithStage:
    numbers = requantize_value(quant_pair(source), quant_pair(output))
    return affine_stage(name, "Add", source, output, numbers, origin, clip)
