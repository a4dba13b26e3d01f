"""Compressed weights back to numbers.

A stream is a row of slices. A slice begins with a header, and codes weights and, in turn with them,
lengths of runs of zeros, both as Golomb-Rice numbers: quotients in unary and remainders of a fixed
width. Quotients come in chunks of 12 bits, and the remainders of a chunk follow the quotients of
the next one. Where a chunk begins depends on the one before, so a walk over the chunks comes first;
all numbers are then taken out at once.

U85 has a second, plain format for its fast decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError

_Array = np.ndarray[Any, np.dtype[Any]]

_ZERO_RUNS_OFF, _END = 6, 7  # values of the header's first field
_UNCOMPRESSED = 7  # of the weights' divisor
_CHUNK, _SHORT_CHUNK = 12, 8
_AHEAD = 8  # weights may be ahead of the runs of zeros by so many
_MOST_WEIGHTS = 1 << 26
_MOST_CODES = 1 << 9
_ONES = [number.bit_count() for number in range(1 << _CHUNK)]
_ONES_ARRAY = np.array(_ONES)
_WHERE = "weight stream"


class _Bits:
    def __init__(self, data: bytes) -> None:
        self.size, self.place = 8 * len(data), 0
        self.data = data + bytes(8)
        bytes_ = np.frombuffer(self.data, np.uint8).astype(np.uint32)
        self.words = bytes_[:-3] | bytes_[1:-2] << 8 | bytes_[2:-1] << 16 | bytes_[3:] << 24

    def peek(self, place: int, count: int) -> int:
        """Up to 24 bits."""
        byte = place >> 3
        word = int.from_bytes(self.data[byte : byte + 4], "little")
        return word >> (place & 7) & (1 << count) - 1

    def take(self, count: int) -> int:
        if self.place + count > self.size:
            raise FileError("the weights end in the middle of a number", where=_WHERE)
        value = self.peek(self.place, count)
        self.place += count
        return value

    def at(self, places: _Array, width: int) -> _Array:
        words = self.words[places >> 3] >> (places & 7).astype(np.uint32)
        numbers: _Array = (words & (1 << width) - 1).astype(np.int64)
        return numbers


class _Slice(Struct, frozen=True):
    """A header, and the palette that it defines or leaves."""

    count: int
    run_bits: int | None  # of a remainder of a run of zeros; None: there are no runs
    weight_bits: int
    truncated: bool
    uncompressed: bool
    new_palette: bool
    palette: _Array  # of 9-bit codes: sign in bit 0, magnitude above
    direct_offset: int
    plain_bits: int  # of a weight that is neither compressed nor in a palette

    @property
    def runs(self) -> int:
        return 0 if self.run_bits is None else self.count + self.new_palette


def decode_weights(data: bytes) -> _Array:
    """All weights of a stream, in its order, as int16."""
    bits = _Bits(data)
    parts: list[_Array] = []
    total = 0
    for head in _headers(bits):
        parts.append(_slice_values(bits, head))
        total += len(parts[-1])
        if total > _MOST_WEIGHTS:
            raise FileError("a weight stream has too many weights", where=_WHERE)
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)


def _headers(bits: _Bits) -> Iterator[_Slice]:
    """Each slice, once the one before was read. A mark of the end may be padding before more."""
    last: _Slice | None = None
    while bits.size - bits.place >= 3:
        runs = bits.take(3)
        if runs == _END:
            bits.place += -bits.place % 8
            last = None
            continue
        if runs > 3 and runs != _ZERO_RUNS_OFF:
            raise FileError(f"runs of zeros have no divisor {runs}", where=f"bit {bits.place}")
        count, divisor = bits.take(15) + 1, bits.take(3)
        truncated, new_palette = bool(bits.take(1)), bool(bits.take(1))
        if new_palette:
            offset, size, plain_bits = bits.take(5), bits.take(5), bits.take(3) + 2
            palette = np.array(
                [bits.take(plain_bits) for _ in range(size + 1 if size else 0)], np.int64
            )
        elif last is not None:
            offset, palette, plain_bits = last.direct_offset, last.palette, last.plain_bits
        else:
            raise FileError("the first slice has no palette", where=f"bit {bits.place}")
        uncompressed = divisor == _UNCOMPRESSED
        if uncompressed:
            divisor = (len(palette) - 1).bit_length() if len(palette) else plain_bits
        last = _Slice(
            count,
            None if runs == _ZERO_RUNS_OFF else runs,
            divisor,
            truncated,
            uncompressed,
            new_palette,
            palette,
            offset,
            plain_bits,
        )
        yield last


def _slice_values(bits: _Bits, head: _Slice) -> _Array:
    weight_track, run_track = _walk(bits, head)
    indices = _numbers(bits, weight_track, _weight_steps(bits, weight_track, head))[: head.count]
    if int(indices.max()) >= _MOST_CODES:
        raise FileError("a weight has more than 9 bits", where=_WHERE)
    codes = indices - len(head.palette) + head.direct_offset
    inside = indices < len(head.palette)
    codes[inside] = head.palette[indices[inside]]
    values = np.where(codes & 1, -(codes >> 1), codes >> 1).astype(np.int16)
    if head.run_bits is None:
        return values
    width = _run_chunk(head)
    steps = bits.at(np.array(run_track.firsts), width)[:, None] >> np.arange(width) & 1
    runs = _numbers(bits, run_track, (steps, steps == 0))[: head.runs]
    total = head.count + int(runs.sum())
    if total > _MOST_WEIGHTS:
        raise FileError("a weight stream has too many weights", where=_WHERE)
    # Only a slice with a palette of its own may begin with zeros; else they follow their weight.
    before = np.cumsum(runs) if head.new_palette else np.cumsum(runs) - runs
    result = np.zeros(total, np.int16)
    result[np.arange(head.count) + before[: head.count]] = values
    return result


# --- The walk: where the parts of each chunk are ---


class _Track(Struct):
    """Places of the chunks of weights, or of runs."""

    remainder_bits: int
    firsts: list[int]  # quotients
    seconds: list[int]  # the second bits of quotients of weights
    remainders: list[int]


def _run_chunk(head: _Slice) -> int:
    return _SHORT_CHUNK if head.run_bits == 3 else _CHUNK


def _walk_weights(bits: _Bits, head: _Slice) -> _Track:
    """As `_walk`, for the many slices without runs of zeros."""
    firsts: list[int] = []
    words, place, width = bits.words.data, bits.place, head.weight_bits
    masks = [0 if head.truncated else (1 << ones) - 1 for ones in range(_CHUNK + 1)]
    count, last = 0, 0
    try:
        while count < head.count:
            firsts.append(place)
            word = words[place >> 3] >> (place & 7)
            ones = _ONES[word & 0xFFF]
            place += _CHUNK + ones + last * width
            last = _CHUNK - _ONES[word >> _CHUNK & masks[ones]]
            count += last
    except IndexError:
        place = bits.size + 1
    if place > bits.size or firsts[-1] > bits.size:
        raise FileError("the weights end in the middle of a slice", where=_WHERE)
    bits.place = place + (last - (count - head.count)) * width
    places = np.array(firsts)
    # those of a chunk follow the quotients of the next one
    quotients = places + _CHUNK + _ONES_ARRAY[bits.at(places, _CHUNK)]
    return _Track(width, firsts, (places + _CHUNK).tolist(), [*quotients[1:].tolist(), place])


def _walk(bits: _Bits, head: _Slice) -> tuple[_Track, _Track]:
    """Leaves the stream behind the slice."""
    if head.run_bits is None and not head.uncompressed:
        return _walk_weights(bits, head), _Track(0, [], [], [])
    weights = _Track(head.weight_bits, [], [], [])
    runs = _Track(head.run_bits or 0, [], [], [])
    try:
        bits.place = _walk_both(bits, head, weights, runs)
    except IndexError:
        bits.place = bits.size + 1
    if bits.place > bits.size:
        raise FileError("the weights end in the middle of a slice", where=_WHERE)
    return weights, runs


def _walk_both(bits: _Bits, head: _Slice, weights: _Track, runs: _Track) -> int:
    """Fills both tracks; the place behind the slice."""
    words, place, width, run_bits = bits.words.data, bits.place, head.weight_bits, head.run_bits
    run_chunk, plain, total, run_total = _run_chunk(head), _plain_chunk(head), head.count, head.runs
    run_mask = (1 << run_chunk) - 1
    masks = [0 if head.truncated else (1 << ones) - 1 for ones in range(_CHUNK + 1)]
    weight_count = run_count = weight_rest = run_rest = 0
    old_weights = old_runs = -1  # numbers in the chunk before; -1: there is none
    while True:
        ahead = weight_count - run_count if run_bits is not None else 0
        takes_weights = ahead < _AHEAD and weight_count < total
        takes_runs = ahead >= 0 and run_count < run_total
        new_weights = new_runs = -1
        first = place
        if takes_weights:
            weights.firsts.append(place)
            place += 0 if head.uncompressed else _CHUNK
        if takes_runs:
            runs.firsts.append(place)
            new_runs = run_chunk - _ONES[words[place >> 3] >> (place & 7) & run_mask]
            place += run_chunk
            run_count += new_runs
        if takes_weights:
            weights.seconds.append(place)
            new_weights = plain
            if not head.uncompressed:
                ones = _ONES[words[first >> 3] >> (first & 7) & 0xFFF]
                new_weights -= _ONES[words[place >> 3] >> (place & 7) & masks[ones]]
                place += ones
            weight_count += new_weights
        if old_weights >= 0:
            weights.remainders.append(place)
            place += min(old_weights, total - weight_rest) * width
            weight_rest += old_weights
        if old_runs >= 0:
            runs.remainders.append(place)
            place += min(old_runs, run_total - run_rest) * runs.remainder_bits
            run_rest += old_runs
        old_weights, old_runs = new_weights, new_runs
        if not (takes_weights or takes_runs):
            return place


def _plain_chunk(head: _Slice) -> int:
    return _SHORT_CHUNK if head.uncompressed and head.weight_bits > 5 else _CHUNK


# --- All numbers of a track at once ---


def _weight_steps(bits: _Bits, track: _Track, head: _Slice) -> tuple[_Array, _Array]:
    """For every bit of a chunk what it adds to a quotient, 0 to 2, and whether that ends there."""
    chunks = len(track.firsts)
    if head.uncompressed:
        shape = (chunks, _plain_chunk(head))
        return np.zeros(shape, np.int64), np.ones(shape, bool)
    first = bits.at(np.array(track.firsts), _CHUNK)[:, None] >> np.arange(_CHUNK) & 1
    second = bits.at(np.array(track.seconds), _CHUNK)[:, None]
    steps = first + (first & second >> np.cumsum(first, axis=1) - first)
    return steps, np.ones(steps.shape, bool) if head.truncated else steps < 2


def _numbers(bits: _Bits, track: _Track, steps: tuple[_Array, _Array]) -> _Array:
    sizes, ends = steps
    sums = np.cumsum(sizes.ravel())[ends.ravel()]
    quotients = np.diff(sums, prepend=0)
    counts = ends.sum(axis=1)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    order = np.arange(len(quotients)) - first
    places = np.repeat(np.array(track.remainders), counts) + order * track.remainder_bits
    # Behind the last number of a slice, quotients without a remainder fill up the chunk.
    places = np.minimum(places, bits.size)
    return (quotients << track.remainder_bits) + bits.at(places, track.remainder_bits)


# --- The format of the fast decoder ---

_FAST_HEADER = 32  # bytes
_FAST_TABLE_AT, _FAST_CODE_BITS, _FAST_TABLE = 112, 9, 16


def decode_fast_weights(data: bytes) -> _Array:
    """Raw bytes, or indices of 2 or 4 bits into a table of the header. Padding is left in."""
    if len(data) < _FAST_HEADER:
        raise FileError("weights for the fast decoder have a header of 32 bytes", where=_WHERE)
    bits = _Bits(data[:_FAST_HEADER])
    raw, small = bits.take(1), bits.take(1)
    body = np.frombuffer(data, np.uint8)[_FAST_HEADER:]
    if raw:
        adjust = int(np.uint8(data[13]).view(np.int8))
        return body.view(np.int8).astype(np.int16) - adjust
    places = _FAST_TABLE_AT + _FAST_CODE_BITS * np.arange(_FAST_TABLE)
    codes = bits.at(places, _FAST_CODE_BITS)
    table = np.where(codes & 1, -(codes >> 1), codes >> 1).astype(np.int16)
    width = 2 if small else 4
    indices = body[:, None] >> np.arange(0, 8, width, dtype=np.uint8) & (1 << width) - 1
    weights: _Array = table[indices.ravel()]
    return weights
