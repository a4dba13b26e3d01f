"""Sums of windows, in plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.ops.kernels.windows import Geometry, depthwise


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (1, 3), (3, 2)])
@pytest.mark.parametrize("dilations", [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3)])
def test_depthwise_windows_may_have_strides_and_dilation(
    strides: tuple[int, int], dilations: tuple[int, int], multiplier: int
) -> None:
    rng = np.random.default_rng(4)
    image = rng.integers(-128, 128, (9, 11, 2))
    weights = rng.integers(-128, 128, (3, 3, 2 * multiplier))
    reach = [2 * step + 1 for step in dilations]
    pads = (1, 2, 0, 1)
    padded = np.pad(image, ((1, 0), (2, 1), (0, 0)), constant_values=-5)
    rows, columns = (
        (size - far) // step + 1
        for size, far, step in zip(padded.shape[:2], reach, strides, strict=True)
    )
    where = Geometry((3, 3), strides, dilations, pads, (rows, columns), -5)
    sums = depthwise(where, weights.astype(np.float32), multiplier)(image, 0, rows)
    result = sums.reshape(rows, columns, -1)
    for y, x in np.ndindex(rows, columns):
        part = padded[y * strides[0] :, x * strides[1] :]
        part = part[: reach[0] : dilations[0], : reach[1] : dilations[1]]
        expected = (part.repeat(multiplier, axis=2) * weights).sum((0, 1))
        assert (result[y, x] == expected).all()
