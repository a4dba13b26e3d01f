"""The last stage of a kernel: zero point, clipping, look-up table, and the output's type."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.errors import FileError
from npuscope.families.ethos_u.arithmetic.curves import sigmoid, tanh
from npuscope.families.ethos_u.jobs import NpuKernel

Array = np.ndarray[Any, np.dtype[Any]]
_CURVES = {"SIGMOID": sigmoid, "TANH": tanh}
_TABLE_STEP = 256  # bytes between the tables that a number chooses
_STEP_BITS = 7  # of a 16-bit value between two points of a table


def finished(kernel: NpuKernel, values: Array, tables: Array) -> Array:
    """Scaled values as the output stores them."""
    activation, dtype = kernel.activation, np.dtype(kernel.ofm.dtype)
    uses_table = activation.function not in ("RELU", "LUT_NONE")
    # 32-bit results have no zero point of their own
    values = values + (kernel.ofm.zero_point if dtype.itemsize < 4 or uses_table else 0)
    if (curve := _CURVES.get(activation.function.removeprefix("LUT_"))) is not None:
        return curve(values).astype(dtype)
    clip_type = np.dtype(activation.forced or _clip_type(kernel, uses_table))
    limits = np.iinfo(clip_type)
    low, high = int(limits.min), int(limits.max)
    if activation.clips and clip_type.itemsize <= 2:
        low, high = max(low, activation.low), min(high, activation.high)
    np.clip(values, low, high, out=values)
    if uses_table:
        values = _looked_up(kernel, values, clip_type, tables)
    return values.astype(dtype)


_TABLE_INPUTS = {"U8": "u1", "S8": "i1", "S16": "i2"}


def _clip_type(kernel: NpuKernel, uses_table: bool) -> str:
    """Before a table of U85 the values have its input's type, which its name tells."""
    parts = kernel.activation.function.split("_")
    if uses_table and kernel.is_u85:
        return _TABLE_INPUTS.get(parts[1], "i2")
    return kernel.ofm.dtype


def _looked_up(kernel: NpuKernel, values: Array, source: np.dtype[Any], tables: Array) -> Array:
    """8-bit values are indices. 16-bit values lie between two points, each stored as a start in
    its lower and a slope in its upper half."""
    function = kernel.activation.function
    target = np.dtype(kernel.ofm.dtype)
    if source.itemsize == 1:
        size = 256 * target.itemsize
        step = size if kernel.is_u85 else _TABLE_STEP
        table = _table(tables, kernel.activation.table * step, size).view(target.newbyteorder("<"))
        entries: Array = table[values - int(np.iinfo(source).min)].astype(np.int64)
        return entries
    table = _table(tables, 0, 2048).view("<i4").astype(np.int64)
    points = table[(values >> _STEP_BITS) + 256]
    rest = values & (1 << _STEP_BITS) - 1
    if target.itemsize == 4:
        raise FileError(f"tables from 16 to 32 bits ({function}) are not supported")
    start, slope = points << 48 >> 48, points >> 16
    line: Array = start + (slope * rest + (1 << _STEP_BITS - 1) >> _STEP_BITS)
    return np.clip(line, -32768, 32767)


def _table(tables: Array, first: int, size: int) -> Array:
    if first + size > len(tables):
        raise FileError("a table reaches beyond the memory of tables")
    return tables[first : first + size]
