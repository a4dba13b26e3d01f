"""Seeded values for inputs that nobody gave: over the whole range of their type."""

from __future__ import annotations

import numpy as np

from npuscope.graph.model import DType, Tensor


def noise(tensor: Tensor, generator: np.random.Generator) -> np.ndarray:
    if tensor.dtype is DType.FLOAT32:
        return generator.uniform(-1, 1, tensor.shape).astype(np.float32)
    low, high = (0, 1) if tensor.dtype is DType.BOOL else tensor.dtype.limits
    return generator.integers(low, high, tensor.shape, endpoint=True).astype(tensor.dtype.numpy)
