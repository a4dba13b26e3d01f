"""The TFLite reader: shape arithmetic is computed, cuts are resolved, several outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models import TfliteWriter, save
from npuscope.errors import ModelError
from npuscope.files.load import load_model
from npuscope.graph import Graph
from npuscope.ops.images import Coordinates, NearestRounding, ResizeAttrs, ResizeMode
from npuscope.ops.layers import TransposeConvAttrs
from npuscope.ops.moves import SliceAttrs, SplitAttrs, TileAttrs
from npuscope.ops.table import total_macs


def load(folder: Path, data: bytes, **shapes: tuple[int, ...]) -> Graph:
    return load_model(save(folder, "model.tflite", data), shapes)


def ints(w: TfliteWriter, *values: int) -> int:
    return w.constant("c", np.array(values, np.int32))


def shape_chain(signature: tuple[int, ...] | None = None) -> bytes:
    """Repeats of a TILE computed from SHAPE by STRIDED_SLICE, MUL and PACK."""
    w = TfliteWriter()
    x = w.tensor("x", (1, 4, 6), scale=0.5, signature=signature)
    sizes, row = w.tensor("sizes", (3,), "int32"), w.tensor("row", (), "int32")
    double, repeats = w.tensor("double", (), "int32"), w.tensor("repeats", (3,), "int32")
    y = w.tensor("y", (1, 32, 6), scale=0.5)
    w.op("SHAPE", [x], [sizes])
    w.op("STRIDED_SLICE", [sizes, ints(w, 1), ints(w, 2), ints(w, 1)], [row], shrinkAxisMask=1)
    w.op("MUL", [row, w.constant("two", np.array(2, np.int32))], [double])
    one = w.constant("one", np.array(1, np.int32))
    w.op("PACK", [one, double, one], [repeats], valuesCount=3, axis=0)
    w.op("TILE", [x, repeats], [y])
    return w.finish([x], [y])


def test_shape_arithmetic_is_computed(tmp_path: Path) -> None:
    graph = load(tmp_path, shape_chain())
    assert [op.kind for op in graph.ops] == ["Tile"]
    assert graph.ops[0].attrs == TileAttrs((1, 8, 1))
    assert graph.tensors.keys() == {"x", "y"}


def test_shape_arithmetic_follows_a_pinned_input(tmp_path: Path) -> None:
    graph = load(tmp_path, shape_chain((1, -1, 6)), x=(1, 3, 6))
    assert graph.ops[0].attrs == TileAttrs((1, 6, 1))
    assert graph.tensor("y").shape == (1, 18, 6)


def test_several_outputs(tmp_path: Path) -> None:
    w = TfliteWriter()
    x = w.tensor("x", (1, 4, 6), scale=0.5)
    parts = [w.tensor(f"y{i}", (1, 4, 2), scale=0.5) for i in range(3)]
    w.op("SPLIT", [ints(w, -1), x], parts, numSplits=3)
    graph = load(tmp_path, w.finish([x], [parts[2], parts[0]]))
    (op,) = graph.ops
    assert op.attrs == SplitAttrs(2, (2, 2, 2)) and op.outputs == ("y0", "y1", "y2")
    assert graph.outputs == ("y2", "y0")


def test_a_cut_that_drops_an_axis(tmp_path: Path) -> None:
    w = TfliteWriter()
    x, y = w.tensor("x", (2, 4, 6), scale=0.5), w.tensor("y", (4, 3), scale=0.5)
    bounds = ints(w, -1, 0, 5), ints(w, 0, 0, -7), ints(w, 1, 1, -2)
    w.op("STRIDED_SLICE", [x, *bounds], [y], beginMask=2, endMask=2, shrinkAxisMask=1)
    graph = load(tmp_path, w.finish([x], [y]))
    assert [op.kind for op in graph.ops] == ["Slice", "Reshape"]
    assert graph.ops[0].attrs == SliceAttrs((1, 0, 5), (1, 4, 3), (1, 1, -2))


def test_an_empty_cut(tmp_path: Path) -> None:
    w = TfliteWriter()
    x, y = w.tensor("x", (2, 4), scale=0.5), w.tensor("y", (2, 0), scale=0.5)
    w.op("STRIDED_SLICE", [x, ints(w, 0, 3), ints(w, 2, 3), ints(w, 1, 1)], [y])
    with pytest.raises(ModelError, match=r"STRIDED_SLICE:#0: \[3:3:1\] of 4 elements is empty"):
        load(tmp_path, w.finish([x], [y]))


@pytest.mark.parametrize(
    ("kind", "flags", "mode", "places", "rounding"),
    [
        ("RESIZE_BILINEAR", {}, "linear", "asymmetric", "floor"),
        ("RESIZE_BILINEAR", {"halfPixelCenters": True}, "linear", "half_pixel", "floor"),
        ("RESIZE_NEAREST_NEIGHBOR", {}, "nearest", "asymmetric", "floor"),
        (
            "RESIZE_NEAREST_NEIGHBOR",
            {"alignCorners": True},
            "nearest",
            "align_corners",
            "round_prefer_ceil",
        ),
    ],
)
def test_resize(
    tmp_path: Path, kind: str, flags: dict, mode: str, places: str, rounding: str
) -> None:
    w = TfliteWriter()
    x, y = w.tensor("x", (1, 4, 6, 2), scale=0.5), w.tensor("y", (1, 8, 9, 2), scale=0.5)
    w.op(kind, [x, ints(w, 8, 9)], [y], **flags)
    (op,) = load(tmp_path, w.finish([x], [y])).ops
    assert op.attrs == ResizeAttrs(
        (8, 9), (2.0, 1.5), ResizeMode(mode), Coordinates(places), NearestRounding(rounding)
    )


@pytest.mark.parametrize(
    ("size", "stride", "padding", "pads", "more"),
    [
        ((8, 12), 2, 0, (0, 0, 1, 1), (0, 0)),
        ((9, 13), 2, 1, (0, 0, 0, 0), (0, 0)),
        ((12, 18), 3, 0, (0, 0, 0, 0), (0, 0)),
        ((16, 24), 4, 1, (0, 0, 0, 0), (1, 1)),  # gaps, and one behind the last patch
    ],
)
def test_transpose_conv(
    tmp_path: Path, size: tuple, stride: int, padding: int, pads: tuple, more: tuple
) -> None:
    w = TfliteWriter()
    x = w.tensor("x", (1, 4, 6, 2), scale=0.5)
    k = w.constant("w", np.ones((3, 3, 3, 2), np.int8), scale=0.1)
    y = w.tensor("y", (1, *size, 3), scale=0.5)
    w.op(
        "TRANSPOSE_CONV",
        [ints(w, 1, *size, 3), k, x],
        [y],
        strideH=stride,
        strideW=stride,
        padding=padding,
    )
    graph = load(tmp_path, w.finish([x], [y]))
    assert graph.ops[0].attrs == TransposeConvAttrs((stride, stride), pads, more)
    assert total_macs(graph) == 4 * 6 * 2 * 3 * 3 * 3
