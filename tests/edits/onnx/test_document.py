"""ONNX documents: look-ups, small changes, and order when written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from models import OnnxWriter, mobilenet_like, to_onnx
from models_onnx import checked
from npuscope.edits import open_document
from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.records import NotFitting
from npuscope.files.load import read_model
from npuscope.graph.model import first_difference

PATH = Path("net.onnx")


def chain() -> bytes:
    w = OnnxWriter()
    x = w.qdq(w.input("x", (1, 4, 6, 6)), 0.1, 3)
    weights = w.dequantized_constant(np.ones((8, 4, 1, 1), np.int8), np.full(8, 0.01))
    y = w.node("Conv", x, weights, name="first")
    y = w.qdq(w.node("Relu", w.qdq(y, 0.1, 0), name="act"), 0.1, 0)
    return w.finish({y: (1, 8, 6, 6)})


def document(data: bytes | None = None) -> OnnxDocument:
    return OnnxDocument.parse(data or chain(), Path())


def test_a_file_is_the_same_network_after_writing() -> None:
    data = to_onnx(mobilenet_like())
    written = checked(document(data).to_bytes())
    assert first_difference(read_model(PATH, data), read_model(PATH, written)) == ""


def test_nodes_are_found_by_origin_and_by_tensor() -> None:
    found = document()
    conv = found.op("Conv:first")
    assert conv is not None
    assert found.producer(conv.output[0]) is conv
    assert conv in found.readers(conv.input[0])
    assert found.op("Conv:other") is None
    found.remove(conv)
    assert found.op("Conv:first") is None


def test_nodes_without_a_name_go_by_their_place() -> None:
    found = document()
    assert found.op("QuantizeLinear:#0") is found.nodes[0]


def test_constants_shapes_and_quantizers() -> None:
    found = document()
    conv = found.op("Conv:first")
    assert conv is not None
    assert found.shape(conv.output[0]) == (1, 8, 6, 6)
    weights = found.producer(conv.input[1])
    quant = found.node_quant(weights)
    assert quant.per_channel and quant.axis == 0
    assert found.values(weights.input[0]).shape == (8, 4, 1, 1)  # type: ignore[union-attr]
    assert found.values("x") is None


def test_an_open_batch_counts_as_one() -> None:
    w = OnnxWriter()
    y = w.node("Relu", w.input("x", ("N", 3)))
    assert document(w.finish({y: None})).shape(y) == (1, 3)


def test_a_new_node_takes_its_place_in_the_order() -> None:
    found = document()
    act = found.op("Relu:act")
    assert act is not None
    source = act.input[0]
    made = found.add_op("Clip", [source], found.fresh("cut"), name="act")
    assert made.name == "act_1"
    found.rewire(source, made.output[0], [act])
    proto = onnx.load_from_string(checked(found.to_bytes()))
    kinds = [node.op_type for node in proto.graph.node]
    assert kinds.index("Clip") < kinds.index("Relu")


def test_an_output_keeps_its_name_when_its_maker_changes() -> None:
    found = document()
    name = found.graph.output[0].name
    made = found.add_op("Identity", [name], found.fresh("copy"))
    found.rewire(name, made.output[0])
    assert made.output[0] == name
    proto = onnx.load_from_string(checked(found.to_bytes()))
    assert proto.graph.output[0].name == name
    assert proto.graph.node[-1].op_type == "Identity"


def test_dead_nodes_and_constants_are_dropped() -> None:
    found = document()
    unused = found.add_constant("w", np.zeros(3, np.float32))
    found.add_op("Relu", [unused], "nobody")
    found.to_bytes()
    assert all("nobody" not in node.output for node in found.nodes)
    assert unused not in {entry.name for entry in found.graph.initializer}


def test_origins_hold_after_writing() -> None:
    found = document()
    found.to_bytes()
    node = found.op("Conv:first")
    assert node is not None
    found.set_attribute(node, "strides", [2, 2])
    assert found.attribute(node, "strides") == [2, 2]
    assert read_model(PATH, found.to_bytes()).tensor("x").shape == (1, 4, 6, 6)


def test_external_data_comes_inside(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    proto = onnx.load_from_string(to_onnx(mobilenet_like()))
    onnx.save(proto, path, save_as_external_data=True, size_threshold=0, location="data.bin")
    data = open_document(path).to_bytes()
    (tmp_path / "data.bin").unlink()
    assert (
        first_difference(
            read_model(PATH, to_onnx(mobilenet_like())), read_model(tmp_path / "other.onnx", data)
        )
        == ""
    )


def test_a_computed_scale_is_said() -> None:
    w = OnnxWriter()
    x, scale = w.input("x", (3,)), w.input("s", ())
    y = w.node("QuantizeLinear", x, scale, name="q")
    found = document(w.finish({y: (3,)}, onnx.TensorProto.UINT8))
    with pytest.raises(NotFitting, match="the scale of 'q' is computed"):
        found.node_quant(found.nodes[0])
