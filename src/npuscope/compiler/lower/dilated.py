"""A dilated depthwise convolution as a plain one.

Pixels that lie a dilation apart go into channels of their own (space-to-depth); there the kernel
has no holes; its sums go back (depth-to-space) before they are brought to the output's scale.
The vendor's compiler does so in builds of 2.0 to 2.2 of two networks: one with 3x3 kernels and
dilations 4, 8 and 12 (DeepLab), one with 1x3 kernels and dilations 2 and 4 (STFT-TCNN).
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.compiler.lower.context import Lowering
from npuscope.compiler.lower.moves import channel_copy
from npuscope.compiler.lower.pad import pad_stage
from npuscope.compiler.lower.pieces import pack_weights
from npuscope.compiler.lower.software import call_stage
from npuscope.compiler.stages import ConvStage, Value
from npuscope.geometry.tiling import ConvMode, Tiling, depthwise_tiling
from npuscope.graph.model import Op
from npuscope.ops.images import BlockAttrs, DepthOrder
from npuscope.ops.layers import ConvAttrs
from npuscope.program.modes import Simd
from npuscope.rulebook import refusals

Array = np.ndarray


class Dilated(Struct, frozen=True):
    """The layer as the units see it; `taps` are its weights without the holes."""

    op: Op
    features: Value
    simd: Simd
    fsub: int
    taps: Array
    attrs: ConvAttrs
    sums: Value
    shift_o: int

    @property
    def block(self) -> tuple[int, int]:
        return self.attrs.dilations

    @property
    def missing(self) -> tuple[int, int]:
        """Rows and columns that fill the map up to whole blocks."""
        height, width, _ = self.features.shape
        return -height % self.block[0], -width % self.block[1]


def dilated_sums(context: Lowering, layer: Dilated) -> Value:
    """[Pad ->] SpaceToDepth -> Conv -> DepthToSpace [-> crop]: the sums of the layer."""
    features = _filled(context, layer) if any(layer.missing) else layer.features
    deep = _moved(context, layer, "SpaceToDepth", features, _deep(features, layer.block))
    deep_sums = _convolved(context, layer, deep)
    if not any(layer.missing):
        return _moved(context, layer, "DepthToSpace", deep_sums, layer.sums)
    height, width, channels = layer.sums.shape
    down, across = layer.missing
    wide = layer.sums.named(
        f"{layer.sums.name}.wide", shape=(height + down, width + across, channels)
    )
    return _cropped(context, layer, _moved(context, layer, "DepthToSpace", deep_sums, wide))


def _filled(context: Lowering, layer: Dilated) -> Value:
    """The map with rows and columns of its zero point behind it."""
    (down, across), (height, width, channels) = layer.missing, layer.features.shape
    source = _single_channels(context, layer, layer.features)
    output = layer.features.named(
        f"{layer.op.name}.filled",
        shape=(height + down, width + across, channels),
        tensor="",
        batch=0,
        pitch=0,
        first=0,
    )
    name = f"{layer.op.name}.fill"
    pads = (0, 0, down, across)
    return context.emit(pad_stage(name, source, output, pads, layer.fsub, layer.op.origin))


def _single_channels(context: Lowering, layer: Dilated, value: Value) -> Value:
    """For kernels of one channel, in generations that feed those from a channel-first copy."""
    if not context.machine.generation.depthwise_odd_copy or value.stored_batch == 1:
        return value
    return channel_copy(context, value, 1, layer.op.origin)


def _deep(value: Value, block: tuple[int, int]) -> Value:
    height, width, channels = value.shape
    down, across = block
    return value.named(
        f"{value.name}.in_{down}x{across}",
        shape=(height // down, width // across, channels * down * across),
        tensor="",
        batch=0,
        pitch=0,
        first=0,
    )


def _moved(context: Lowering, layer: Dilated, kernel: str, source: Value, output: Value) -> Value:
    down, across = layer.block
    attrs = BlockAttrs(down, DepthOrder.DCR, across if across != down else 0)
    source = context.image(context.gathered(source, layer.op.origin))
    trail = refusals(context.graph, layer.op, context.machine)
    stage = call_stage(context, layer.op, kernel, attrs, source, output, trail, hybrid=True)
    return context.emit(stage)


def _convolved(context: Lowering, layer: Dilated, features: Value) -> Value:
    """The kernel over each of the moved maps; its weights are stored once and read for each."""
    down, across = layer.block
    tiling = _tiling(context, layer, features)
    top, left, bottom, right = layer.attrs.pads
    pads = (top // down, left // across, bottom // down, right // across)
    kernel = layer.taps.shape[1:3]
    height = features.shape[0] + pads[0] + pads[2] - kernel[0] + 1
    width = features.shape[1] + pads[1] + pads[3] - kernel[1] + 1
    if tiling.depth == 1:
        features = _single_channels(context, layer, features)
    sums = layer.sums.named(
        f"{layer.sums.name}.in_{down}x{across}", shape=(height, width, features.channels)
    )
    return context.emit(
        ConvStage(
            layer.op.name,
            "Conv",
            (features,),
            sums,
            layer.op.origin,
            tiling=tiling,
            weights=pack_weights(layer.taps, tiling),
            weight_turns=down * across,
            window=kernel,
            strides=(1, 1),
            pads=pads,
            simd=layer.simd,
            fsub=layer.fsub,
            shift_o=layer.shift_o,
        )
    )


def _tiling(context: Lowering, layer: Dilated, features: Value) -> Tiling:
    """Small maps: generations that put depthwise kernels into large groups do not do it here."""
    channels, kernel = layer.taps.shape[0], layer.taps.shape[1:3]
    turns = features.channels // channels
    if context.machine.generation.depthwise == "inflated":
        return Tiling(ConvMode.DEPTHWISE, 1, 1, 1, 1, features.channels)
    tiling = depthwise_tiling(
        channels, kernel, (1, 1), layer.simd, context.machine, features.shape[:2]
    )
    return Tiling(tiling.mode, tiling.kernels, tiling.depth, 1, 1, tiling.tiles * turns)


def _cropped(context: Lowering, layer: Dilated, wide: Value) -> Value:
    """What was filled up is left out again, by kernels of 1 on 16-bit sums."""
    channels, (down, across) = wide.channels, layer.missing
    return context.emit(
        ConvStage(
            f"{layer.op.name}.crop",
            "Conv",
            (_single_channels(context, layer, wide),),
            layer.sums,
            layer.op.origin,
            tiling=Tiling(ConvMode.DEPTHWISE, 1, 1, 1, 1, channels),
            weights=np.ones(channels, np.int16),
            window=(1, 1),
            strides=(1, 1),
            pads=(0, 0, 0, 0),
            crop=(0, 0, down, across),
            simd=Simd.S16X16,
            shift_o=0,
        )
    )
