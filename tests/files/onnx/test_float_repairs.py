"""Forms on which the quantizer makes files that no runtime opens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import npuscope
from models_onnx import OnnxWriter
from npuscope.files.onnx.float_ready import _name_nodes
from npuscope.profiling.runtimes import onnxruntime_session
from quantizing.float_nets import SIZE, conv, picture_file, weights

pytest.importorskip("onnxruntime")


def quantized(folder: Path, w: OnnxWriter, *names: str) -> None:
    source, target = folder / "net.onnx", folder / "int8.onnx"
    source.write_bytes(w.finish(dict.fromkeys(names)))
    data = picture_file(folder, 4)
    npuscope.quantize(source, target, data=data, calibration="minmax")
    session = onnxruntime_session(target.read_bytes())
    assert [each.name for each in session.get_outputs()] == [*names]


def test_a_shared_bias_whose_copy_would_have_the_name_of_a_tensor(tmp_path: Path) -> None:
    w = OnnxWriter()
    x = w.input("image", (1, 3, SIZE, SIZE))
    bias = w.constant(weights(4, seed=1), "bias")
    parts = [
        w.node("Conv", x, w.constant(weights(4, 3, 1, 1, seed=n)), bias, output=f"bias{n}")
        for n in range(4)
    ]
    turned = [w.node("Neg", part) for part in parts]
    w.node("Concat", *parts, *turned, axis=1, output="y")
    quantized(tmp_path, w, "y")


def test_a_result_that_is_a_constant(tmp_path: Path) -> None:
    w = OnnxWriter()
    x = w.input("image", (1, 3, SIZE, SIZE))
    conv_of_x = conv(w, x, weights(4, 3, 3, 3))
    w.node("Relu", conv_of_x, output="y")
    w.node("Identity", w.constant(np.linspace(0, 1, 12, dtype=np.float32)), output="anchors")
    quantized(tmp_path, w, "y", "anchors")


def test_a_new_name_is_not_that_of_a_node_behind() -> None:
    """Exporters number nodes too."""
    names = ("", "Neg_0", "Neg_0", "Neg_2")
    proto = helper.make_model(
        helper.make_graph([helper.make_node("Neg", "x", "y", name=n) for n in names], "g", [], [])
    )
    _name_nodes(proto)
    assert [node.name for node in proto.graph.node] == ["Neg_1", "Neg_0", "Neg_3", "Neg_2"]


def test_a_gelu_that_is_written_out_is_on_the_npu(tmp_path: Path) -> None:
    w = OnnxWriter(13)
    x = conv(w, w.input("image", (1, 3, SIZE, SIZE)), weights(8, 3, 3, 3))
    curve = w.node("Erf", w.node("Div", x, w.constant(np.float32(2**0.5))))
    curve = w.node("Mul", x, w.node("Add", curve, w.constant(np.float32(1))))
    x = w.node("Mul", curve, w.constant(np.float32(0.5)))
    w.node("Relu", conv(w, x, weights(8, 8, 3, 3, seed=1)), output="y")
    quantized(tmp_path, w, "y")
    found = npuscope.estimate(tmp_path / "int8.onnx")
    assert found.counts["SW"] == 0


def test_what_is_added_to_a_product_is_not_its_bias(tmp_path: Path) -> None:
    """As in a written-out LSTM; onnxruntime makes a Gemm of the second product and the sum."""
    w = OnnxWriter(13)
    x = w.node("Flatten", conv(w, w.input("image", (1, 3, SIZE, SIZE)), weights(8, 3, 3, 3)))
    count = 8 * SIZE * SIZE
    gates = w.node("MatMul", x, w.constant(weights(count, 16)))
    state = w.node("MatMul", w.node("Tanh", x), w.constant(weights(count, 16, seed=1)))
    w.node("Sigmoid", w.node("Add", state, gates), output="y")
    quantized(tmp_path, w, "y")
    assert not [one for one in npuscope.lint(tmp_path / "int8.onnx") if "COMPUTED" in one.rule]
    assert npuscope.estimate(tmp_path / "int8.onnx").counts["SW"] == 0
