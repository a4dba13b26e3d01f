"""Sparse constants: which elements a file stores, and the dense array that they stand for.

A tensor is walked axis by axis in a stated order; blocks add axes of their own. A dense axis lists
all its places, a sparse one only those that hold something. Values are stored in that order.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.graph.limits import MAX_ELEMENTS, MAX_RANK, check_count

_DENSE = 0


class SparseAxis(Struct, frozen=True, eq=False):
    """A dense axis of `size` places, or a sparse one: where each row's places begin, and they."""

    size: int
    segments: np.ndarray | None = None
    indices: np.ndarray | None = None


class Sparsity(Struct, frozen=True):
    order: tuple[int, ...]  # of the axes; blocks are counted behind them
    blocks: tuple[int, ...]  # the axis that each block divides
    axes: tuple[SparseAxis, ...]


def read_sparsity(table: Any, rank: int) -> Sparsity | None:
    """The record of the file."""
    if table is None:
        return None
    levels = check_count(table.DimMetadataLength(), 2 * MAX_RANK, "axes of a sparse tensor")
    if not rank <= levels == table.TraversalOrderLength() == rank + table.BlockMapLength():
        raise FileError(f"a sparse tensor of {rank} axes has {levels} entries")
    return Sparsity(
        tuple(int(table.TraversalOrder(i)) for i in range(levels)),
        tuple(int(table.BlockMap(i)) for i in range(table.BlockMapLength())),
        tuple(_axis(table.DimMetadata(i)) for i in range(levels)),
    )


def _axis(entry: Any) -> SparseAxis:
    if entry.Format() == _DENSE:
        return SparseAxis(int(entry.DenseSize()))
    segments = _vector(entry.ArraySegments(), entry.ArraySegmentsType())
    indices = _vector(entry.ArrayIndices(), entry.ArrayIndicesType())
    return SparseAxis(0, segments, indices)


def _vector(table: Any, kind: int) -> np.ndarray:
    """One of three tables of numbers: 32, 16 or 8 bits wide."""
    import tflite

    kinds = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}
    if table is None or kind not in kinds:
        raise FileError("a sparse axis has no list of positions")
    vector = kinds[kind]()
    vector.Init(table.Bytes, table.Pos)
    if not vector.ValuesLength():
        return np.zeros(0, np.int64)
    return np.asarray(vector.ValuesAsNumpy()).astype(np.int64)


def dense(sparsity: Sparsity, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The whole array; zero where nothing is stored."""
    rank = len(shape)
    # Blocks are dense: their size is that of their axis.
    if sorted(sparsity.order) != list(range(len(sparsity.order))) or any(
        not 0 <= axis < rank for axis in sparsity.blocks
    ):
        raise FileError("the axis order of a sparse tensor is not a permutation")
    if any(axis >= rank for axis in sparsity.order[:rank]):
        raise FileError("blocks of a sparse tensor come before its axes")
    at = {axis: sparsity.axes[level].size for level, axis in enumerate(sparsity.order)}
    sizes = tuple(at[rank + block] for block in range(len(sparsity.blocks)))
    places = _places(sparsity, prod(shape))
    elements = [np.zeros(0, np.int64)] * rank
    for level, axis in enumerate(sparsity.order):
        if axis < rank:
            elements[axis] = places[level]
        else:
            divided = sparsity.blocks[axis - rank]
            elements[divided] = elements[divided] * sizes[axis - rank] + places[level]
    stored = len(places[0]) if places else 0
    if stored > values.size:
        raise FileError(f"a sparse tensor stores {values.size} of {stored} values")
    for along, size in zip(elements, shape, strict=True):
        if along.size and not 0 <= along.min() <= along.max() < size:
            raise FileError(f"a sparse tensor has positions outside {shape}")
    result = np.zeros(shape, values.dtype)
    result[tuple(elements)] = values[:stored]
    return result


def _places(sparsity: Sparsity, elements: int) -> list[np.ndarray]:
    """For every stored value its place along each level."""
    places: list[np.ndarray] = []
    row = np.zeros(1, np.int64)  # the entry of the level before
    for axis in sparsity.axes:
        if axis.segments is None or axis.indices is None:
            counts = np.full(row.shape, axis.size)
            first = row * axis.size
        else:
            if row.size and row.max() + 1 >= axis.segments.size:
                raise FileError("a sparse tensor has fewer rows than it names")
            counts = axis.segments[row + 1] - axis.segments[row]
            first = axis.segments[row]
        if counts.size and (counts.min() < 0 or counts.sum() > min(elements, MAX_ELEMENTS)):
            raise FileError("a sparse tensor stores more values than it has elements")
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = [np.repeat(place, counts) for place in places]
        row = np.repeat(first, counts) + number
        if axis.indices is None:
            places.append(number)
        else:
            if row.size and row.max() >= axis.indices.size:
                raise FileError("a sparse tensor has fewer positions than it states")
            places.append(axis.indices[row])
    return places
