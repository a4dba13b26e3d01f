"""Weights in the order in which the kernel engine delivers them."""

from __future__ import annotations

import numpy as np

from npuscope.compiler.stages import Tiling

Array = np.ndarray
DEEP_BLOCK = 8  # kernels that a Deep1x1 word row interleaves
DEEP_PACK = 3  # bytes a deep word


def pack_weights(weights: Array, tiling: Tiling) -> Array:
    """(O, kh, kw, I / groups) to bytes: tile > pass > unit in the pipe > the unit's own order."""
    if tiling.grouped:
        return _pack_grouped(weights, tiling)
    sets = _unit_sets(weights, tiling)
    if tiling.deep:
        return np.concatenate([_deep_set(kernels) for kernels in sets])
    return np.ascontiguousarray(sets).reshape(-1)


def _unit_sets(weights: Array, tiling: Tiling) -> Array:
    """One row a (tile, pass, unit): kernels of nK x kh x kw x B."""
    _, kh, kw, _ = weights.shape
    split = weights.reshape(
        tiling.tiles, tiling.kernels, kh, kw, tiling.passes, tiling.pipe, tiling.depth
    )
    ordered = split.transpose(0, 4, 5, 1, 2, 3, 6)
    return ordered.reshape(-1, tiling.kernels, kh, kw, tiling.depth)


def _deep_set(kernels: Array) -> Array:
    """Sub-blocks of eight kernels, each channel by channel; padded to whole words."""
    flat = kernels.reshape(kernels.shape[0], -1)
    blocks = [flat[first : first + DEEP_BLOCK].T for first in range(0, len(flat), DEEP_BLOCK)]
    packed = np.concatenate([block.reshape(-1) for block in blocks])
    return np.pad(packed, (0, -len(packed) % DEEP_PACK))


def _pack_grouped(weights: Array, tiling: Tiling) -> Array:
    """Depthwise kernels on the diagonal of groups of B x B, zeros elsewhere."""
    channels, kh, kw, _ = weights.shape
    group = tiling.depth
    inflated = np.zeros((channels // group, group, kh, kw, group), weights.dtype)
    per_group = weights.reshape(channels // group, group, kh, kw)
    for lane in range(group):
        inflated[:, lane, :, :, lane] = per_group[:, lane]
    return inflated.reshape(-1)
