"""Weights about zero, as int8: what units and kernels multiply."""

from __future__ import annotations

import numpy as np

from npuscope.graph.model import Quant

_LARGEST = 127


def symmetric_weights(
    values: np.ndarray, quant: Quant, channels: int | None
) -> tuple[np.ndarray, Quant]:
    """The weights without their zero point.

    Exact where they still fit a byte. Else every channel along the axis `channels` gets a scale of
    its own: those that fit stay exact, the others are rounded to a coarser one. With None there is
    one scale for all.
    """
    axis = quant.axis if quant.per_channel else channels
    rows = values[None] if axis is None else np.moveaxis(values, axis, 0)
    flat = rows.reshape(len(rows), -1).astype(np.float64)
    shifted = flat - np.resize(quant.zero_points, len(rows))[:, None]
    largest = np.abs(shifted).max(axis=1, initial=0)
    scales, zeros = np.resize(quant.scales, len(rows)), (0,) * len(rows)
    if largest.max(initial=0) <= _LARGEST:
        result = Quant(quant.scales, (0,) * len(quant.scales), quant.axis)
    else:
        shrink = np.maximum(largest / _LARGEST, 1.0)
        shifted = np.rint(shifted / shrink[:, None])
        coarser = np.asarray(scales * shrink, np.float32)
        result = Quant(tuple(float(scale) for scale in coarser), zeros, axis)
    data = shifted.astype(np.int8).reshape(rows.shape)
    return (data[0] if axis is None else np.moveaxis(data, 0, axis)).copy(), result
