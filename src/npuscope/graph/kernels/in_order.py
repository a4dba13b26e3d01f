"""Sums and products of floats term after term, in memory order.

numpy's own reductions choose an order by shape and CPU; results that C must reproduce cannot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from npuscope.graph.kernels.step import Array

_WIDE = 128  # results at a time from which a loop over the terms is faster


def reduced_in_order(
    combine: np.ufunc, values: Array, axes: Sequence[int], keepdims: bool = False
) -> Array:
    """All terms of some axes combined, the first one with the second, the result with the third."""
    kept = [axis for axis in range(values.ndim) if axis not in axes]
    shape = [values.shape[axis] for axis in kept]
    terms = math.prod(values.shape[axis] for axis in axes)
    rows = values.transpose(*axes, *kept).reshape(terms, math.prod(shape))
    result = _combined(combine, rows)
    if keepdims:
        shape = [1 if axis in axes else size for axis, size in enumerate(values.shape)]
    return result.reshape(shape)


def _combined(combine: np.ufunc, rows: Array) -> Array:
    if len(rows) == 0:
        return np.full(rows.shape[1], combine.identity, rows.dtype)
    if rows.shape[1] < _WIDE:
        return np.asarray(combine.accumulate(np.ascontiguousarray(rows.T), axis=1)[:, -1])
    result: Array = rows[0].copy()
    for row in rows[1:]:
        combine(result, row, out=result)
    return result


def total(values: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
    return reduced_in_order(np.add, values, axes, keepdims)


def product(values: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
    return reduced_in_order(np.multiply, values, axes, keepdims)


def mean(values: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
    count = math.prod(values.shape[axis] for axis in axes)
    return np.asarray(total(values, axes, keepdims) / values.dtype.type(count))


def settled(values: Array) -> Array:
    """Without -0: which of two zeros is the larger one is up to the CPU."""
    return values + values.dtype.type(0) if values.dtype.kind == "f" else values
