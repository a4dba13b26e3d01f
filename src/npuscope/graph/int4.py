"""4-bit values as files hold them: two a byte, the first in the low half."""

from __future__ import annotations

import numpy as np


def unpack_int4(packed: np.ndarray, count: int) -> np.ndarray:
    """Signed values in an int8 array."""
    low = (packed << 4).astype(np.int8) >> 4
    high = packed.astype(np.int8) >> 4
    return np.stack((low, high), axis=-1).reshape(-1)[:count]


def unpack_uint4(packed: np.ndarray, count: int) -> np.ndarray:
    """Unsigned values in a uint8 array."""
    return np.stack((packed & 15, packed >> 4), axis=-1).reshape(-1)[:count]
