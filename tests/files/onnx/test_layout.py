"""Layouts: where source axes lie in storage, checked against numpy."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from models_onnx import OnnxWriter
from npuscope.files.load import load_model
from npuscope.files.onnx.layout import (
    ADDED,
    AxisGroup,
    dropped,
    relabel,
    reshape_groups,
    reshape_layouts,
    source_shape,
    stored_shape,
)
from npuscope.ops.moves import ConcatAttrs
from npuscope.ops.run import run

SHAPE = (2, 3, 4, 5)


def store(array: np.ndarray, layout: tuple[int, ...]) -> np.ndarray:
    turned = array.transpose([axis for axis in layout if axis != ADDED])
    return turned.reshape(stored_shape(layout, array.shape))


def test_shapes_there_and_back() -> None:
    assert stored_shape((0, ADDED, 2, 1), (1, 8, 20)) == (1, 1, 20, 8)
    assert source_shape((0, ADDED, 2, 1), (1, 1, 20, 8)) == (1, 8, 20)


def test_relabel_is_a_transpose_without_moving() -> None:
    array = np.arange(120).reshape(SHAPE)
    for layout, order in itertools.product(itertools.permutations(range(4)), repeat=2):
        stored = store(array, layout)
        assert np.array_equal(stored, store(array.transpose(order), relabel(layout, order)))


def test_dropped_axes() -> None:
    assert dropped((0, 2, 3, 1), (2, 3)) == (0, 1)
    assert dropped((0, ADDED, 2, 1), (1,)) == (0, ADDED, 1)


def test_groups() -> None:
    assert reshape_groups((1, 6, 5, 7), (1, 2, 3, 35)) == [
        AxisGroup((0,), (0,)),
        AxisGroup((1,), (1, 2)),
        AxisGroup((2, 3), (3,)),
    ]
    assert reshape_groups((1, 4, 1, 1), (1, 4)) == [
        AxisGroup((0,), (0,)),
        AxisGroup((1, 2, 3), (1,)),
    ]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((1, 6, 5, 7), (1, 2, 3, 5, 7)),
        ((1, 6, 5, 7), (1, 210)),
        ((1, 6, 1, 1), (1, 6)),
        ((2, 6, 5, 7), (12, 35)),
        ((2, 6, 5, 1), (2, 2, 1, 3, 5)),
        ((1, 4, 6, 1), (4, 1, 2, 3)),
    ],
)
def test_reshape_of_any_storage(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    array = np.arange(np.prod(source)).reshape(source)
    for layout in itertools.permutations(range(len(source))):
        before, after = reshape_layouts(layout, source, target)
        stored = store(array, before).reshape(stored_shape(after, target))
        assert np.array_equal(stored, store(array.reshape(target), after))


def test_a_split_of_channels_leaves_the_image_where_it_is() -> None:
    before, after = reshape_layouts((0, 2, 3, 1), (1, 6, 5, 7), (1, 2, 3, 5, 7))
    assert before == (0, 2, 3, 1) and after == (0, 3, 4, 1, 2)


def test_channels_that_two_branches_share_out_stay_the_last_axis(tmp_path: Path) -> None:
    """ShuffleNet as it is exported: a view of pairs of channels, of which each branch takes one."""
    w = OnnxWriter(13)
    kernel = np.eye(8, dtype=np.float32).reshape(8, 8, 1, 1)
    x = w.node("Conv", w.input("x", (1, 8, 6, 6)), w.constant(kernel))
    pairs = w.node("Reshape", x, w.constant(np.array([4, 2, 36])))
    turned = w.node("Transpose", pairs, perm=[1, 0, 2])
    halves = w.node("Reshape", turned, w.constant(np.array([2, 1, 4, 6, 6])))
    parts = [w.node("Gather", halves, w.constant(np.array(n)), axis=0) for n in range(2)]
    w.node("Concat", w.node("Relu", parts[1]), parts[0], axis=1, output="y")
    path = tmp_path / "shuffle.onnx"
    path.write_bytes(w.finish({"y": (1, 8, 6, 6)}))
    graph = load_model(path)
    axes = [op.attrs_as(ConcatAttrs).axis for op in graph.ops if op.kind == "Concat"]
    assert axes == [3]
    assert {graph.first_input(op).shape for op in graph.ops if op.kind == "Slice"} == {
        (1, 6, 6, 4, 2)
    }
    sample = np.arange(288, dtype=np.float32).reshape(1, 8, 6, 6)
    (found,) = run(graph, {"x": sample}).values()
    np.testing.assert_array_equal(found, sample[:, [1, 3, 5, 7, 0, 2, 4, 6]])
