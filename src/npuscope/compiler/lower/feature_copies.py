"""Which layers read a copy of their features, in blocks of the channels that they take at a time.

Read off the registers of public builds of 2.0 to 2.2: later ones make no such copies.
"""

from __future__ import annotations

from math import prod

from npuscope.compiler.lower.context import Lowering, conv_before, made_frame
from npuscope.compiler.lower.layer import ConvLayer
from npuscope.geometry.tiling import Tiling
from npuscope.machine.model import ConvaccLimits
from npuscope.program.modes import Simd

_COPIES = 3  # the optimization level from which features are copied for their reader [code]


def copied_channels(context: Lowering, layer: ConvLayer, tiling: Tiling) -> int:
    """Channels that lie together in a copy for the layer; 0: none is made."""
    if not context.machine.generation.depthwise_odd_copy:
        return 0
    depth = tiling.depth
    copied = (_for_depthwise if layer.depthwise else _for_dense)(context, layer, tiling)
    return depth if copied and layer.features.stored_batch != depth else 0


def _for_depthwise(context: Lowering, layer: ConvLayer, tiling: Tiling) -> bool:
    """One-channel kernels are fed from single planes. With -O3, kernels in 16x8 mode and those on
    tiny maps are fed from blocks, if they read memory at all."""
    if tiling.depth == 1:
        return True
    conv = conv_before(context, layer.features)
    streams = conv is not None and conv.tiling.kernels == tiling.depth
    if context.optimization < _COPIES or streams:
        return False
    tiny = _frame_bytes(layer, tiling) < context.machine.convacc.tiny_frame_bytes
    return tiny or (layer.simd is Simd.S16X8 and tiling.kernels == tiling.depth)


def _for_dense(context: Lowering, layer: ConvLayer, tiling: Tiling) -> bool:
    """With -O3 in 16x8 mode, where features are read often and are not made in such frames. Of one
    pixel all channels lie in a row as they are."""
    if context.optimization < _COPIES or layer.simd is not Simd.S16X8:
        return False
    if prod(layer.features.shape[:2]) == 1 or made_frame(context, layer.features) == tiling.depth:
        return False
    return _reads_often(layer, tiling, context.machine.convacc)


def _reads_often(layer: ConvLayer, tiling: Tiling, limits: ConvaccLimits) -> bool:
    """Once for each tile of outputs: 1x1 kernels where a frame is small beside the number of tiles
    [code: 24 of 24 layers, and 59 of 59 that have no copy], wider ones from a number of tiles on
    [code: 51 of 52, and 14 of 22 without]."""
    if layer.kernel.shape[1:3] == (1, 1):
        return _frame_bytes(layer, tiling) < limits.tiny_frame_bytes * tiling.tiles
    return tiling.tiles >= limits.copied_from_tiles


def _frame_bytes(layer: ConvLayer, tiling: Tiling) -> int:
    return prod(layer.features.shape[:2]) * tiling.depth
