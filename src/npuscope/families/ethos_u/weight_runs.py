"""Slices with runs of zeros between their weights: chunks of both in turn."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.families.ethos_u.weight_chunks import chunk_numbers, chunk_steps, remainders
from npuscope.families.ethos_u.weight_slices import (
    CHUNK,
    MOST_WEIGHTS,
    SHORT_CHUNK,
    WHERE,
    Array,
    Bits,
    Slice,
)

_AHEAD = 8  # weights may be ahead of the runs of zeros by so many
_ONES = [number.bit_count() for number in range(1 << CHUNK)]


def run_values(bits: Bits, head: Slice) -> Array:
    weight_track, run_track = _walk(bits, head)
    values = head.palette.weights_at(_weight_numbers(bits, weight_track, head)[: head.count])
    runs = _runs(bits, run_track, _run_chunk(head))[: head.runs]
    total = head.count + int(runs.sum())
    if total > MOST_WEIGHTS:
        raise FileError("a weight stream has too many weights", where=WHERE)
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


def _run_chunk(head: Slice) -> int:
    return SHORT_CHUNK if head.run_bits == 3 else CHUNK


def _walk(bits: Bits, head: Slice) -> tuple[_Track, _Track]:
    """Leaves the stream behind the slice."""
    weights = _Track(head.weight_bits, [], [], [])
    runs = _Track(head.run_bits or 0, [], [], [])
    try:
        bits.place = _walk_both(bits, head, weights, runs)
    except IndexError:
        bits.place = bits.size + 1
    if bits.place > bits.size:
        raise FileError("the weights end in the middle of a slice", where=WHERE)
    return weights, runs


def _walk_both(bits: Bits, head: Slice, weights: _Track, runs: _Track) -> int:
    """Fills both tracks; the place behind the slice."""
    words, place, width, run_bits = bits.words.data, bits.place, head.weight_bits, head.run_bits
    run_chunk, plain, total, run_total = _run_chunk(head), _plain_chunk(head), head.count, head.runs
    run_mask = (1 << run_chunk) - 1
    masks = [0 if head.truncated else (1 << ones) - 1 for ones in range(CHUNK + 1)]
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
            place += 0 if head.uncompressed else CHUNK
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


def _plain_chunk(head: Slice) -> int:
    return SHORT_CHUNK if head.uncompressed and head.weight_bits > 5 else CHUNK


# --- All numbers of a track at once ---


def _weight_numbers(bits: Bits, track: _Track, head: Slice) -> Array:
    places, width = np.array(track.remainders), track.remainder_bits
    if head.uncompressed:
        return bits.at((places[:, None] + width * np.arange(_plain_chunk(head))).ravel(), width)
    first, second = (bits.words_at(np.array(one)) for one in (track.firsts, track.seconds))
    steps = chunk_steps(first, second)
    closed = np.ones(steps.shape, bool) if head.truncated else steps < 2
    return _numbers(bits, steps, closed, track)


def _runs(bits: Bits, track: _Track, chunk: int) -> Array:
    firsts = bits.at(np.array(track.firsts), chunk).astype(np.uint16)
    steps = np.unpackbits(firsts.astype("<u2").view(np.uint8), bitorder="little")
    steps = steps.reshape(len(firsts), -1)[:, :chunk]
    return _numbers(bits, steps, steps == 0, track).astype(np.int64)


def _numbers(bits: Bits, steps: Array, closed: Array, track: _Track) -> Array:
    counts, width = np.count_nonzero(closed, axis=1), track.remainder_bits
    numbers = chunk_numbers(steps, closed, width)
    numbers += remainders(bits, np.array(track.remainders), counts, width)
    return numbers
