"""Compressed weights back to numbers.

A stream is a row of slices. A slice begins with a header, and codes weights and, in turn with them,
lengths of runs of zeros, both as Golomb-Rice numbers: quotients in unary and remainders of a fixed
width. Quotients come in chunks of 12 bits, and the remainders of a chunk follow the quotients of
the next one. Slices without runs, which most are, have a decoder of their own (weight_chunks.py).

U85 has a second, plain format for its fast decoder."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.families.ethos_u.weight_chunks import Walk, chunk_values, plain_values, walked
from npuscope.families.ethos_u.weight_runs import run_values
from npuscope.families.ethos_u.weight_slices import (
    MOST_WEIGHTS,
    WHERE,
    Array,
    Bits,
    headers,
    weights_of,
)

_TOGETHER = 1 << 15  # weights of slices that are decoded at once


class _Waiting(Struct):
    """Slices of one form whose chunks are known, by their number."""

    walks: dict[int, Walk]
    weights: int = 0

    def finished(self, bits: Bits) -> dict[int, Array]:
        values = chunk_values(bits, [*self.walks.values()]) if self.walks else []
        parts = dict(zip(self.walks, values, strict=True))
        self.walks, self.weights = {}, 0
        return parts


def decode_weights(data: bytes) -> Array:
    """All weights of a stream, in its order, as int16."""
    bits = Bits(data)
    parts: dict[int, Array] = {}
    forms: dict[tuple[int, bool], _Waiting] = defaultdict(lambda: _Waiting({}))
    total = 0
    for number, head in enumerate(headers(bits)):
        count = head.count
        if head.run_bits is None and not head.uncompressed:
            form = forms[head.weight_bits, head.truncated]
            form.walks[number] = walked(bits, head)
            form.weights += count
            if form.weights >= _TOGETHER:
                parts |= form.finished(bits)
        else:
            values = plain_values if head.run_bits is None else run_values
            parts[number] = values(bits, head)
            count = len(parts[number])
        total += count
        if total > MOST_WEIGHTS:
            raise FileError("a weight stream has too many weights", where=WHERE)
    for form in forms.values():
        parts |= form.finished(bits)
    if not parts:
        return np.zeros(0, np.int16)
    return np.concatenate([parts[number] for number in range(len(parts))])


# --- The format of the fast decoder ---

_FAST_HEADER = 32  # bytes
_FAST_TABLE_AT, _FAST_CODE_BITS, _FAST_TABLE = 112, 9, 16


def decode_fast_weights(data: bytes) -> Array:
    """Raw bytes, or indices of 2 or 4 bits into a table of the header. Padding is left in."""
    if len(data) < _FAST_HEADER:
        raise FileError("weights for the fast decoder have a header of 32 bytes", where=WHERE)
    bits = Bits(data[:_FAST_HEADER])
    raw, small = bits.take(1), bits.take(1)
    body = np.frombuffer(data, np.uint8)[_FAST_HEADER:]
    if raw:
        adjust = int(np.uint8(data[13]).view(np.int8))
        return body.view(np.int8).astype(np.int16) - adjust
    places = _FAST_TABLE_AT + _FAST_CODE_BITS * np.arange(_FAST_TABLE)
    codes = bits.at(places, _FAST_CODE_BITS)
    table = weights_of(codes)
    width = 2 if small else 4
    indices = body[:, None] >> np.arange(0, 8, width, dtype=np.uint8) & (1 << width) - 1
    weights: Array = table[indices.ravel()]
    return weights
