"""Pad of a map: an identity convolution whose padding holds the fill value."""

from __future__ import annotations

import numpy as np

from npuscope.compiler.lower.context import Context, quant_pair
from npuscope.compiler.lower.rescale import moved
from npuscope.compiler.stages import ConvMode, ConvStage, Tiling
from npuscope.graph.model import Op
from npuscope.ops.moves import PadAttrs
from npuscope.program.modes import Simd


def lower_pad(context: Context, op: Op) -> None:
    """One channel a frame through a kernel of 1."""
    attrs = op.attrs_as(PadAttrs)
    source = context.signed(context.value(op.inputs[0]), op.origin)
    output = context.new_value(context.graph.output_tensor(op))
    if output.quant != source.quant:
        output = output.named(f"{output.name}.padded", quant=source.quant, tensor="")
    scale, zero = quant_pair(source)
    (top, bottom), (left, right) = attrs.pads[1:3]
    channels = source.channels
    stage = ConvStage(
        op.name,
        "Conv",
        (source,),
        output,
        op.origin,
        tiling=Tiling(ConvMode.DEPTHWISE, 1, 1, 1, 1, channels),
        weights=np.ones(channels, np.int8),
        window=(1, 1),
        strides=(1, 1),
        pads=(top, left, bottom, right),
        simd=Simd.S8X8,
        zfbias=int(np.clip(zero + round(attrs.value / scale), -128, 127)),
        shift_o=0,
    )
    context.define(op.outputs[0], moved(context, op, context.emit(stage)))
