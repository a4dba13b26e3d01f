"""Seeded inputs fit every type, and fill it."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.graph.model import DType, Tensor
from npuscope.profiling.agreement import noise


@pytest.mark.parametrize("dtype", DType)
def test_values_fill_the_type(dtype: DType) -> None:
    found = noise(Tensor("x", (40, 50), dtype), np.random.default_rng(0))
    assert found.dtype == dtype.numpy
    assert found.shape == (40, 50)
    few = {DType.BOOL: 2, DType.INT4: 16, DType.INT8: 256, DType.UINT8: 256}
    assert len(np.unique(found)) >= few.get(dtype, 1000)
    again = noise(Tensor("x", (40, 50), dtype), np.random.default_rng(0))
    assert np.array_equal(found, again)
