"""What a kernel is: a maker reads an op once and returns the step that runs it every time.

All that depends on constants only (weights as floats, multipliers, tables) belongs to the maker;
the step sees the op's present inputs in order and returns its output, or all of several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npuscope.errors import ModelError
from npuscope.graph.model import DType, Graph, Op, Quant, Tensor

# --- Constants and scales that makers read ---
#
# A maker may use only what is fixed before a run; the helpers here refuse anything else.

Array = NDArray[Any]
Step = Callable[[Sequence[Array]], Array]
Maker = Callable[[Graph, Op], Step]
Steps = Callable[[Sequence[Array]], tuple[Array, ...]]
StepsMaker = Callable[[Graph, Op], Steps]


def constant_of(graph: Graph, op: Op, index: int, what: str) -> Tensor:
    """An input that the maker needs before the run, so it must be a constant."""
    tensor = graph.tensors[op.inputs[index]]
    if tensor.data is None:
        raise ModelError(f"the {what} '{tensor.name}' are not constant")
    return tensor


def optional_constant(graph: Graph, op: Op, index: int, what: str) -> Tensor | None:
    """The same for an input that may be absent."""
    if index >= len(op.inputs) or not op.inputs[index]:
        return None
    return constant_of(graph, op, index, what)


def quant_of(tensor: Tensor) -> Quant:
    """The quantization of a tensor that an integer kernel works on."""
    if tensor.quant is None:
        raise ModelError(f"tensor '{tensor.name}' has type {tensor.dtype.value} but no scale")
    return tensor.quant


def only_bytes(op: Op, *tensors: Tensor) -> None:
    """Refuse types for which the kernel was never compared with LiteRT's."""
    for tensor in tensors:
        if tensor.dtype not in (DType.INT8, DType.UINT8):
            raise ModelError(f"{op.kind} on {tensor.dtype.value} is not supported, only 8-bit is")


# --- 8-bit functions as tables ---
#
# The plain kernel runs once on all values: 256 of one input, or 65536 pairs of two. Later runs only
# look up, which is exact by construction and faster than any numpy arithmetic on them. A table of
# pairs is made when as many were asked for: the compiler asks for 256 of them.


def tabulated(step: Step, *inputs: Tensor) -> Step:
    """The same element-wise step as a table, if one or two 8-bit inputs allow it."""
    if any(tensor.dtype not in (DType.INT8, DType.UINT8) for tensor in inputs):
        return step
    if len(inputs) == 1:
        table = step([_all_values(inputs[0].dtype)])

        def look_up(inputs: Sequence[Array]) -> Array:
            return table.take(inputs[0].view(np.uint8), mode="clip")

        return look_up
    return _table_of_two(step, inputs[0].dtype, inputs[1].dtype)


def _all_values(dtype: DType) -> Array:
    """Every value, at the index of its bit pattern."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy)


def _table_of_two(step: Step, first: DType, second: DType) -> Step:
    table: Array | None = None
    left = 1 << 16

    def look_up(inputs: Sequence[Array]) -> Array:
        nonlocal table, left
        if table is None:
            left -= max(inputs[0].size, inputs[1].size)
            if left > 0:
                return step(inputs)
            table = step([_all_values(first)[:, np.newaxis], _all_values(second)]).ravel()
        rows, columns = inputs[0].view(np.uint8), inputs[1].view(np.uint8)
        place = np.bitwise_or(np.left_shift(rows, 8, dtype=np.uint16), columns)
        return table.take(place, mode="clip")  # "clip" only skips the bounds check

    return look_up


# --- Sums and products of floats, term after term in memory order ---
#
# numpy's own reductions choose an order by shape and CPU; results that C must reproduce need a
# fixed one.

_WIDE = 128  # from this many results on, a loop over the terms is faster


def reduced_in_order(
    combine: np.ufunc, values: Array, axes: Sequence[int], keepdims: bool = False
) -> Array:
    """All terms of some axes combined, the first one with the second, the result with the third."""
    others = [axis for axis in range(values.ndim) if axis not in axes]
    shape = [values.shape[axis] for axis in others]
    terms = math.prod(values.shape[axis] for axis in axes)
    rows = values.transpose(*axes, *others).reshape(terms, math.prod(shape))
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
