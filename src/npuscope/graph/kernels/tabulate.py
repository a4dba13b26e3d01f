"""8-bit functions as tables: the plain kernel runs once on all values, then runs only look up.

256 values of one input, 65536 pairs of two: exact by construction, and faster than any arithmetic
numpy can do on them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.kernels.step import Array, Step
from npuscope.graph.model import DType, Tensor


def tabulated(step: Step, *inputs: Tensor) -> Step:
    """The same element-wise step as a table, if one or two 8-bit inputs allow it."""
    if any(tensor.dtype not in (DType.INT8, DType.UINT8) for tensor in inputs):
        return step
    if len(inputs) == 1:
        return _table_of_one(step, inputs[0].dtype)
    return _table_of_two(step, inputs[0].dtype, inputs[1].dtype)


def _all_values(dtype: DType) -> Array:
    """Every value, at the place of its bit pattern."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy)


def _table_of_one(step: Step, dtype: DType) -> Step:
    table = step([_all_values(dtype)])

    def look_up(inputs: Sequence[Array]) -> Array:
        return table.take(inputs[0].view(np.uint8), mode="clip")

    return look_up


def _table_of_two(step: Step, first: DType, second: DType) -> Step:
    pairs = step([_all_values(first)[:, np.newaxis], _all_values(second)])
    table = pairs.ravel()

    def look_up(inputs: Sequence[Array]) -> Array:
        rows, columns = inputs[0].view(np.uint8), inputs[1].view(np.uint8)
        place = np.bitwise_or(np.left_shift(rows, 8, dtype=np.uint16), columns)
        return table.take(place, mode="clip")  # "clip" only skips the bounds check

    return look_up
