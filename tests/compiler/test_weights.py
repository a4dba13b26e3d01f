"""The order of weights in memory, tile by tile as the units read them, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import MACHINES
from npuscope.compiler.lower.pieces import pack_weights
from npuscope.geometry.tiling import (
    ConvMode,
    ConvShape,
    Tiling,
    choose_tiling,
    depthwise_tiling,
)
from npuscope.program.modes import Simd

Array = np.ndarray


def random_weights(*shape: int) -> Array:
    """(O, kh, kw, I / groups), no zeros, so that padding and inflation stand out."""
    values = np.random.default_rng(sum(shape)).integers(1, 128, shape)
    return (values * np.random.default_rng(1).choice([-1, 1], shape)).astype(np.int8)


def sets(tiling: Tiling) -> list[tuple[int, int]]:
    """(first kernel, first channel) of every load: tile > pass > unit in the pipe."""
    found = []
    for tile in range(tiling.tiles):
        for step in range(tiling.passes):
            for unit in range(tiling.pipe):
                channel = (step * tiling.pipe + unit) * tiling.depth
                found.append((tile * tiling.kernels, channel))
    return found


def dense_loops(weights: Array, tiling: Tiling) -> list[int]:
    _, height, width, _ = weights.shape
    packed = []
    for first_kernel, first_channel in sets(tiling):
        for kernel in range(first_kernel, first_kernel + tiling.kernels):
            for y in range(height):
                for x in range(width):
                    for channel in range(first_channel, first_channel + tiling.depth):
                        packed.append(int(weights[kernel, y, x, channel]))
    return packed


def deep_loops(weights: Array, tiling: Tiling) -> list[int]:
    packed = []
    for first_kernel, first_channel in sets(tiling):
        one: list[int] = []
        last_kernel = first_kernel + tiling.kernels
        for block in range(first_kernel, last_kernel, 8):
            for channel in range(first_channel, first_channel + tiling.depth):
                for kernel in range(block, min(block + 8, last_kernel)):
                    one.append(int(weights[kernel, 0, 0, channel]))
        while len(one) % 3:
            one.append(0)
        packed += one
    return packed


def grouped_loops(weights: Array, group: int) -> list[int]:
    channels, height, width, _ = weights.shape
    packed = []
    for first in range(0, channels, group):
        for kernel in range(group):
            for y in range(height):
                for x in range(width):
                    for channel in range(group):
                        own = int(weights[first + kernel, y, x, 0])
                        packed.append(own if channel == kernel else 0)
    return packed


@pytest.mark.parametrize(
    ("outputs", "inputs", "window", "tiling"),
    [
        (8, 8, (3, 3), Tiling(ConvMode.DENSE, 8, 8, 1, 1, 1)),
        (16, 64, (3, 3), Tiling(ConvMode.DENSE, 8, 8, 4, 2, 2)),
        (12, 48, (3, 3), Tiling(ConvMode.DENSE, 4, 8, 2, 3, 3)),
        (6, 5, (2, 5), Tiling(ConvMode.DENSE, 6, 5, 1, 1, 1)),
        (40, 96, (1, 1), Tiling(ConvMode.PLAIN1X1, 20, 24, 4, 1, 2)),
        (6, 72, (1, 1), Tiling(ConvMode.PLAIN1X1, 6, 12, 2, 3, 1)),
        (16, 32, (1, 3), Tiling(ConvMode.ROW, 8, 16, 1, 2, 2)),
    ],
)
def test_dense(outputs: int, inputs: int, window: tuple[int, int], tiling: Tiling) -> None:
    weights = random_weights(outputs, *window, inputs)
    assert pack_weights(weights, tiling).tolist() == dense_loops(weights, tiling)


@pytest.mark.parametrize(
    ("outputs", "inputs", "tiling"),
    [
        (14, 32, Tiling(ConvMode.DEEP1X1, 14, 32, 1, 1, 1)),  # 8 kernels, then 6; 448 + 2 bytes
        (14, 100, Tiling(ConvMode.DEEP1X1, 14, 50, 2, 1, 1)),  # 700 bytes a unit, 2 of padding
        (16, 96, Tiling(ConvMode.DEEP1X1, 16, 96, 1, 1, 1)),  # nothing to pad
        (48, 512, Tiling(ConvMode.DEEP1X1, 24, 128, 2, 2, 2)),
        (7, 50, Tiling(ConvMode.DEEP1X1, 7, 25, 1, 2, 1)),  # 175 bytes, padded to 177, twice
    ],
)
def test_deep(outputs: int, inputs: int, tiling: Tiling) -> None:
    weights = random_weights(outputs, 1, 1, inputs)
    assert pack_weights(weights, tiling).tolist() == deep_loops(weights, tiling)


def test_fourteen_deep_kernels_by_hand() -> None:
    """Channel by channel, kernels 0..7; then channel by channel, kernels 8..13; then zeros."""
    weights = (np.arange(14).reshape(14, 1, 1, 1) + 20 * np.arange(5)).astype(np.int8)
    packed = pack_weights(weights, Tiling(ConvMode.DEEP1X1, 14, 5, 1, 1, 1)).tolist()
    assert packed[:8] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert packed[8:16] == [20, 21, 22, 23, 24, 25, 26, 27]
    assert packed[40:46] == [8, 9, 10, 11, 12, 13]
    assert packed[64:] == [88, 89, 90, 91, 92, 93, 0, 0]  # 70 bytes and two of padding


@pytest.mark.parametrize(
    ("channels", "stride", "generation", "simd", "group"),
    [
        (24, 1, "2.2", Simd.S8X8, 8),
        (16, 2, "2.2", Simd.S16X8, 4),
        (28, 1, "2.2", Simd.S8X8, 1),
        (10, 2, "4.0", Simd.S8X8, 2),  # DSS2
        (10, 1, "4.0", Simd.S8X8, 1),
    ],
)
def test_depthwise(channels: int, stride: int, generation: str, simd: Simd, group: int) -> None:
    tiling = depthwise_tiling(channels, (3, 3), (stride, stride), simd, MACHINES[generation])
    weights = random_weights(channels, 3, 3, 1)
    packed = pack_weights(weights, tiling)
    assert packed.tolist() == grouped_loops(weights, group)
    # A C-channel 3x3 depthwise in groups of 8 stores 72 * C bytes.
    assert packed.size == 9 * channels * group
    assert np.count_nonzero(packed) == weights.size


@pytest.mark.parametrize("seed", range(6))
def test_every_weight_is_stored_once(seed: int) -> None:
    """Whatever tiling is chosen; deep sets add less than a word of zeros each."""
    random = np.random.default_rng(seed)
    for _ in range(20):
        inputs, outputs = (int(n) for n in random.integers(1, 90, 2))
        window = [(1, 1), (3, 3), (1, 3)][random.integers(3)]
        simd = [Simd.S8X8, Simd.S16X8][random.integers(2)]
        shape = ConvShape(inputs, outputs, window, (6, 6), (6, 6))
        tiling = choose_tiling(shape, simd, MACHINES["4.0"], 3)
        weights = random_weights(outputs, *window, inputs)
        packed = pack_weights(weights, tiling)
        spare = 2 * tiling.frames * tiling.pipe if tiling.deep else 0
        assert weights.size <= packed.size <= weights.size + spare
        stored = packed[packed != 0]
        assert np.array_equal(np.sort(stored), np.sort(weights, axis=None))
        loops = deep_loops if tiling.deep else dense_loops
        assert packed.tolist() == loops(weights, tiling)
