"""Kernels larger than the unit's, cut into pieces that are convolutions of their own.

Rows go in groups of three, columns in groups of six (twelve when strided). A dilated kernel is
filled up with zeros first, as the vendor's compiler does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.machine.model import Machine

Array = np.ndarray
Span = tuple[int, int]
Pads = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A window of a kernel, with the input it sees: padding where there is some, else a crop."""

    rows: Span
    columns: Span
    pads: Pads  # top, left, bottom, right
    crop: Pads  # rows and columns left out, same order
    channels: Span | None = None  # (first, count) of the input channels, all when None

    @property
    def window(self) -> tuple[int, int]:
        return self.rows[1] - self.rows[0], self.columns[1] - self.columns[0]

    def of(self, weights: Array) -> Array:
        window = weights[:, slice(*self.rows), slice(*self.columns)]
        if self.channels is None:
            return window
        first, count = self.channels
        return window[..., first : first + count]


def filled(weights: Array, dilations: tuple[int, int]) -> Array:
    """The kernel with the holes of its dilation as zeros."""
    if dilations == (1, 1):
        return weights
    outputs, height, width, inputs = weights.shape
    down, across = dilations
    size = (height - 1) * down + 1, (width - 1) * across + 1
    full = np.zeros((outputs, *size, inputs), weights.dtype)
    full[:, ::down, ::across] = weights
    return full


def cut(
    window: tuple[int, int], strides: tuple[int, int], pads: Pads, machine: Machine
) -> list[Piece]:
    """The pieces of a kernel, row by row."""
    limits = machine.convacc
    widest = limits.max_kernel_width if strides[1] == 1 else limits.max_kernel_width_strided
    return [
        _piece(rows, columns, window, pads)
        for rows in _spans(window[0], limits.max_kernel_height)
        for columns in _spans(window[1], widest)
    ]


def _spans(length: int, limit: int) -> list[Span]:
    return [(first, min(first + limit, length)) for first in range(0, length, limit)]


def _piece(rows: Span, columns: Span, window: tuple[int, int], pads: Pads) -> Piece:
    """A piece that starts lower in the kernel sees the input, or its padding, from there on."""
    before = rows[0], columns[0], window[0] - rows[1], window[1] - columns[1]
    sides = [(pad, offset) for pad, offset in zip(pads, before, strict=True)]
    top, left, bottom, right = (max(0, pad - offset) for pad, offset in sides)
    out_top, out_left, out_bottom, out_right = (max(0, offset - pad) for pad, offset in sides)
    crop = (out_top, out_left, out_bottom, out_right)
    return Piece(rows, columns, (top, left, bottom, right), crop)


def tightened(pieces: list[Piece], weights: Array, pads: Pads) -> list[Piece]:
    """Pieces of a kernel with holes, reduced to the taps they have; an empty one keeps one tap.

    The vendor's compiler runs the empty ones too, but its weights are no larger for the holes.
    """
    window = weights.shape[1], weights.shape[2]
    used = np.asarray(weights.any(axis=(0, 3)))
    return [_tight(piece, used, window, pads) for piece in pieces]


def _tight(piece: Piece, used: Array, window: tuple[int, int], pads: Pads) -> Piece:
    taps = np.argwhere(used[slice(*piece.rows), slice(*piece.columns)])
    low, high = (taps.min(axis=0), taps.max(axis=0)) if len(taps) else ((0, 0), (0, 0))
    rows = piece.rows[0] + int(low[0]), piece.rows[0] + int(high[0]) + 1
    columns = piece.columns[0] + int(low[1]), piece.columns[0] + int(high[1]) + 1
    return _piece(rows, columns, window, pads)
