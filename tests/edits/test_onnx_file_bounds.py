"""Empty inputs, open bounds, and bounds that are computed from constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from compiler.nets import MACHINES
from edits.border_case import edited, misfit, outside
from models import OnnxWriter, save
from npuscope.rulebook.registry import lint_model_file

IMAGE = (1, 4, 8, 8)


def net(kind: str, inputs: list[np.ndarray | str | None], opset: int = 18, **attrs: int) -> bytes:
    """One node on an image; None is an absent input, a text a tensor."""
    writer = OnnxWriter(opset)
    x = writer.qdq(writer.input("x", IMAGE), 1 / 64)
    names = [
        "" if value is None else value if isinstance(value, str) else writer.constant(value)
        for value in inputs
    ]
    writer.node(kind, x, *names, name="it", output="y", **attrs)
    return writer.finish({"y": None})


def same_results(before: bytes, after: bytes) -> bool:
    return np.array_equal(outside(before)["y"], outside(after)["y"])


def rules(folder: Path, data: bytes) -> list[str]:
    path = save(folder, "net.onnx", data)
    return [finding.rule for finding in lint_model_file(path, MACHINES["4.0"])]


def inputs_of(data: bytes, name: str = "it") -> list[np.ndarray | str]:
    """Values of a node's inputs, names where they are computed."""
    graph = onnx.load_from_string(data).graph
    values = {entry.name: numpy_helper.to_array(entry) for entry in graph.initializer}
    node = next(node for node in graph.node if node.name == name)
    return [values.get(name, name) for name in node.input[1:]]


PADS = np.array([0, 0, 1, 1, 0, 0, 1, 1])


def test_a_last_empty_input_goes(tmp_path: Path) -> None:
    before = net("Pad", [PADS, None])
    after = edited(before, "strip-empty-input", "Pad:it")
    assert len(inputs_of(after)) == 1
    assert same_results(before, after)
    assert rules(tmp_path, before) == ["LINT-PAD-EMPTY-INPUT"]
    assert rules(tmp_path, after) == []


def test_an_empty_input_in_the_middle_becomes_zero() -> None:
    before = net("Pad", [np.array([1, 1]), None, np.array([2])])
    after = edited(before, "strip-empty-input", "Pad:it")
    _, value, axes = inputs_of(after)
    assert (value, axes) == (np.float32(0), 2)
    assert same_results(before, after)


def test_no_empty_input() -> None:
    assert misfit(net("Pad", [PADS]), "strip-empty-input", "Pad:it") == "no input is empty"


def cut(start: int, end: int, axis: int = 2, step: int = 1) -> bytes:
    return net("Slice", [np.array([n]) for n in (start, end, axis, step)])


@pytest.mark.parametrize(
    ("start", "end", "step", "plain"),
    [
        (0, 2**63 - 1, 1, (0, 8)),
        (2, -1, 1, (2, 7)),
        (-3, 2**31 - 1, 1, (5, 8)),
        (1, -1, 3, (1, 7)),
        (-1, -7, -2, (7, 1)),
    ],
)
def test_bounds_are_written_out(
    start: int, end: int, step: int, plain: tuple[int, int], tmp_path: Path
) -> None:
    before = cut(start, end, step=step)
    after = edited(before, "plain-bounds", "Slice:it")
    starts, ends, *_ = inputs_of(after)
    assert (starts, ends) == plain
    assert same_results(before, after)
    assert rules(tmp_path, before) == ["LINT-SLICE-BOUNDS"]
    assert rules(tmp_path, after) == []


def test_absent_axes_are_the_first_ones() -> None:
    before = net("Slice", [np.zeros(3, np.int64), np.array([1, -1, 2**40])])
    after = edited(before, "plain-bounds", "Slice:it")
    _, ends = inputs_of(after)
    assert np.array_equal(ends, [1, 3, 8])
    assert same_results(before, after)


def test_backwards_to_the_first_element() -> None:
    sentence = "it runs backwards to the first element, which has no plain end index"
    assert misfit(cut(-1, -100, step=-1), "plain-bounds", "Slice:it") == sentence


def clip(*bounds: float) -> bytes:
    """A Clip with bounds after DequantizeLinear."""
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", IMAGE), 1 / 64)
    steps = [writer.constant(np.array(round(b * 8) + 3, np.int8)) for b in bounds]
    reals = [writer.dequantize(step, 0.125, 3) for step in steps]
    writer.node("Clip", x, *reals, name="it", output="y")
    return writer.finish({"y": None})


@pytest.mark.parametrize("bounds", [(-0.25,), (-0.25, 0.5)])
def test_bounds_behind_a_dequantize_become_numbers(
    bounds: tuple[float, ...], tmp_path: Path
) -> None:
    before = clip(*bounds)
    after = edited(before, "fold-bounds", "Clip:it")
    assert inputs_of(after) == [np.float32(b) for b in bounds]
    assert same_results(before, after)
    assert rules(tmp_path, before) == ["LINT-CLIP-BOUNDS"]
    assert rules(tmp_path, after) == []


def test_a_clip_of_whole_numbers_keeps_its_bounds() -> None:
    writer = OnnxWriter()
    x = writer.input("x", IMAGE, TensorProto.INT64)
    y = writer.node("Clip", x, writer.constant(np.array(0)), name="it")
    data = writer.finish({y: IMAGE}, TensorProto.INT64)
    sentence = "the Clip itself does not work on float numbers"
    assert misfit(data, "fold-bounds", "Clip:it") == sentence


def test_a_clip_without_bounds() -> None:
    sentence = "it has no bounds among its inputs"
    assert misfit(net("Clip", []), "fold-bounds", "Clip:it") == sentence


@pytest.mark.parametrize(
    ("fix", "kind"),
    [("strip-empty-input", "Pad"), ("plain-bounds", "Slice"), ("fold-bounds", "Clip")],
)
def test_another_op(fix: str, kind: str) -> None:
    assert misfit(net("Relu", []), fix, "Relu:it") == f"the network has no {kind}"
