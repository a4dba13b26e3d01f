"""Channels of constants in another order, some left out, some new ones of zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NEW = -1  # in an index: a channel that was not there before


def picked(
    values: np.ndarray, index: Sequence[int], axis: int, new: np.ndarray | int = 0
) -> np.ndarray:
    """The channels of `index` along `axis`; a new one holds `new`, which may differ by channel
    of another axis."""
    places = np.asarray(index)
    taken = np.take(values, np.maximum(places, 0), axis)
    shape = [1] * values.ndim
    shape[axis] = len(places)
    return np.asarray(np.where((places == NEW).reshape(shape), new, taken), values.dtype)


def repeated(values: np.ndarray, index: Sequence[int], axis: int = 0) -> np.ndarray:
    """As `picked`, with new channels like the first one: for scales, which cannot be zero."""
    return np.asarray(np.take(values, np.maximum(np.asarray(index), 0), axis))


def padded_index(count: int, padded: int) -> list[int]:
    return [*range(count), *[NEW] * (padded - count)]


def parts_of(count: int, text: str) -> list[range] | None:
    """Channel ranges by their sizes, as in '144+113'; None where they do not add up."""
    sizes = [int(size) for size in text.split("+") if size.strip().isdecimal()]
    if sum(sizes) != count or len(sizes) < 2 or 0 in sizes:
        return None
    ends = np.cumsum(sizes)
    return [range(int(end) - size, int(end)) for end, size in zip(ends, sizes, strict=True)]
