"""Conv2D on the CONVACC units: zero point, tiling, row pieces, requantisation."""

from __future__ import annotations

from typing import cast

import numpy as np

from npuscope.compiler.lower.context import Lowering, quant_pair, require_batch_one, streamed_frame
from npuscope.compiler.lower.dilated import Dilated, dilated_sums
from npuscope.compiler.lower.feature_copies import copied_channels
from npuscope.compiler.lower.layer import ConvLayer
from npuscope.compiler.lower.moves import channel_copy, window
from npuscope.compiler.lower.pieces import (
    ConvKernel,
    Piece,
    blank,
    channel_parts,
    good_parts,
    pack_weights,
    windows,
)
from npuscope.compiler.lower.pool import LayerSums, kernels_for_pool, requantize_sums
from npuscope.compiler.lower.scaling import constant_of, layer_scaling
from npuscope.compiler.lower.software import SoftwarePiece, emit_software_piece
from npuscope.compiler.numbers import fine_enough_shift, safe_conv_shift
from npuscope.compiler.stages import ArithStage, ConvStage, PieceOrder, Value
from npuscope.geometry.pieces import piece_count
from npuscope.geometry.sums import conv_shift
from npuscope.geometry.tiling import (
    ConvMode,
    ConvShape,
    Tiling,
    choose_tiling,
    dense_limit,
    depthwise_tiling,
    grouped_tiling,
    runs_turned,
)
from npuscope.graph.limits import check_pieces
from npuscope.graph.model import Op
from npuscope.machine.model import TileLimit
from npuscope.ops.layers import ConvAttrs, DenseAttrs
from npuscope.program.modes import Simd
from npuscope.rulebook.conv import moves_pixels
from npuscope.structs import replace

Array = np.ndarray


_SUM_BITS, _LINK_BITS = 16, 24  # of sums in memory, of links between units in series


def lower_conv(context: Lowering, op: Op) -> None:
    """Conv2D -> [Sub] -> Conv pieces -> [Add of pieces] -> requantisation."""
    require_batch_one(context.graph.first_input(op), op)
    attrs = cast(ConvAttrs, op.attrs)
    kernel = ConvKernel(constant_of(context.graph, op.inputs[1]), attrs.dilations)
    if not moves_pixels(context.graph, op, context.machine):
        check_pieces(piece_count(kernel.shape[1:3], attrs.strides, context.machine), op.name)
    _emit_layer(context, op, attrs, kernel)


def lower_fully_connected(context: Lowering, op: Op) -> None:
    """A 1x1 convolution over one position per row."""
    weights = constant_of(context.graph, op.inputs[1])
    attrs = ConvAttrs(activation=cast(DenseAttrs, op.attrs).activation)
    _emit_layer(context, op, attrs, ConvKernel(weights[:, None, None, :]))


def _emit_layer(context: Lowering, op: Op, attrs: ConvAttrs, kernel: ConvKernel) -> None:
    """Emit all stages of one convolution-like op and define its output."""
    source = context.value(op.inputs[0])
    # The feature operand, and the mode that its zero point requires. 0 needs nothing; -128 is
    # shifted out by an ARITH stage; any other zero point is subtracted inside the unit, which then
    # works in 16x8 mode at half the speed.
    zero = quant_pair(source)[1]
    if zero == 0:
        features, simd, fsub = source, Simd.S8X8, 0
    elif zero == -128 and source.signed:
        features, simd, fsub = context.zero_removed(source, op.name, op.origin), Simd.S8X8, 0
    else:
        features, simd, fsub = source, Simd.S16X8, zero
    output = context.new_value(context.graph.output_tensor(op))
    scaling = layer_scaling(context.graph, op, source, output)
    max_kernels = kernels_for_pool(context, op, output.shape[1])
    frame = streamed_frame(context, features)
    layer = ConvLayer(op, features, simd, fsub, kernel, attrs, output, scaling, max_kernels, frame)
    if op.kind == "Conv2D" and moves_pixels(context.graph, op, context.machine):
        layer = replace(layer, moved=True)
    narrow = layer.out_size[1] == 1 and runs_turned(kernel.shape[1:3], layer.size)
    if narrow and not (layer.grouped or layer.moved):
        layer = _turned(layer)
        kernel = layer.kernel
    batch = 0
    if not layer.moved and (layer.depthwise or not layer.grouped):
        batch = copied_channels(context, layer, _tiling(context, layer, kernel.shape))
    # Pieces of a kernel that take other counts of channels could not read such blocks.
    if batch and all(
        _piece_tiling(context, layer, piece).depth == batch for piece in _pieces(context, layer)
    ):
        features = channel_copy(context, features, batch, op.origin)
        layer = replace(layer, features=features)
    for part in _output_parts(context, layer):
        _emit_part(context, part)
    context.define(op.outputs[0], output)


def _turned(layer: ConvLayer) -> ConvLayer:
    """The same layer on maps whose rows and columns change places."""
    attrs = layer.attrs
    top, left, bottom, right = attrs.pads
    turned = replace(
        attrs,
        strides=attrs.strides[::-1],
        pads=(left, top, right, bottom),
        dilations=attrs.dilations[::-1],
    )
    taps = np.ascontiguousarray(layer.kernel.taps.swapaxes(1, 2))
    kernel = ConvKernel(taps, turned.dilations)
    return replace(layer, attrs=turned, kernel=kernel, turned=True)


def _emit_part(context: Lowering, layer: ConvLayer) -> None:
    """Sums of a layer, brought to its output's scale."""
    pieces = [] if layer.moved else _pieces(context, layer)
    # Of a part of the outputs, or of all: no tap may meet the image.
    if not (layer.moved or pieces):
        attrs, kernel = blank(layer.attrs, layer.kernel, layer.size, layer.out_size)
        layer = replace(layer, attrs=attrs, kernel=kernel)
        pieces = _pieces(context, layer)
    shift_o = _shift(context, layer)
    if pieces and not layer.grouped and _is_wider_than_links(context, layer, pieces[0], shift_o):
        layer = replace(layer, alone=True)
        pieces = _pieces(context, layer)
        shift_o = _shift(context, layer)
    sums = _sums(context, layer, pieces, shift_o)
    both = context.machine.generation.per_channel_both_stages
    largest = _largest_sums(context, layer) if both else None
    layer_sums = LayerSums(sums, layer.scaling, shift_o, largest)
    requantize_sums(context, layer_sums, layer.output, layer.attrs.activation, layer.op.origin)


def _is_wider_than_links(context: Lowering, layer: ConvLayer, piece: Piece, shift_o: int) -> bool:
    """Sums that come back from memory enter the first of several units in series in full, and
    leave it on a link of 24 bits: where they are likely to be wider, one unit works alone."""
    tiling = _piece_tiling(context, layer, piece)
    if tiling.pipe == 1 or tiling.passes == 1:
        return False
    excess = _LINK_BITS - _SUM_BITS
    return shift_o > excess and safe_conv_shift(layer.usual_sums) > excess


def _output_parts(context: Lowering, layer: ConvLayer) -> list[ConvLayer]:
    """The layer, or two layers that write side by side into its output."""
    if layer.grouped or not context.machine.generation.splits_odd_channels:
        return [layer]
    limit = _tile_limit(context, layer).kernels
    spans = good_parts(layer.kernel.shape[0], limit)
    if len(spans) == 1:
        return [layer]
    parts = []
    for first, count in spans:
        some, scaling = slice(first, first + count), layer.scaling
        name = f"{layer.output.name}.from{first}"
        part = replace(
            layer,
            op=layer.op.replace(name=f"{layer.op.name}.from{first}"),
            kernel=layer.kernel.outputs(some),
            output=window(context, layer.output, name, first, count),
            scaling=replace(
                scaling, weight_scales=scaling.weight_scales[some], bias=scaling.bias[some]
            ),
        )
        parts.append(part)
    return parts


def _tile_limit(context: Lowering, layer: ConvLayer) -> TileLimit:
    """What a tile holds, whatever the width of kernel and map: parts are chosen by it."""
    if layer.kernel.shape[1:3] == (1, 1):
        return context.machine.convacc.tiles[ConvMode.PLAIN1X1.value]
    return dense_limit(layer.simd, context.machine)


def _sums(context: Lowering, layer: ConvLayer, pieces: list[Piece], shift_o: int) -> Value:
    """The convolution itself: 16-bit sums already shifted right."""
    if layer.moved:
        sums, kernel = _sums_value(layer), layer.kernel.taps
        units = layer.op, layer.features, layer.simd, layer.fsub
        return dilated_sums(context, Dilated(*units, kernel, layer.attrs, sums, shift_o))
    # Many pieces of a depthwise kernel do not go in pairs [code: a 7x7 layer of 2.1; how they are
    # added: fit, RAM and time of ProxylessNAS at 3.0 and 4.0].
    summed = layer.depthwise and not context.machine.generation.software_columns
    order = PieceOrder.of(len(pieces), layer.attrs.dilations != (1, 1), summed)
    if order in (PieceOrder.CHAIN, PieceOrder.SUMMED):  # each added to the sums so far
        total = _piece(context, layer, pieces[0], shift_o, 0, order)
        for number, piece in enumerate(pieces[1:], 1):
            part = _piece(context, layer, piece, shift_o, number, order)
            total = _join(context, layer, total, part, number)
        return total
    if any(piece.tiled_inputs for piece in pieces):
        order = PieceOrder.SERIES
    # The last piece is made first, so that the first one meets sums that are there.
    parts = [
        _piece(context, layer, pieces[number], shift_o, number, order)
        for number in reversed(range(len(pieces)))
    ]
    total = parts.pop()
    for number, part in enumerate(reversed(parts), len(pieces)):
        total = _join(context, layer, part, total, number)
    return total


def _sums_value(layer: ConvLayer, suffix: str = "") -> Value:
    return layer.output.named(
        f"{layer.output.name}.sums{suffix}",
        nbits=16,
        signed=True,
        quant=None,
        tensor="",
        pitch=0,
        first=0,
    )


def _pieces(context: Lowering, layer: ConvLayer) -> list[Piece]:
    """Windows of the kernel that meet the image, if any do, and parts of the input channels where
    these have no good divisors."""
    pieces = windows(layer.kernel, layer.attrs, layer.size, context.machine)
    if layer.depthwise:
        return sorted(pieces, key=lambda piece: _in_software(context, layer, piece))
    if layer.grouped or not pieces:
        return pieces
    *others, inputs = pieces[0].of(layer.kernel).shape
    depth = _tile_limit(context, layer).depth
    parts = channel_parts(
        inputs, depth, context.machine, lambda n: _tiling(context, layer, (*others, n))
    )
    if len(parts) == 1:
        return pieces
    return [replace(p, channels=s, tiled_inputs=n) for s, n in parts for p in pieces]


def _piece_tiling(context: Lowering, layer: ConvLayer, piece: Piece) -> Tiling:
    *others, inputs = piece.of(layer.kernel).shape
    tiling = _tiling(context, layer, (*others, piece.tiled_inputs or inputs))
    passes = inputs // (tiling.depth * tiling.pipe)
    return replace(tiling, passes=passes) if piece.tiled_inputs else tiling


def _in_software(context: Lowering, layer: ConvLayer, piece: Piece) -> bool:
    """Columns beyond the unit's width, which this generation runs on the CPU."""
    generation, attrs = context.machine.generation, layer.attrs
    plain = layer.depthwise and attrs.dilations == (1, 1)
    return plain and generation.software_columns and piece.columns[0] > 0


def _shift(context: Lowering, layer: ConvLayer) -> int:
    if not context.machine.generation.saturation_safe_shift:
        return conv_shift(layer.kernel.taps)
    safe = safe_conv_shift(_largest_sums(context, layer))
    roundings = 1  # times that the sums of one output are rounded to 16 bits
    if not layer.moved:
        pieces = _pieces(context, layer)
        roundings = sum(_piece_tiling(context, layer, piece).passes for piece in pieces)
    fine = fine_enough_shift(layer.scaling, roundings)
    if safe <= fine:
        return safe
    # Sums of very many products are either safe from any input or fine enough for the output.
    return min(safe, max(fine, safe_conv_shift(layer.likely_sums)))


def _largest_sums(context: Lowering, layer: ConvLayer) -> Array:
    """The sums that must not saturate, given the passes and pieces of the layer."""
    if layer.moved:
        return layer.largest_sums(1, False)
    pieces = _pieces(context, layer)
    passes = _piece_tiling(context, layer, pieces[0]).passes
    return layer.largest_sums(passes, len(pieces) > 1)


def _piece(
    context: Lowering,
    layer: ConvLayer,
    piece: Piece,
    shift_o: int,
    number: int,
    order: PieceOrder,
) -> Value:
    """One window of the kernel as a convolution of its own."""
    weights = piece.of(layer.kernel)
    features = layer.features
    if piece.channels is not None:
        name = f"{layer.op.name}.in{piece.channels[0]}.piece{number}"
        features = window(context, features, name, *piece.channels)
    suffix = "" if order is PieceOrder.WHOLE else f".piece{number}"
    sums = _sums_value(layer, suffix)
    if _in_software(context, layer, piece):
        part = SoftwarePiece(
            layer.op, features, layer.fsub, weights, piece, layer.attrs, shift_o, sums
        )
        return emit_software_piece(context, part)
    tiling = _piece_tiling(context, layer, piece)
    stage = ConvStage(
        f"{layer.op.name}{suffix}",
        "Conv",
        (features,),
        sums,
        layer.op.origin,
        tiling=tiling,
        weights=pack_weights(weights, tiling),
        weight_bits=context.graph.tensor(layer.op.inputs[1]).dtype.bits,
        window=piece.window,
        strides=layer.attrs.strides,
        pads=piece.pads,
        crop=piece.crop,
        order=order,
        simd=layer.simd,
        fsub=layer.fsub,
        shift_o=shift_o,
        turned=layer.turned,
    )
    return context.emit(stage)


def _tiling(context: Lowering, layer: ConvLayer, weights: tuple[int, ...]) -> Tiling:
    """Asked for several times a layer, and layers repeat."""
    key = (layer.form, weights)
    tiling = context.tilings.get(key)
    if tiling is None:
        tiling = context.tilings[key] = _choose_tiling(context, layer, weights)
    return tiling


def _choose_tiling(context: Lowering, layer: ConvLayer, weights: tuple[int, ...]) -> Tiling:
    outputs, kh, kw, inputs = weights
    if layer.depthwise:
        return depthwise_tiling(
            outputs,
            # The generation decides by the whole kernel, not by its pieces.
            layer.kernel.shape[1:3],
            layer.attrs.strides,
            layer.simd,
            context.machine,
            layer.size,
            layer.frame,
        )
    if layer.grouped:
        groups = layer.attrs.groups
        return grouped_tiling(groups, inputs, outputs // groups, layer.simd, context.machine)
    shape = ConvShape(
        inputs,
        outputs,
        (kh, kw),
        layer.size,
        layer.out_size,
        layer.attrs.strides,
    )
    return choose_tiling(
        shape, layer.simd, context.machine, context.optimization, layer.max_kernels, layer.alone
    )


def _join(context: Lowering, layer: ConvLayer, x: Value, y: Value, number: int) -> Value:
    """Add two partial results, both in the same 16-bit scale."""
    total = x.named(f"{layer.output.name}.joined{number}")
    one = np.array([1])
    return context.emit(
        ArithStage(
            f"{layer.op.name}.join{number}",
            "Add",
            (x, y),
            total,
            layer.op.origin,
            a=one,
            b=1,
            c=np.zeros(1, np.int64),
            shift=0,
        )
    )
