"""Kernels cut into what the unit takes, and weights in the order in which the kernel engine
delivers them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from msgspec import Struct

from npuscope.geometry.divisors import largest_divisor, whole_and_rest
from npuscope.geometry.pieces import Span, extent, kernel_spans
from npuscope.geometry.tiling import Tiling
from npuscope.machine.model import Machine
from npuscope.ops.layers import ConvAttrs
from npuscope.program.unit_words import DEEP_BYTES
from npuscope.structs import replace

Array = np.ndarray
Pads = tuple[int, int, int, int]


class ConvKernel(Struct, frozen=True):
    """Weights (O, kh, kw, I / groups), possibly dilated.

    The holes of a dilation count as zeros, which take memory only in the pieces that are cut out.
    """

    taps: Array
    dilations: tuple[int, int] = (1, 1)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        outputs, height, width, inputs = self.taps.shape
        return outputs, *extent((height, width), self.dilations), inputs

    def outputs(self, some: slice) -> ConvKernel:
        return ConvKernel(self.taps[some], self.dilations)

    def window(self, rows: Span, columns: Span) -> Array:
        if self.dilations == (1, 1):
            return self.taps[:, slice(*rows), slice(*columns)]
        outputs, _, _, inputs = self.shape
        size = rows[1] - rows[0], columns[1] - columns[0]
        part = np.zeros((outputs, *size, inputs), self.taps.dtype)
        down, across = self.dilations
        (top, rows_of), (left, columns_of) = _taps(rows, down), _taps(columns, across)
        part[:, top::down, left::across] = self.taps[:, rows_of, columns_of]
        return part


def _taps(span: Span, distance: int) -> tuple[int, slice]:
    """Where the first tap of a span lies in it, and which taps it has."""
    first, end = -(-span[0] // distance), -(-span[1] // distance)
    return first * distance - span[0], slice(first, end)


class Piece(Struct, frozen=True):
    """A window of a kernel, with the input it sees: padding where there is some, else a crop."""

    rows: Span
    columns: Span
    pads: Pads  # top, left, bottom, right
    crop: Pads  # rows and columns left out, same order
    channels: Span | None = None  # (first, count) of the input channels, all when None
    tiled_inputs: int = 0  # channels that the tiling is chosen for, the piece's own when 0

    @property
    def window(self) -> tuple[int, int]:
        return self.rows[1] - self.rows[0], self.columns[1] - self.columns[0]

    def meets(self, height: int, width: int) -> bool:
        """Some tap lies on the image; the others of the piece see padding alone."""
        top, left, bottom, right = self.crop
        return max(top, bottom) < height and max(left, right) < width

    def of(self, kernel: ConvKernel) -> Array:
        window = kernel.window(self.rows, self.columns)
        if self.channels is None:
            return window
        first, count = self.channels
        return window[..., first : first + count]


def cut(
    window: tuple[int, int], strides: tuple[int, int], pads: Pads, machine: Machine
) -> list[Piece]:
    """The pieces of a kernel, row by row."""
    spans = kernel_spans(window, strides, machine)
    return [_piece(rows, columns, window, pads) for rows, columns in spans]


def windows(
    kernel: ConvKernel, attrs: ConvAttrs, size: tuple[int, int], machine: Machine
) -> list[Piece]:
    """The pieces that meet an image of `size`; what sees padding alone adds nothing."""
    pieces = cut(kernel.shape[1:3], attrs.strides, attrs.pads, machine)
    if len(pieces) > 1 and attrs.dilations != (1, 1):
        pieces = tightened(pieces, kernel, attrs.pads)
    return [piece for piece in pieces if piece.meets(*size)]


def blank(
    attrs: ConvAttrs, kernel: ConvKernel, size: tuple[int, int], output: tuple[int, ...]
) -> tuple[ConvAttrs, ConvKernel]:
    """No tap meets the image, all sums are 0: so are those of a single tap that is 0."""
    rows, columns = ((n - 1) * s + 1 for n, s in zip(output[:2], attrs.strides, strict=True))
    pads = (0, 0, rows - size[0], columns - size[1])
    return replace(attrs, pads=pads, dilations=(1, 1)), ConvKernel(
        np.zeros_like(kernel.taps[:, :1, :1])
    )


def _piece(rows: Span, columns: Span, window: tuple[int, int], pads: Pads) -> Piece:
    """A piece that starts lower in the kernel sees the input, or its padding, from there on."""
    before = rows[0], columns[0], window[0] - rows[1], window[1] - columns[1]
    if not any(before) and min(pads) >= 0:  # the whole kernel
        return Piece(rows, columns, pads, (0, 0, 0, 0))
    sides = [(pad, offset) for pad, offset in zip(pads, before, strict=True)]
    top, left, bottom, right = (max(0, pad - offset) for pad, offset in sides)
    out_top, out_left, out_bottom, out_right = (max(0, offset - pad) for pad, offset in sides)
    crop = (out_top, out_left, out_bottom, out_right)
    return Piece(rows, columns, (top, left, bottom, right), crop)


def tightened(pieces: list[Piece], kernel: ConvKernel, pads: Pads) -> list[Piece]:
    """Pieces of a kernel with holes, reduced to the taps they have; an empty one keeps one tap.

    The vendor's compiler runs the empty ones too, but its weights are no larger for the holes.
    """
    tight = []
    for piece in pieces:
        taps = np.argwhere(kernel.window(piece.rows, piece.columns).any(axis=(0, 3)))
        low, high = (taps.min(axis=0), taps.max(axis=0)) if len(taps) else ((0, 0), (0, 0))
        rows = piece.rows[0] + int(low[0]), piece.rows[0] + int(high[0]) + 1
        columns = piece.columns[0] + int(low[1]), piece.columns[0] + int(high[1]) + 1
        tight.append(_piece(rows, columns, kernel.shape[1:3], pads))
    return tight


# --- Channel counts without good divisors, cut in two (generation `open`) ---
#
# A tile takes a divisor of the channels: of 257 that is 1. Cut into 240 and 17, the larger part
# fills whole tiles and the rest takes one.

ChannelSpan = tuple[int, int]


def good_parts(channels: int, limit: int) -> list[ChannelSpan]:
    """(first, count) of parts that tiles of up to `limit` channels cut well."""
    if channels <= limit or 2 * largest_divisor(channels, limit) >= limit:
        return [(0, channels)]
    whole, rest = whole_and_rest(channels, limit)
    return [(0, whole), (whole, rest)]


def channel_parts(
    inputs: int, depth: int, machine: Machine, tile: Callable[[int], Tiling]
) -> list[tuple[ChannelSpan, int]]:
    """Parts of the input channels, and the count that each part's tiling is chosen for (0: its
    own): by good divisors where the generation looks for them, and a part with more passes than
    the registers count is cut again."""
    most, splits = machine.convacc.max_passes, machine.generation.splits_odd_channels
    pieces: list[tuple[ChannelSpan, int]] = []
    for span in good_parts(inputs, depth) if splits else [(0, inputs)]:
        tiling = tile(span[1])
        cut_again = tiling.passes > most
        parts = within_passes(span, tiling, most) if cut_again else [span]
        pieces += [(part, span[1] if cut_again else 0) for part in parts]
    return pieces


def within_passes(span: ChannelSpan, tiling: Tiling, most: int) -> list[ChannelSpan]:
    """The channels of a tiling in parts of at most `most` accumulation passes, nearly equal."""
    first, _ = span
    step, parts = tiling.pipe * tiling.depth, -(-tiling.passes // most)
    ends = [tiling.passes * number // parts * step for number in range(parts + 1)]
    return [(first + start, end - start) for start, end in pairwise(ends)]


# --- Weights in the order in which the kernel engine delivers them ---

DEEP_BLOCK = 8  # kernels that a Deep1x1 word row interleaves


def pack_weights(weights: Array, tiling: Tiling) -> Array:
    """(O, kh, kw, I / groups) to bytes: tile > pass > unit in the pipe > the unit's own order."""
    if tiling.grouped:
        return _pack_grouped(weights, tiling)
    # One row per (tile, pass, unit): kernels of nK x kh x kw x B.
    _, kh, kw, _ = weights.shape
    split = weights.reshape(
        tiling.tiles, tiling.kernels, kh, kw, tiling.passes, tiling.pipe, tiling.depth
    )
    ordered = split.transpose(0, 4, 5, 1, 2, 3, 6)
    sets = ordered.reshape(-1, tiling.kernels, kh, kw, tiling.depth)
    return _deep(sets) if tiling.deep else np.ascontiguousarray(sets).reshape(-1)


def _deep(sets: Array) -> Array:
    """Sub-blocks of eight kernels, each channel by channel; every set padded to whole words."""
    flat = sets.reshape(len(sets), sets.shape[1], -1)
    count, kernels, depth = flat.shape
    size = kernels * depth
    packed = np.zeros((count, size + -size % DEEP_BYTES), sets.dtype)
    whole = kernels - kernels % DEEP_BLOCK
    blocks = flat[:, :whole].reshape(count, -1, DEEP_BLOCK, depth).swapaxes(2, 3)
    packed[:, : whole * depth] = blocks.reshape(count, -1)
    packed[:, whole * depth : size] = flat[:, whole:].swapaxes(1, 2).reshape(count, -1)
    return packed.reshape(-1)


def _pack_grouped(weights: Array, tiling: Tiling) -> Array:
    """Depthwise kernels on the diagonal of groups of B x B, zeros elsewhere; groups that have
    several channels of their own as they are."""
    channels, kh, kw, inputs = weights.shape
    group = tiling.depth
    if inputs == group:
        return np.ascontiguousarray(weights).reshape(-1)
    inflated = np.zeros((channels // group, group, kh, kw, group), weights.dtype)
    per_group = weights.reshape(channels // group, group, kh, kw)
    for lane in range(group):
        inflated[:, lane, :, :, lane] = per_group[:, lane]
    return inflated.reshape(-1)
