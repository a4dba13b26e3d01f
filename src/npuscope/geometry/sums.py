"""How far sums of products reach, and how far the vendor's compilers shift them to fit 16 bits."""

from __future__ import annotations

from math import ceil, log2

import numpy as np

INT16_MAX = 32767  # sums leave the convolution unit with 16 bits
_GAIN_BITS = 7  # the shift leaves room for a constant input of this many bits
Array = np.ndarray


def conv_shift(weights: Array) -> int:
    """The vendor's rule, as builds show it: the largest plain sum of one kernel's weights, not that
    of magnitudes, fits in 7 bits more.

    It bounds the gain for a constant input only; a real input can still saturate.
    """
    sums = weights.reshape(len(weights), -1).sum(axis=1, dtype=np.int64)
    largest = max(int(sums.max()), -int(sums.min()))
    return max(0, ceil(log2(largest)) - _GAIN_BITS) if largest else 0


def reach(weights: Array, inputs: tuple[int, int], passes: int = 1) -> tuple[Array, Array]:
    """Largest and smallest sum of each kernel after each pass over a share of the input channels;
    `inputs` are the smallest and largest feature without its zero point."""
    shares = weights.astype(np.float64).reshape(
        len(weights), -1, passes, weights.shape[-1] // passes
    )
    positive = np.maximum(shares, 0).sum(axis=(1, 3))
    negative = np.minimum(shares, 0).sum(axis=(1, 3))
    highest = positive * inputs[1] + negative * inputs[0]
    lowest = positive * inputs[0] + negative * inputs[1]
    return highest.cumsum(axis=1), lowest.cumsum(axis=1)
