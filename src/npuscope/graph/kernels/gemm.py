"""Exact integer sums by float BLAS.

A float32 holds whole numbers up to 2**24. As long as the sum of |weight| * |input| stays below,
every partial sum is a whole number below it too, so no order of summation rounds. Above, the
sum is cut into panels that are each exact and added in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npuscope.graph.kernels.step import Array
from npuscope.graph.model import DType

FLOAT32_EXACT = 2**24
_SHORT_PANEL = 64  # shorter ones cost more than a float64 product


def peak(dtype: DType) -> int:
    """Largest magnitude of a raw value."""
    low, high = dtype.limits
    return max(-low, high)


def reach(weights: Array, dtype: DType) -> Array:
    """Largest |sum| of each output: `weights` are (outputs, ...), inputs any raw values."""
    magnitudes = np.abs(weights.astype(np.int64)).reshape(len(weights), -1)
    largest: Array = magnitudes.sum(axis=1).astype(np.float64) * peak(dtype)
    return largest


def sum_type(weights: Array, dtype: DType) -> type[np.float32] | type[np.float64]:
    """The float that holds all sums exactly when they are not cut."""
    return np.float32 if reach(weights, dtype).max() <= FLOAT32_EXACT else np.float64


@dataclass(frozen=True, slots=True)
class Panels:
    """Weights as (inputs, outputs) floats, cut along the inputs."""

    parts: tuple[tuple[slice, Array], ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that inputs must be given in."""
        return self.parts[0][1].dtype

    def __call__(self, rows: Array) -> Array:
        if len(self.parts) == 1:
            product: Array = rows @ self.parts[0][1]
            return product
        sums = np.zeros((len(rows), self.parts[0][1].shape[1]))
        for span, part in self.parts:
            sums += rows[:, span] @ part
        return sums


def exact_panels(weights: Array, dtype: DType) -> Panels:
    """Panels for integer weights (outputs, inputs) and raw inputs of a type."""
    count = weights.shape[1]
    float_type = sum_type(weights, dtype)
    longest = FLOAT32_EXACT // (peak(dtype) * max(1, int(np.abs(weights).max())))
    if float_type is np.float32 or longest < _SHORT_PANEL:
        return Panels(((slice(0, count), _columns(weights, float_type)),))
    spans = [slice(start, start + longest) for start in range(0, count, longest)]
    return Panels(tuple((span, _columns(weights[:, span], np.float32)) for span in spans))


def _columns(weights: Array, float_type: type[np.floating]) -> Array:
    return np.ascontiguousarray(weights.T, float_type)
