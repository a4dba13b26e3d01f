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
    return _deep(sets) if tiling.deep else np.ascontiguousarray(sets).reshape(-1)


def _unit_sets(weights: Array, tiling: Tiling) -> Array:
    """One row a (tile, pass, unit): kernels of nK x kh x kw x B."""
    _, kh, kw, _ = weights.shape
    split = weights.reshape(
        tiling.tiles, tiling.kernels, kh, kw, tiling.passes, tiling.pipe, tiling.depth
    )
    ordered = split.transpose(0, 4, 5, 1, 2, 3, 6)
    return ordered.reshape(-1, tiling.kernels, kh, kw, tiling.depth)


def _deep(sets: Array) -> Array:
    """Sub-blocks of eight kernels, each channel by channel; every set padded to whole words."""
    flat = sets.reshape(len(sets), sets.shape[1], -1)
    count, kernels, depth = flat.shape
    size = kernels * depth
    packed = np.zeros((count, size + -size % DEEP_PACK), sets.dtype)
    place = 0
    for first in range(0, kernels, DEEP_BLOCK):
        block = flat[:, first : first + DEEP_BLOCK].transpose(0, 2, 1).reshape(count, -1)
        packed[:, place : place + block.shape[1]] = block
        place += block.shape[1]
    return packed.reshape(-1)


def _pack_grouped(weights: Array, tiling: Tiling) -> Array:
    """Depthwise kernels on the diagonal of groups of B x B, zeros elsewhere."""
    channels, kh, kw, _ = weights.shape
    group = tiling.depth
    inflated = np.zeros((channels // group, group, kh, kw, group), weights.dtype)
    per_group = weights.reshape(channels // group, group, kh, kw)
    for lane in range(group):
        inflated[:, lane, :, :, lane] = per_group[:, lane]
    return inflated.reshape(-1)
