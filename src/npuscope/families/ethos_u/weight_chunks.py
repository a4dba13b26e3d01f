"""Slices without runs of zeros: chunks of quotients, each with the remainders of the one before.

Where a chunk begins depends on the two before it, so a walk goes from one to the next, with tables
of their bits and weights. All else is done for many chunks at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.families.ethos_u.weight_slices import CHUNK, WHERE, Array, Bits, Slice

_HALF, _WINDOW = CHUNK // 2, 3  # numbers of a table of steps, and in a word of remainders
_SECONDS = 1 << CHUNK
_SORTS = CHUNK + 1  # of chunks, by ones; and again by weights


class Walk(Struct, frozen=True):
    """A slice whose chunks are known: each has a sort, `ones * _SORTS + weights`."""

    head: Slice
    place: int  # of the first chunk
    sorts: bytes


@cache
def _sorts(truncated: bool) -> list[bytes]:
    """By the first bits of a chunk a table by its second bits, of which it has as many as ones."""
    seconds = np.arange(_SECONDS)
    tables = []
    for ones in range(_SORTS):
        twos = np.bitwise_count(seconds & (0 if truncated else (1 << ones) - 1))
        tables.append((ones * _SORTS + CHUNK - twos).astype(np.uint8).tobytes())
    return [tables[first.bit_count()] for first in range(1 << CHUNK)]


@cache
def _moves(width: int) -> list[tuple[int, int, int]]:
    """Bits of quotients, bits of remainders and weights of each sort."""
    sorts = (divmod(sort, _SORTS) for sort in range(_SORTS**2))
    return [(CHUNK + ones, weights * width, weights) for ones, weights in sorts]


def walked(bits: Bits, head: Slice) -> Walk:
    """Leaves the stream behind the slice."""
    tables, moves = _sorts(head.truncated), _moves(head.weight_bits)
    words, place, left = bits.words.data, bits.place, head.count
    sorts: list[int] = []
    remainders = 0
    try:
        while left > 0:
            word = words[place >> 3] >> (place & 7)
            sort = tables[word & 0xFFF][word >> 12 & 0xFFF]
            sorts.append(sort)
            quotients, own, weights = moves[sort]
            place += quotients + remainders
            remainders = own
            left -= weights
    except IndexError:
        place = bits.size + 1
    if place > bits.size:
        raise FileError("the weights end in the middle of a slice", where=WHERE)
    first, bits.place = bits.place, place + remainders + left * head.weight_bits
    return Walk(head, first, bytes(sorts))


def plain_values(bits: Bits, head: Slice) -> Array:
    """Of a slice without compression, which has no quotients."""
    first = bits.place
    bits.place += head.count * head.weight_bits
    if bits.place > bits.size:
        raise FileError("the weights end in the middle of a slice", where=WHERE)
    places = first + np.arange(head.count) * head.weight_bits
    return head.palette.weights_at(bits.at(places, head.weight_bits))


def chunk_values(bits: Bits, walks: Sequence[Walk]) -> list[Array]:
    """Weights of each slice; all have remainders of one width, and quotients of one form."""
    width, truncated = walks[0].head.weight_bits, walks[0].head.truncated
    sizes = [len(walk.sorts) for walk in walks]
    lasts = np.cumsum(sizes) - 1
    firsts = lasts[:-1] + 1
    sorts = np.frombuffer(b"".join(walk.sorts for walk in walks), np.uint8)
    quotients, counts = CHUNK + (sorts // _SORTS).astype(np.intp), sorts % _SORTS
    moves = quotients.copy()
    moves[1:] += counts[:-1] * width
    moves[firsts] = quotients[firsts]
    ends = np.cumsum(moves)
    ends += np.repeat([walk.place for walk in walks] - np.append(0, ends[firsts - 1]), sizes)
    words = bits.words_at(ends - moves)
    steps = chunk_steps(words, words >> CHUNK)
    closed = np.ones(steps.shape, bool) if truncated else steps < 2
    _close(steps, closed, counts, lasts)
    places = ends.copy()
    places[:-1] += quotients[1:]  # remainders follow the quotients of the next chunk
    places[lasts] = ends[lasts]
    numbers = chunk_numbers(steps, closed, width)
    numbers += remainders(bits, places, counts, width)
    edges = np.append(0, np.cumsum(counts, dtype=np.intp)[lasts]).tolist()
    return [
        walk.head.palette.weights_at(numbers[edge : edge + walk.head.count])
        for walk, edge in zip(walks, edges, strict=False)
    ]


@cache
def _half_steps() -> Array:
    """By first bits and, above them, second bits of half a chunk: 0, 1 or 2 of each place."""
    numbers = np.arange(1 << 2 * _HALF, dtype=np.uint16)
    first = numbers[:, None] >> np.arange(_HALF, dtype=np.uint16) & 1
    second = numbers[:, None] >> _HALF >> np.cumsum(first, axis=1) - first
    steps: Array = (first + (first & second)).astype(np.uint8)
    return steps


@cache
def _numbers() -> Array:
    """By their count, which of the remainders of a chunk there are."""
    return np.arange(CHUNK) < np.arange(_SORTS)[:, None]


@cache
def _three(width: int) -> Array:
    """Three remainders by all their bits."""
    numbers = np.arange(1 << _WINDOW * width, dtype=np.uint32)
    shifts = width * np.arange(_WINDOW, dtype=np.uint32)
    return (numbers[:, None] >> shifts & (1 << width) - 1).astype(np.uint8)


def chunk_steps(first: Array, second: Array) -> Array:
    """What every place of a chunk adds to a quotient."""
    low, mask = first & 0x3F, np.uint32(0x3F << _HALF)
    halves = np.empty((len(first), 2), np.intp)
    halves[:, 0] = low | second << _HALF & mask
    halves[:, 1] = first >> _HALF & 0x3F | second >> np.bitwise_count(low) << _HALF & mask
    return _half_steps().take(halves, axis=0).reshape(-1, CHUNK)


def chunk_numbers(steps: Array, closed: Array, width: int) -> Array:
    """Sums of steps, each up to a place where a quotient ends, above remainders of a width."""
    sums = np.cumsum(steps.ravel(), dtype=np.uint32).take(np.flatnonzero(closed))
    return np.diff(sums, prepend=np.uint32(0)) << width


def _close(steps: Array, closed: Array, counts: Array, lasts: Array) -> None:
    """A quotient that is open when its slice ends would go on in the next slice: it becomes
    further weights, which the slice's count leaves out."""
    tails = np.logical_and.accumulate(~closed[lasts, ::-1], axis=1)[:, ::-1]
    steps[lasts] *= ~tails
    closed[lasts] |= tails
    counts[lasts] += tails.sum(axis=1, dtype=counts.dtype)


def remainders(bits: Bits, places: Array, counts: Array, width: int) -> Array:
    """Some from each place on, three at a time from a word."""
    threes = np.empty((len(places), CHUNK // _WINDOW), np.intp)
    for column in threes.T:
        column[:] = bits.words_at(places) & (1 << _WINDOW * width) - 1
        places = places + _WINDOW * width
    return _three(width).take(threes, axis=0).take(np.flatnonzero(_numbers().take(counts, axis=0)))
