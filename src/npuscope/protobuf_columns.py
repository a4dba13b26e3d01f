"""Protobuf of many records of one shape: a table of bytes, written column by column.

A varint may have more bytes than its value needs. With the widths of a column's largest value all
records of a table have their fields at the same places, and numpy writes a column at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from npuscope.protobuf import varint

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
_VARINT_BITS = 7


class Literal(Struct, frozen=True):
    """The same bytes in every record."""

    data: bytes

    @property
    def width(self) -> int:
        return len(self.data)

    def fill(self, out: Bytes, rows: slice) -> None:
        out[:] = np.frombuffer(self.data, np.uint8)


class Varints(Struct, frozen=True, dict=True):
    """One number per record; those below zero take ten bytes."""

    values: NDArray[np.integer]

    @cached_property
    def width(self) -> int:
        if len(self.values) == 0:
            return 1
        return 10 if self.values.min() < 0 else len(varint(int(self.values.max())))

    def fill(self, out: Bytes, rows: slice) -> None:
        fill_varints(out, self.values[rows])


class Fixed64(Struct, frozen=True):
    """Eight bytes per record, little endian."""

    values: NDArray[np.generic]
    width = 8

    def fill(self, out: Bytes, rows: slice) -> None:
        values = self.values[rows]
        little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        out[:] = little.view(np.uint8).reshape(len(values), 8)


Piece = Literal | Varints | Fixed64


def fill_varints(out: Bytes, values: NDArray[np.integer]) -> None:
    """All columns of `out` are used; numbers keep their 64-bit two's complement."""
    rest = values.astype(np.int64).view(np.uint64)
    for place in range(out.shape[1]):
        np.bitwise_or(rest.astype(np.uint8), 0x80, out=out[:, place])
        rest >>= np.uint64(_VARINT_BITS)
    out[:, -1] &= 0x7F


class Part(Struct, frozen=True, dict=True):
    """Neighbouring pieces that a record has or has not; `present` None stands for all."""

    pieces: tuple[Piece, ...]
    present: Mask | None = None

    @cached_property
    def width(self) -> int:
        return sum(piece.width for piece in self.pieces)

    def fill(self, out: Bytes, rows: slice) -> None:
        at = 0
        for piece in self.pieces:
            piece.fill(out[:, at : at + piece.width], rows)
            at += piece.width


def sizes(parts: Sequence[Part], count: int) -> NDArray[np.int32]:
    """Bytes of each record."""
    total = np.zeros(count, np.int32)
    for part in parts:
        total += part.width if part.present is None else part.present * np.int32(part.width)
    return total


def table(parts: Sequence[Part], rows: slice) -> Bytes:
    """The bytes of the records, one after the other, without the parts that they do not have."""
    out = np.empty((rows.stop - rows.start, sum(part.width for part in parts)), np.uint8)
    at = 0
    for part in parts:
        part.fill(out[:, at : at + part.width], rows)
        at += part.width
    if all(part.present is None for part in parts):
        return out.reshape(-1)
    return out[_kept(parts, rows, out.shape)]


def _kept(parts: Sequence[Part], rows: slice, shape: tuple[int, ...]) -> Mask:
    mask = np.ones(shape, bool)
    at = 0
    for part in parts:
        if part.present is not None:
            mask[:, at : at + part.width] = part.present[rows, None]
        at += part.width
    return mask


def inserted(
    flat: Bytes, places: NDArray[np.int64], sizes: NDArray[np.int64], more: Bytes
) -> Bytes:
    """`flat` with pieces of `more` at ascending places: sizes[i] bytes in front of places[i]."""
    runs = np.empty(2 * len(places) + 1, np.int64)
    runs[0::2] = np.diff(places, prepend=0, append=len(flat))
    runs[1::2] = sizes
    is_new = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    out = np.empty(len(flat) + len(more), np.uint8)
    out[is_new] = more
    out[~is_new] = flat
    return out
