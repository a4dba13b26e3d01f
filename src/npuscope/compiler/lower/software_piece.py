"""A piece of a kernel that the CPU computes in float: dequantize, convolve, cast to sums."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npuscope.compiler.lower.context import Context
from npuscope.compiler.lower.pieces import Piece
from npuscope.compiler.lower.software import call_stage, real_value
from npuscope.compiler.stages import Value
from npuscope.graph.model import Attrs, DType, Op, Quant, Tensor
from npuscope.ops.layers import ConvAttrs
from npuscope.program.model import Refused
from npuscope.rules import refusals

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class SoftwarePiece:
    """What the piece computes: sums of features less `zero`, as the units would shift them."""

    op: Op
    features: Value
    zero: int
    weights: Array  # of the piece
    piece: Piece
    attrs: ConvAttrs
    shift_o: int
    sums: Value  # 16 bits


def emit_software_piece(context: Context, part: SoftwarePiece) -> Value:
    """Three kernel calls; the result has the scale of the other pieces' sums."""
    trail = refusals(context.graph, part.op, context.machine)
    name = part.sums.name
    plain = part.features.named(f"{name}.features", quant=Quant((1.0,), (part.zero,)), tensor="")
    context.result.views[plain.name] = part.features
    real = real_value(plain, f"{name}.real_features")
    real_sums = real_value(part.sums, f"{name}.real")
    weights = (_weights(context, part).name,)
    _call(context, part, "Dequantize", Attrs(), plain, real, trail)
    _call(context, part, "Conv2D", _attrs(part), real, real_sums, trail, weights)
    return _call(context, part, "Cast", Attrs(), real_sums, part.sums, trail)


def _call(
    context: Context,
    part: SoftwarePiece,
    kernel: str,
    attrs: Attrs,
    source: Value,
    output: Value,
    trail: tuple[Refused, ...],
    constants: tuple[str, ...] = (),
) -> Value:
    stage = call_stage(context, part.op, kernel, attrs, source, output, trail, constants=constants)
    return context.emit(replace(stage, name=f"{output.name}.{kernel}"))


def _weights(context: Context, part: SoftwarePiece) -> Tensor:
    """The shift of the units is part of the float weights."""
    data = (part.weights / 2.0**part.shift_o).astype(np.float32)
    name = context.graph.fresh_name(f"{part.sums.name}.weights")
    return context.graph.add(Tensor(name, data.shape, DType.FLOAT32, data=data))


def _attrs(part: SoftwarePiece) -> ConvAttrs:
    top, left, bottom, right = (
        pad - crop for pad, crop in zip(part.piece.pads, part.piece.crop, strict=True)
    )
    pads = (top, left, bottom, right)
    return ConvAttrs(part.attrs.strides, pads, groups=part.attrs.groups)
