"""ONNX files we cannot use, and why, in the user's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from models import OnnxWriter, conv_net, save, to_onnx
from npuscope.errors import FileError, ModelError, NpuscopeError
from npuscope.files.load import load_model
from npuscope.ops.run import run
from npuscope.ops.unknown import unknown_names


def text(tmp_path: Path, data: bytes, family: type[NpuscopeError] = ModelError) -> str:
    with pytest.raises(family) as caught:
        load_model(save(tmp_path, "m.onnx", data))
    return str(caught.value).removeprefix(f"{tmp_path}/m.onnx: ")


def with_node(kind: str, opset: int = 17, **attrs: Any) -> bytes:
    writer = OnnxWriter(opset)
    writer.node(kind, writer.input("x", (1, 4)), name="n", output="y", **attrs)
    return writer.finish({"y": (1, 4)})


def test_opset_range(tmp_path: Path) -> None:
    assert text(tmp_path, with_node("Relu", 29)) == (
        "opset 29 is not supported, expected 7 to 28\n"
        "  hint: convert it: onnx.version_converter.convert_version(model, 17)"
    )


def test_the_first_opsets_are_updated(tmp_path: Path) -> None:
    graph = load_model(save(tmp_path, "m.onnx", with_node("Relu", 6)))
    assert [op.kind for op in graph.ops] == ["Clip"]


def symbolic(*dims: int | str | None) -> bytes:
    writer = OnnxWriter()
    writer.node("Relu", writer.input("image", dims), output="y")
    return writer.finish({"y": dims})


def test_symbolic_batch_becomes_one(tmp_path: Path) -> None:
    graph = load_model(save(tmp_path, "m.onnx", symbolic("N", 3)))
    assert graph.tensor("image").shape == (1, 3)
    assert graph.notes == ["input 'image': the dynamic batch size was set to 1"]


def test_other_symbols_get_a_stated_size(tmp_path: Path) -> None:
    graph = load_model(save(tmp_path, "m.onnx", symbolic("N", 3, "height", None)))
    assert graph.tensor("y").shape == (1, 3, 224, 224)
    assert graph.notes == [
        "input 'image': dynamic sizes (N, 3, height, ?) were taken as --shape image=1,3,224,224"
    ]


def test_pins_replace_symbols(tmp_path: Path) -> None:
    path = save(tmp_path, "m.onnx", symbolic("N", 3, "height", None))
    assert load_model(path, {"image": (2, 3, 8, 9)}).tensor("y").shape == (2, 3, 8, 9)


def dynamic(weights: np.ndarray, read_twice: bool = False) -> bytes:
    writer = OnnxWriter()
    x = writer.input("x", (1, 4))
    nodes = helper.make_node("DynamicQuantizeLinear", [x], ["q", "scale", "zero"])
    writer.nodes.append(nodes)
    product = writer.node("MatMulInteger", "q", writer.constant(weights), "zero")
    cast = writer.node("Cast", product, to=TensorProto.FLOAT)
    step = writer.node("Mul", "scale", writer.constant(np.array(0.5, np.float32)))
    writer.node("Mul", cast, step, output="y")
    if read_twice:
        other = writer.input("other", (4, 2), TensorProto.INT8)
        writer.node("MatMulInteger", "q", other, output="z")
    return writer.finish({"y": (1, 2), **({"z": None} if read_twice else {})})


def test_dynamic_quantization_is_a_float_network(tmp_path: Path) -> None:
    weights = np.arange(8, dtype=np.int8).reshape(4, 2)
    graph = load_model(save(tmp_path, "m.onnx", dynamic(weights)))
    assert [op.kind for op in graph.ops] == ["FullyConnected"]
    ones = np.ones((1, 4), np.float32)
    assert run(graph, {"x": ones})["y"].tolist() == (ones @ weights * 0.5).tolist()
    assert graph.notes == [
        "activations are quantized while it runs (dynamic range): read as a float network"
    ]


def test_a_bias_that_is_rounded_while_it_runs(tmp_path: Path) -> None:
    """It is added to sums of integers, as an integer: with them it is real."""
    w = OnnxWriter()
    x = w.input("x", (1, 4))
    w.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], ["q", "scale", "zero"]))
    weights = np.arange(8, dtype=np.int8).reshape(4, 2)
    product = w.node("MatMulInteger", "q", w.constant(weights), "zero")
    steps = w.node("Div", w.constant(np.array([3.0, -4.0], np.float32)), "scale")
    bias = w.node("Cast", w.node("Floor", steps), to=TensorProto.INT32)
    total = w.node("Cast", w.node("Add", product, bias), to=TensorProto.FLOAT)
    w.node("Mul", total, "scale", output="y")
    graph = load_model(save(tmp_path, "m.onnx", w.finish({"y": (1, 2)})))
    ones = np.ones((1, 4), np.float32)
    assert run(graph, {"x": ones})["y"].tolist() == (ones @ weights + [3, -4]).tolist()


def test_a_product_of_rounded_activations_is_work_of_unknown_cost(tmp_path: Path) -> None:
    data = dynamic(np.ones((4, 2), np.int8), read_twice=True)
    graph = load_model(save(tmp_path, "m.onnx", data))
    assert "MatMulInteger" in unknown_names(graph)
    assert any("cannot be read: its scale is not a constant" in note for note in graph.notes)


def test_scales_that_change_between_q_and_dq(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = writer.dequantize(writer.quantize(writer.input("x", (1, 4)), 0.5), 0.25)
    writer.node("Relu", x, output="y")
    assert "scales must not change in between" in text(tmp_path, writer.finish({"y": (1, 4)}))


def test_blockwise_quantization(tmp_path: Path) -> None:
    writer = OnnxWriter(21)
    data = writer.constant(np.zeros((4, 4), np.int8))
    scale = writer.constant(np.ones((2, 4), np.float32))
    weights = writer.node("DequantizeLinear", data, scale, axis=0, block_size=2)
    writer.node("MatMul", writer.input("x", (1, 4)), weights, output="y")
    assert "blockwise quantization is not supported" in text(tmp_path, writer.finish({"y": (1, 4)}))


def external(location: str, length: int = 16) -> bytes:
    """A model whose four float weights lie in another file."""
    writer = OnnxWriter()
    writer.node("Add", writer.input("x", (1, 4)), "w", output="y")
    model = writer.proto({"y": (1, 4)})
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "4"), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    model.graph.initializer.append(tensor)
    return bytes(model.SerializeToString())


def test_external_data_beside_the_model(tmp_path: Path) -> None:
    save(tmp_path, "w.bin", np.arange(5, dtype=np.float32).tobytes())
    graph = load_model(save(tmp_path, "m.onnx", external("w.bin")))
    assert np.array_equal(graph.tensor("w").data, [1, 2, 3, 4])


@pytest.mark.parametrize(
    "location", ["../w.bin", "/etc/passwd", "link.bin", "missing.bin", "", "\0"]
)
def test_external_data_elsewhere(tmp_path: Path, location: str) -> None:
    save(tmp_path, "w.bin", bytes(20))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(FileError, match="is not a file in the model's folder"):
        load_model(save(folder, "m.onnx", external(location)))


def test_external_data_of_the_wrong_length(tmp_path: Path) -> None:
    save(tmp_path, "w.bin", bytes(12))
    found = text(tmp_path, external("w.bin"), FileError)
    assert "its external data, 16 bytes at offset 4, is outside the file of 12 bytes" in found


def test_constants_shorter_than_their_shape(tmp_path: Path) -> None:
    model = onnx.load_from_string(to_onnx(conv_net()))
    model.graph.initializer[4].dims[:] = [1 << 20]
    assert "expected 4194304 bytes" in text(tmp_path, model.SerializeToString(), FileError)
    model.graph.initializer[4].dims[:] = [1 << 40, 0]
    assert "has the shape (1099511627776, 0)" in text(
        tmp_path, model.SerializeToString(), FileError
    )


def test_a_tensor_made_twice(tmp_path: Path) -> None:
    model = onnx.load_from_string(with_node("Relu"))
    model.graph.node.append(model.graph.node[0])
    assert text(tmp_path, model.SerializeToString()) == "tensor 'y' is the output of 2 nodes"


def test_a_tensor_read_before_it_is_made(tmp_path: Path) -> None:
    model = onnx.load_from_string(with_node("Relu"))
    model.graph.node[0].input[0] = "y"
    found = text(tmp_path, model.SerializeToString())
    assert found.endswith("tensor 'y' is used before it is computed")


def test_a_tensor_that_nothing_makes(tmp_path: Path) -> None:
    model = onnx.load_from_string(with_node("Relu"))
    model.graph.node[0].input[0] = "later"
    found = text(tmp_path, model.SerializeToString())
    assert found.startswith("Relu:n: tensor 'later' does not exist: no op computes it")
