"""Float ONNX files made ready: what is repaired, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from models_onnx import OnnxWriter
from npuscope.errors import ModelError, UsageError
from npuscope.quantizing.float_onnx import prepare
from quantizing.float_nets import SIZE, conv, norm, pictures, small_net, weights

pytest.importorskip("onnxruntime")


def outputs(data: bytes, image: np.ndarray) -> np.ndarray:
    from npuscope.profiling.runtimes import onnxruntime_session

    session = onnxruntime_session(data)
    return np.asarray(session.run(None, {"image": image})[0])


@pytest.mark.parametrize("opset", [9, 11, 13, 17])
def test_exports_of_any_age_compute_the_same_afterwards(tmp_path: Path, opset: int) -> None:
    path = small_net(tmp_path, opset)
    network = prepare(path, None, tmp_path)
    kinds = {layer.kind for layer in network.layers()}
    assert "BatchNormalization" not in kinds and {"Conv", "PRelu", "Concat"} <= kinds
    assert any(note.startswith("1 BatchNormalization folded") for note in network.notes)
    assert any("the dynamic batch size was set to 1" in note for note in network.notes)
    assert any(note == f"opset {opset} became 17" for note in network.notes) is (opset < 13)
    image = pictures(1)
    wanted = outputs(path.read_bytes(), image)
    assert np.abs(outputs(network.data, image) - wanted).max() < 1e-5


def test_half_floats_become_whole_ones(tmp_path: Path) -> None:
    w = OnnxWriter()
    x = w.input("image", (1, 3, SIZE, SIZE), TensorProto.FLOAT16)
    held = w.constant(weights(4, 3, 3, 3).astype(np.float16))
    w.node("Conv", x, held, output="y")
    path = tmp_path / "half.onnx"
    path.write_bytes(w.finish({"y": None}, TensorProto.FLOAT16))
    network = prepare(path, None, tmp_path)
    assert "16-bit floats became 32-bit ones" in network.notes
    assert network.graph.type(network.graph.network_inputs[0]) == "float32"
    assert outputs(network.data, pictures(1)).dtype == np.float32


def test_open_sizes_take_a_shape(tmp_path: Path) -> None:
    w = OnnxWriter()
    w.node("Relu", conv(w, w.input("image", (1, 3, "h", "w")), weights(4, 3, 3, 3)), output="y")
    path = tmp_path / "open.onnx"
    path.write_bytes(w.finish({"y": None}))
    guessed = prepare(path, None, tmp_path)
    assert any("--shape image=1,3,224,224" in note for note in guessed.notes)
    network = prepare(path, {"image": (1, 3, 8, 8)}, tmp_path)
    assert outputs(network.data, np.zeros((1, 3, 8, 8), np.float32)).shape == (1, 4, 8, 8)
    with pytest.raises(UsageError, match="no input 'picture'"):
        prepare(path, {"picture": (1, 3, 8, 8)}, tmp_path)


def test_a_quantized_model_is_refused(tmp_path: Path) -> None:
    w = OnnxWriter()
    w.node("Relu", w.qdq(w.input("x", (1, 4)), 0.1), output="y")
    path = tmp_path / "qdq.onnx"
    path.write_bytes(w.finish({"y": (1, 4)}))
    with pytest.raises(ModelError, match="quantized already"):
        prepare(path, None, tmp_path)


def test_a_dynamically_quantized_model_is_sent_to_its_float_one(tmp_path: Path) -> None:
    w = OnnxWriter()
    node = helper.make_node("DynamicQuantizeLinear", [w.input("x", (1, 4))], ["y", "s", "z"])
    w.nodes.append(node)
    path = tmp_path / "dynamic.onnx"
    path.write_bytes(w.finish({"s": ()}))
    with pytest.raises(ModelError) as caught:
        prepare(path, None, tmp_path)
    assert "the float model that it was made from" in caught.value.hint


@pytest.mark.parametrize("constant", [True, False])
def test_a_branch_that_is_not_known_is_refused(tmp_path: Path, constant: bool) -> None:
    w = OnnxWriter()
    x = w.input("x", (1, 4))
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["z"])],
        "b",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 4])],
    )
    flag = w.constant(np.array(True)) if constant else w.input("flag", (), TensorProto.BOOL)
    w.node("If", flag, output="y", then_branch=body, else_branch=body)
    w.node("Relu", x, output="other")
    path = tmp_path / "if.onnx"
    path.write_bytes(w.finish({"y": (1, 4)}))
    if constant:
        assert [layer.kind for layer in prepare(path, None, tmp_path).layers()] == ["Relu"]
        return
    with pytest.raises(ModelError, match="the model has If"):
        prepare(path, None, tmp_path)


def test_a_branch_that_does_not_fit_the_sizes_is_named(tmp_path: Path) -> None:
    """A file for two rates: only one branch fits the length that was set."""
    w = OnnxWriter()
    w.input("x", (1, 4))
    body = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["z"])],
        "b",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(np.ones((3, 5), np.float32), "w")],
    )
    flag = w.input("flag", (), TensorProto.BOOL)
    w.node("If", flag, output="y", then_branch=body, else_branch=body)
    path = tmp_path / "if.onnx"
    path.write_bytes(w.finish({"y": (1, 5)}))
    with pytest.raises(ModelError, match="the model has If: what is inside cannot be calibrated"):
        prepare(path, None, tmp_path)


def test_a_bias_in_two_axes_becomes_a_row(tmp_path: Path) -> None:
    w = OnnxWriter()
    x = w.input("x", (1, 6))
    w.node("Gemm", x, w.constant(weights(6, 4)), w.constant(weights(1, 4)), output="y")
    path = tmp_path / "gemm.onnx"
    path.write_bytes(w.finish({"y": (1, 4)}))
    network = prepare(path, None, tmp_path)
    bias = network.constant("y_bias")
    assert bias is not None and bias.shape == (4,)


def test_a_norm_that_no_layer_takes_becomes_a_depthwise_layer(tmp_path: Path) -> None:
    w = OnnxWriter()
    x = conv(w, w.input("image", (1, 3, SIZE, SIZE)), weights(4, 3, 3, 3))
    x = w.node("Add", w.node("Relu", x), w.node("Sigmoid", x))
    w.node("Relu", norm(w, x, 4), output="y")
    path = tmp_path / "norm.onnx"
    path.write_bytes(w.finish({"y": None}))
    network = prepare(path, None, tmp_path)
    assert "1 BatchNormalization became depthwise 1x1 convolutions" in network.notes
    assert [layer.kind for layer in network.layers()].count("Conv") == 2
    wanted = outputs(path.read_bytes(), pictures(1))
    assert np.abs(outputs(network.data, pictures(1)) - wanted).max() < 1e-5


@pytest.mark.parametrize(
    ("kind", "numbers", "summed"),
    [("Relu", [], False), ("LeakyRelu", [0.2], False), ("Clip", [0.0, 1.5], True), ("", [], True)],
)
def test_fused_layers_are_split(
    tmp_path: Path, kind: str, numbers: list[float], summed: bool
) -> None:
    w = OnnxWriter()
    x = w.input("image", (1, 3, SIZE, SIZE))
    held = [w.constant(weights(3, 3, 3, 3)), w.constant(weights(3))]
    given = {"activation": kind} if kind else {}
    more = {"activation_params": numbers} if numbers else {}
    inputs = (x, *held, x) if summed else (x, *held)
    w.node("com.microsoft.FusedConv", *inputs, output="y", pads=[1] * 4, **given, **more)
    path = tmp_path / "fused.onnx"
    path.write_bytes(w.finish({"y": None}))
    network = prepare(path, None, tmp_path)
    wanted = [*["Conv"], *["Add"] * summed, *[kind] * bool(kind)]
    assert [layer.kind for layer in network.layers()] == wanted
    found = outputs(network.data, pictures(1))
    assert np.abs(found - outputs(path.read_bytes(), pictures(1))).max() < 1e-5


def test_open_sizes_are_those_of_the_other_verbs(tmp_path: Path) -> None:
    """The usual 224 x 224 do not fit a reader of text lines: its height is fixed behind a layer."""
    w = OnnxWriter()
    x = w.input("image", (1, 3, "h", "w"))
    x = w.node("Conv", x, w.constant(weights(4, 3, 3, 3)), strides=[2, 2], pads=[1] * 4)
    x = w.node("MaxPool", x, kernel_shape=[24, 1], strides=[24, 1])
    w.node("Squeeze", x, w.constant(np.array([2])), output="y")
    path = tmp_path / "lines.onnx"
    path.write_bytes(w.finish({"y": None}))
    network = prepare(path, None, tmp_path)
    assert any("--shape image=1,3,48,320" in note for note in network.notes)


def test_ops_that_the_converter_of_opsets_does_not_know_are_taken_apart_first(
    tmp_path: Path,
) -> None:
    w = OnnxWriter(7)
    x = w.node("ImageScaler", w.input("image", (1, 3, SIZE, SIZE)), scale=0.5, bias=[1.0, 2.0, 3.0])
    w.node("Relu", conv(w, x, weights(4, 3, 3, 3)), output="y")
    path = tmp_path / "old.onnx"
    path.write_bytes(w.finish({"y": None}))
    network = prepare(path, None, tmp_path)
    assert [layer.kind for layer in network.layers()] == ["Mul", "Add", "Conv", "Relu"]
