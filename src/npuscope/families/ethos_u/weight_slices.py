"""Slices of a weight stream: bits, headers, and the codes of a palette."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError

Array = np.ndarray[Any, np.dtype[Any]]
WHERE = "weight stream"
CHUNK, SHORT_CHUNK = 12, 8  # bits of quotients
MOST_WEIGHTS = 1 << 26
_MOST_CODES = 1 << 9
_ZERO_RUNS_OFF, _END = 6, 7  # values of the header's first field
_UNCOMPRESSED = 7  # of the weights' divisor


class Bits:
    def __init__(self, data: bytes) -> None:
        self.size, self.place = 8 * len(data), 0
        self.data = data + bytes(8)
        self.words = np.empty(len(data) + 4, np.uint32)  # from every byte on
        for first in range(4):
            count = len(self.words[first::4])
            self.words[first::4] = np.frombuffer(self.data, "<u4", count, first)

    def peek(self, place: int, count: int) -> int:
        """Up to 24 bits."""
        byte = place >> 3
        word = int.from_bytes(self.data[byte : byte + 4], "little")
        return word >> (place & 7) & (1 << count) - 1

    def take(self, count: int) -> int:
        if self.place + count > self.size:
            raise FileError("the weights end in the middle of a number", where=WHERE)
        value = self.peek(self.place, count)
        self.place += count
        return value

    def words_at(self, places: Array) -> Array:
        """25 bits at least from each place on; places behind the end, which only numbers have that
        a slice leaves out, give anything."""
        words: Array = self.words.take(places >> 3, mode="clip") >> (places & 7).astype(np.uint32)
        return words

    def at(self, places: Array, width: int) -> Array:
        numbers: Array = (self.words_at(places) & (1 << width) - 1).astype(np.int64)
        return numbers


class Palette(Struct, frozen=True):
    """What the numbers of a slice stand for."""

    size: int  # the first numbers, in any order of weights; the others count on
    plain_bits: int  # of a weight that is neither compressed nor one of them
    weights: Array  # of all numbers

    def weights_at(self, numbers: Array) -> Array:
        if int(numbers.max()) >= len(self.weights):
            raise FileError("a weight has more than 9 bits", where=WHERE)
        return self.weights.take(numbers)


class Slice(Struct, frozen=True):
    """A header, and the palette that it defines or leaves."""

    count: int
    run_bits: int | None  # of a remainder of a run of zeros; None: there are no runs
    weight_bits: int
    truncated: bool
    uncompressed: bool
    new_palette: bool
    palette: Palette

    @property
    def runs(self) -> int:
        return 0 if self.run_bits is None else self.count + self.new_palette


def headers(bits: Bits) -> Iterator[Slice]:
    """Each slice, once the one before was read. A mark of the end may be padding before more."""
    palette: Palette | None = None
    while bits.size - bits.place >= 3:
        runs = bits.take(3)
        if runs == _END:
            bits.place += -bits.place % 8
            palette = None
            continue
        if runs > 3 and runs != _ZERO_RUNS_OFF:
            raise FileError(f"runs of zeros have no divisor {runs}", where=f"bit {bits.place}")
        fields = bits.take(20)
        count, divisor = (fields & 0x7FFF) + 1, fields >> 15 & 7
        truncated, new_palette = bool(fields >> 18 & 1), bool(fields >> 19)
        if new_palette:
            palette = _palette(bits)
        if palette is None:
            raise FileError("the first slice has no palette", where=f"bit {bits.place}")
        uncompressed = divisor == _UNCOMPRESSED
        if uncompressed:
            divisor = (palette.size - 1).bit_length() if palette.size else palette.plain_bits
        yield Slice(
            count,
            None if runs == _ZERO_RUNS_OFF else runs,
            divisor,
            truncated,
            uncompressed,
            new_palette,
            palette,
        )


def _palette(bits: Bits) -> Palette:
    offset, last, plain_bits = bits.take(5), bits.take(5), bits.take(3) + 2
    size = last + 1 if last else 0
    codes = np.arange(_MOST_CODES) - size + offset
    codes[:size] = [bits.take(plain_bits) for _ in range(size)]
    return Palette(size, plain_bits, weights_of(codes))


def weights_of(codes: Array) -> Array:
    """From sign in bit 0 and magnitude above."""
    return np.where(codes & 1, -(codes >> 1), codes >> 1).astype(np.int16)
