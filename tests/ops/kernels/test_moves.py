"""Cuts, joins, repeats and other moves against LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ops.litert_ops import (
    Value,
    check,
    check_all,
    constant,
    one_op,
    options,
    q8,
    random_values,
)


def int32(*values: int, shape: tuple[int, ...] | None = None) -> Value:
    data = np.array(values, np.int32)
    return constant(data if shape is None else data.reshape(shape))


def move(
    folder: Path,
    operator: str,
    made: Any,
    shape: tuple[int, ...],
    target: tuple[int, ...],
    *rest: Value,
) -> None:
    """One int8 input and constants, the same scale on both sides."""
    x, y = q8(shape, 0.1, 3), q8(target, 0.1, 3)
    values = random_values(np.random.default_rng(1), x)
    check(folder, one_op(operator, made, [x, *rest], y), [values])


def test_slice(tmp_path: Path) -> None:
    rest = int32(0, 2, 1, 0), int32(1, -1, 3, -1)
    move(tmp_path, "SLICE", None, (1, 7, 5, 3), (1, 5, 3, 3), *rest)


# begin, end, strides, masks, result
STRIDED = [
    ((0, 1, 0, 0), (1, 6, 5, 3), (1, 2, 1, 1), {}, (1, 3, 5, 3)),
    ((0, 0, 0, 1), (0, 0, 0, 3), (1, 1, 1, 1), {"beginMask": 7, "endMask": 7}, (1, 7, 5, 2)),
    ((0, -1, -1, 0), (1, -8, -6, 3), (1, -1, -2, 1), {}, (1, 7, 3, 3)),
    ((0, 3), (1, 4), (1, 1), {"shrinkAxisMask": 2}, (1, 5, 3)),
    ((0, -2), (0, 0), (1, 1), {"ellipsisMask": 1, "shrinkAxisMask": 2}, (1, 7, 5)),
    ((0, 0, 2), (0, 0, 3), (1, 1, 1), {"ellipsisMask": 1, "newAxisMask": 2}, (1, 7, 5, 1, 1)),
    ((0, 2), (99, 99), (1, 3), {}, (1, 2, 5, 3)),
    ((0, -1), (1, -8), (1, -1), {"shrinkAxisMask": 1}, (7, 5, 3)),
]


@pytest.mark.parametrize("case", STRIDED)
def test_strided_slice(case: tuple, tmp_path: Path) -> None:
    begin, end, strides, masks, target = case
    made = options("StridedSliceOptions", **masks)
    rest = int32(*begin), int32(*end), int32(*strides)
    move(tmp_path, "STRIDED_SLICE", made, (1, 7, 5, 3), target, *rest)


@pytest.mark.parametrize(
    ("mode", "pads"), [(0, (0, 0, 2, 1, 1, 3, 0, 2)), (1, (0, 1, 3, 1, 0, 4, 3, 0))]
)
def test_mirror_pad(mode: int, pads: tuple[int, ...], tmp_path: Path) -> None:
    shape = (1, 5, 4, 3)
    target = tuple(size + pads[2 * i] + pads[2 * i + 1] for i, size in enumerate(shape))
    made = options("MirrorPadOptions", mode=mode)
    move(tmp_path, "MIRROR_PAD", made, shape, target, int32(*pads, shape=(4, 2)))


def test_pad_with_a_value(tmp_path: Path) -> None:
    fill = constant(np.array([17], np.int8), 0.1, (3,))
    pads = int32(0, 0, 1, 2, 0, 3, 2, 0, shape=(4, 2))
    move(tmp_path, "PADV2", None, (1, 5, 4, 3), (1, 8, 7, 5), pads, fill)


def test_tile(tmp_path: Path) -> None:
    move(tmp_path, "TILE", None, (1, 5, 3), (2, 5, 9), int32(2, 1, 3))


def test_broadcast_to(tmp_path: Path) -> None:
    move(tmp_path, "BROADCAST_TO", None, (5, 1), (3, 5, 7), int32(3, 5, 7))


@pytest.mark.parametrize(("axis", "target"), [(1, (2, 4, 5, 3)), (-1, (2, 7, 5, 4))])
def test_gather(axis: int, target: tuple[int, ...], tmp_path: Path) -> None:
    made = options("GatherOptions", axis=axis, batchDims=0)
    move(tmp_path, "GATHER", made, (2, 7, 5, 3), target, int32(2, 0, 2, 1))


def test_gather_by_batch(tmp_path: Path) -> None:
    made = options("GatherOptions", axis=1, batchDims=1)
    rest = int32(6, 0, 3, 2, 2, 5, shape=(2, 3))
    move(tmp_path, "GATHER", made, (2, 7, 5), (2, 3, 5), rest)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])  # int8 has no kernel in LiteRT
@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0), (2, 1), (1, 3), (3, 0)])
def test_reverse_sequence(time: int, batch: int, dtype: str, tmp_path: Path) -> None:
    shape = (4, 5, 6, 7)
    lengths = np.random.default_rng(time).integers(0, shape[time] + 1, shape[batch])
    x = q8(shape, 0.1, 0 if dtype == "int16" else 3, dtype)
    made = options("ReverseSequenceOptions", seqDim=time, batchDim=batch)
    model = one_op("REVERSE_SEQUENCE", made, [x, int32(*lengths)], x)
    check(tmp_path, model, [random_values(np.random.default_rng(2), x)])


@pytest.mark.parametrize("block", [2, 3])
def test_depth_to_space(block: int, tmp_path: Path) -> None:
    depth, made = 5 * block * block, options("DepthToSpaceOptions", blockSize=block)
    move(tmp_path, "DEPTH_TO_SPACE", made, (1, 3, 2, depth), (1, 3 * block, 2 * block, 5))


@pytest.mark.parametrize("block", [2, 3])
def test_space_to_depth(block: int, tmp_path: Path) -> None:
    depth, made = 5 * block * block, options("SpaceToDepthOptions", blockSize=block)
    move(tmp_path, "SPACE_TO_DEPTH", made, (1, 3 * block, 2 * block, 5), (1, 3, 2, depth))


def test_split(tmp_path: Path) -> None:
    x = q8((1, 5, 6), 0.1, 3)
    outputs = [q8((1, 5, 2), 0.1, 3)] * 3
    made = options("SplitOptions", numSplits=3)
    model = one_op("SPLIT", made, [int32(2, shape=()), x], outputs)
    check_all(tmp_path, model, [random_values(np.random.default_rng(2), x)])


def test_split_into_unequal_parts(tmp_path: Path) -> None:
    x = q8((1, 7, 3), 0.1, 3)
    outputs = [q8((1, size, 3), 0.1, 3) for size in (2, 1, 4)]
    made = options("SplitVOptions", numSplits=3)
    model = one_op("SPLIT_V", made, [x, int32(2, 1, -1), int32(1, shape=())], outputs)
    check_all(tmp_path, model, [random_values(np.random.default_rng(3), x)])


def test_pack(tmp_path: Path) -> None:
    parts = [q8((3, 5), 0.1, 3)] * 3
    made = options("PackOptions", axis=1, valuesCount=3)
    model = one_op("PACK", made, parts, q8((3, 3, 5), 0.1, 3))
    rng = np.random.default_rng(4)
    check(tmp_path, model, [random_values(rng, part) for part in parts])


@pytest.mark.parametrize(("axis", "count"), [(1, 4), (0, 1), (-1, 5)])
def test_unpack(axis: int, count: int, tmp_path: Path) -> None:
    shape = (1, 4, 5)
    rest = tuple(size for place, size in enumerate(shape) if place != axis % 3)
    outputs = [q8(rest, 0.1, 3)] * count
    made = options("UnpackOptions", axis=axis, num=count)
    x = q8(shape, 0.1, 3)
    model = one_op("UNPACK", made, [x], outputs)
    check_all(tmp_path, model, [random_values(np.random.default_rng(5), x)])


def test_concat_of_unequal_scales(tmp_path: Path) -> None:
    """LiteRT has it for uint8 only."""
    parts = [q8((2, 300), 0.1, 3, "uint8"), q8((2, 500), 0.037, 200, "uint8")]
    made = options("ConcatenationOptions", axis=1)
    model = one_op("CONCATENATION", made, parts, q8((2, 800), 0.1, 3, "uint8"))
    rng = np.random.default_rng(6)
    check(tmp_path, model, [random_values(rng, part) for part in parts])
