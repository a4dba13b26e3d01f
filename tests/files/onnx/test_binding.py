"""What computes on integers: clamps, folded normalizations, splits, float slopes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models import OnnxWriter, save
from npuscope.files.load import load_model
from npuscope.graph import DType, Graph
from npuscope.graph.model import Activation
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.moves import SplitAttrs


def weights(w: OnnxWriter, *shape: int) -> str:
    values = np.arange(np.prod(shape)) % 251 - 125
    return w.dequantized_constant(values.reshape(shape).astype(np.int8), 0.01)


def image(w: OnnxWriter) -> str:
    return w.qdq(w.input("x", (1, 3, 5, 7)), 0.02)


def load(folder: Path, w: OnnxWriter, y: str) -> Graph:
    w.dequantize(w.quantize(y, 0.05), 0.05, output="y")
    return load_model(save(folder, "m.onnx", w.finish({"y": None})))


def kinds(graph: Graph) -> list[str]:
    made = [f"{op.kind} {graph.output_tensor(op).dtype.value}" for op in graph.ops]
    return [text for text in made if not text.startswith("Transpose")]


def test_clamps_in_a_row_are_one(tmp_path: Path) -> None:
    w = OnnxWriter()
    y = w.node("Conv", image(w), weights(w, 4, 3, 1, 1))
    y = w.node("Clip", w.node("Relu", y), w.constant(-9.0), w.constant(6.0))
    graph = load(tmp_path, w, y)
    conv = next(op for op in graph.ops if op.kind == "Conv2D")
    assert kinds(graph) == ["Conv2D int8"]
    assert conv.attrs == ConvAttrs(activation=Activation.RELU6)
    assert len(conv.origin) == 3


@pytest.mark.parametrize("kind", ["Sigmoid", "MatMul", "GlobalAveragePool"])
def test_clamps_behind_ops_that_cannot_fuse_them(tmp_path: Path, kind: str) -> None:
    """Clamping behind a product of activations used to be lost."""
    w = OnnxWriter()
    x = image(w)
    inputs = (
        (x, w.qdq(w.node("Transpose", x, perm=[0, 1, 3, 2]), 0.02)) if kind == "MatMul" else (x,)
    )
    y = w.node("Clip", w.node(kind, *inputs), w.constant(0.25), w.constant(0.5))
    graph = load(tmp_path, w, y)
    clip = next(op for op in graph.ops if op.kind == "Clip")
    assert "Clip int8" in kinds(graph) and not any("float" in text for text in kinds(graph))
    assert clip.attrs == ClipAttrs(0.25, 0.5)
    assert graph.first_input(clip).quant == graph.output_tensor(clip).quant


def test_max_with_a_number_is_a_clip(tmp_path: Path) -> None:
    w = OnnxWriter()
    graph = load(tmp_path, w, w.node("Max", w.constant(0.5), image(w)))
    assert kinds(graph) == ["Clip int8"]
    assert graph.ops[0].attrs == ClipAttrs(0.5, float("inf"))


def batch_norm(w: OnnxWriter, y: str, gain: list[float]) -> str:
    count = len(gain)
    parts = (gain, [0.5] * count, [0.25] * count, [1.0] * count)
    return w.node("BatchNormalization", y, *(w.constant(np.array(p)) for p in parts), epsilon=0.0)


def test_a_folded_batch_norm_changes_scales_and_signs_only(tmp_path: Path) -> None:
    w = OnnxWriter()
    bias = w.constant(np.array([1.0, 2.0, 3.0]))
    data = np.arange(9).reshape(3, 3, 1, 1).astype(np.int8)
    y = w.node("Conv", image(w), w.dequantized_constant(data, 0.01), bias)
    graph = load(tmp_path, w, w.node("Relu", batch_norm(w, y, [2.0, -3.0, 0.5])))
    (conv,) = (op for op in graph.ops if op.kind == "Conv2D")
    assert kinds(graph) == ["Conv2D int8"] and conv.attrs == ConvAttrs(activation=Activation.RELU)
    kernel, offset = (graph.tensors[name] for name in conv.inputs[1:])
    assert kernel.data is not None and offset.data is not None and kernel.quant is not None
    assert kernel.data.ravel().tolist() == [0, 1, 2, -3, -4, -5, 6, 7, 8]
    assert kernel.quant.scales == pytest.approx((0.02, 0.03, 0.005))
    assert kernel.quant.zero_points == (0, 0, 0) and kernel.quant.axis == 0
    # gain * (bias - 0.25) + 0.5
    assert offset.data.tolist() == pytest.approx([2.0, -4.75, 1.875])
    assert [origin.split(":")[0] for origin in conv.origin] == [
        "Conv",
        "BatchNormalization",
        "Relu",
    ]


def test_weights_of_minus_128_have_no_negative(tmp_path: Path) -> None:
    w = OnnxWriter()
    data = np.array([[-128, 5, 127]], np.int8).reshape(1, 3, 1, 1)
    y = w.node("Conv", image(w), w.dequantized_constant(data, 0.01))
    graph = load(tmp_path, w, batch_norm(w, y, [-2.0]))
    (conv,) = (op for op in graph.ops if op.kind == "Conv2D")
    kernel = graph.tensors[conv.inputs[1]]
    assert kernel.data is not None and kernel.quant is not None
    real = (kernel.data.ravel().astype(int) - kernel.quant.zero_points[0]) * kernel.quant.scales[0]
    assert real.tolist() == pytest.approx([2.56, -0.1, -2.54])


def test_a_batch_norm_alone_stays_an_op(tmp_path: Path) -> None:
    w = OnnxWriter()
    assert kinds(load(tmp_path, w, batch_norm(w, image(w), [1.0, 2.0, -1.0]))) == ["BatchNorm int8"]


def test_float_slopes_make_a_float_island(tmp_path: Path) -> None:
    w = OnnxWriter()
    y = w.node("PRelu", image(w), w.constant(np.full((3, 1, 1), 0.1)))
    assert kinds(load(tmp_path, w, y)) == ["Dequantize float32", "PRelu float32", "Quantize int8"]


def test_quantized_slopes_keep_the_integers(tmp_path: Path) -> None:
    w = OnnxWriter()
    x = w.qdq(w.node("Conv", image(w), weights(w, 3, 3, 1, 1)), 0.05)
    graph = load(tmp_path, w, w.node("PRelu", x, weights(w, 3, 1, 1)))
    (op,) = (op for op in graph.ops if op.kind == "PRelu")
    assert kinds(graph) == ["Conv2D int8", "PRelu int8"]
    assert graph.tensors[op.inputs[1]].shape == (3,)  # broadcasts over channels, stored last


@pytest.mark.parametrize("kind", ["LeakyRelu", "HardSwish", "Tanh"])
def test_functions_between_a_conv_and_its_quantizer_are_float(tmp_path: Path, kind: str) -> None:
    w = OnnxWriter()
    y = w.node(kind, w.node("Conv", image(w), weights(w, 4, 3, 1, 1)))
    assert kinds(load(tmp_path, w, y)) == [
        "Dequantize float32",
        "Conv2D float32",
        f"{kind} float32",
        "Quantize int8",
    ]


def test_a_split_moves_integers_to_all_outputs(tmp_path: Path) -> None:
    w = OnnxWriter(13)
    y = w.qdq(w.node("Conv", image(w), weights(w, 6, 3, 1, 1)), 0.05)
    a, b = w.nodes_with("Split", [y, w.constant([2, 4])], 2, axis=1)
    b = w.node("Conv", w.qdq(b, 0.05), weights(w, 2, 4, 1, 1))
    graph = load(tmp_path, w, w.node("Add", w.qdq(a, 0.03), w.qdq(b, 0.05)))
    (op,) = (op for op in graph.ops if op.kind == "Split")
    assert op.attrs == SplitAttrs(3, (2, 4)) and len(op.outputs) == 2
    assert [graph.tensors[name].shape for name in op.outputs] == [(1, 5, 7, 2), (1, 5, 7, 4)]
    assert all(graph.tensors[name].dtype is DType.INT8 for name in op.outputs)
    assert "Quantize int8" in kinds(graph)  # of the part that changes its scale


def test_places_of_extremes_are_found_on_integers(tmp_path: Path) -> None:
    w = OnnxWriter()
    w.node("ArgMax", image(w), axis=1, keepdims=0, output="y")
    graph = load_model(save(tmp_path, "m.onnx", w.finish({"y": None}, 7)))
    assert kinds(graph) == ["ArgMax int64"]
    assert graph.tensor("y").shape == (1, 5, 7)


def test_layouts_survive_cuts_and_resizes(tmp_path: Path) -> None:
    """One Transpose at the input, one at the output."""
    w = OnnxWriter()
    y = w.qdq(w.node("Conv", image(w), weights(w, 8, 3, 1, 1)), 0.05)
    y = w.qdq(w.node("Slice", y, *(w.constant([v]) for v in (2, 8, 1))), 0.05)
    y = w.qdq(w.node("Resize", y, "", w.constant(np.float32([1, 1, 2, 2])), mode="nearest"), 0.05)
    y = w.qdq(w.node("Tile", y, w.constant([1, 2, 1, 1])), 0.05)
    y = w.qdq(w.node("DepthToSpace", w.qdq(y, 0.05), blocksize=2), 0.05)
    graph = load(tmp_path, w, w.node("ConvTranspose", y, weights(w, 3, 2, 2, 2), strides=[2, 2]))
    turned = [op for op in graph.ops if op.kind == "Transpose"]
    assert [graph.ops.index(op) for op in turned] == [0, len(graph.ops) - 1]


def test_an_identity_at_the_end_does_not_make_floats(tmp_path: Path) -> None:
    w = OnnxWriter()
    y = w.qdq(w.node("Conv", image(w), weights(w, 4, 3, 1, 1)), 0.05)
    w.node("Identity", y, output="y")
    graph = load_model(save(tmp_path, "m.onnx", w.finish({"y": None})))
    assert kinds(graph) == ["Conv2D int8"] and graph.tensor("y").dtype is DType.INT8
