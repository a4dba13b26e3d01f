"""Tables of two inputs: made when they pay, with the results of the plain step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.model import DType, Tensor
from npuscope.ops.kernels.step import Array, tabulated


def test_a_table_of_pairs_is_made_when_as_many_were_asked_for() -> None:
    asked: list[int] = []

    def plain(inputs: Sequence[Array]) -> Array:
        asked.append(np.broadcast(*inputs).size)
        return np.asarray((inputs[0].astype(np.int32) * 3 - inputs[1]) >> 2, np.int32)

    step = tabulated(plain, *(Tensor(name, (1,), DType.INT8) for name in "ab"))
    random = np.random.default_rng(2)
    for count in (256, 256, 40_000, 40_000, 256):
        a, b = random.integers(-128, 128, (2, count)).astype(np.int8)
        assert np.array_equal(step([a, b]), plain([a, b]))
    # Every second call is the test's own; the table took all pairs once, and nothing after it.
    assert asked == [256, 256, 256, 256, 40_000, 40_000, 65_536, 40_000, 256]
