"""Seeded inputs for kernels: every type with its extremes, floats with all that is special."""

from __future__ import annotations

import numpy as np

from npuscope.graph.model import DType, Graph, Numerics, Quant, Tensor

Case = tuple[Graph, dict[str, np.ndarray]]

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3.4e38, -3.4e38, 0.5, -1.5, 2.5, 1.0],
    np.float32,
)


def seeded(seed: int, shape: tuple[int, ...], dtype: DType, special: bool = True) -> np.ndarray:
    """Normal floats or evenly spread whole numbers; some places hold the special ones."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        made = rng.normal(0, 3, shape).astype(np.float32)
        extremes = SPECIAL
    else:
        low, high = dtype.limits
        made = rng.integers(low, high, shape, dtype.numpy, endpoint=True)
        extremes = np.array([low, high, 0], dtype.numpy)
    flat = np.atleast_1d(made).reshape(-1)
    if special:
        places = rng.permutation(flat.size)[: max(flat.size // 4, 1)]
        flat[places] = rng.choice(extremes, len(places))
    return flat.reshape(shape)


def scale_of(seed: int, dtype: DType) -> Quant | None:
    """A scale that has no round value; floats and wide types have none."""
    if dtype not in (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16):
        return None
    rng = np.random.default_rng(seed + 1000)
    width = 6.0 / 2**dtype.bits
    low, high = dtype.limits
    zero = int(rng.integers(low // 2, high // 2 + 1))
    return Quant((float(np.float32(rng.uniform(0.5, 2) * width)),), (zero,))


def channel_scales(seed: int, shape: tuple[int, ...], axis: int) -> Quant:
    rng = np.random.default_rng(seed + 2000)
    scales = rng.uniform(0.01, 0.2, shape[axis]).astype(np.float32)
    zeros = rng.integers(-9, 9, shape[axis])
    return Quant(tuple(map(float, scales)), tuple(map(int, zeros)), axis)


def tensor(name: str, shape: tuple[int, ...], dtype: DType, quant: Quant | None = None) -> Tensor:
    return Tensor(name, shape, dtype, quant)


BOTH = (Numerics.LITERT, Numerics.QDQ)
