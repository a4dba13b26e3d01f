"""An .onnx file written again is equal in every field; an edit changes only what it is about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from file_fields import differences
from models_whole_file import whole_onnx
from npuscope.edits import whole_bytes
from npuscope.errors import FileError, ModelError
from npuscope.files.onnx.file_graph import OnnxFileGraph
from npuscope.profiling.runtimes import onnxruntime_session

# A field with number 1000 and two bytes, which no version of onnx has.
UNKNOWN = b"\xc2\x3e\x02ab"


def whole() -> bytes:
    return whole_onnx(UNKNOWN).SerializeToString()


def parsed(data: bytes) -> OnnxFileGraph:
    return OnnxFileGraph.parse(data, Path())


def model_of(data: bytes) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(data)


def test_every_field_stays() -> None:
    data = whole()
    graph = parsed(data)
    assert graph.to_bytes() == data
    assert differences(data, graph.written()) == []
    assert UNKNOWN in graph.written()


def test_bytes_stay_where_another_writer_orders_fields_otherwise() -> None:
    """The graph in front of everything else."""
    model = whole_onnx()
    graph = model.graph.SerializeToString()
    model.ClearField("graph")
    rest = model.SerializeToString()
    head = onnx.ModelProto(graph=onnx.GraphProto.FromString(graph)).SerializeToString()
    data = head + rest
    assert parsed(data).written() != data
    assert parsed(data).to_bytes() == data


def inserted(data: bytes, tensor: str = "doubled") -> bytes:
    graph = parsed(data)
    (reader,) = graph.readers(tensor)
    name = graph.fresh("inserted")
    graph.add_op("Identity", [tensor], name)
    graph.rewire(tensor, name, [reader])
    return graph.to_bytes()


def test_an_insertion_can_be_undone() -> None:
    data = whole()
    written = inserted(data)
    assert len(model_of(written).graph.node) == 6
    graph = parsed(written)
    node = graph.producer("inserted")
    graph.rewire("inserted", "doubled")
    graph.remove(node)
    assert differences(data, graph.to_bytes()) == []


def test_all_but_the_edit_stays() -> None:
    before, after = model_of(whole()), model_of(inserted(whole()))
    assert [n.name for n in after.graph.node if n.name != "inserted"] == [
        n.name for n in before.graph.node
    ]
    for name in ("functions", "training_info", "metadata_props", "opset_import"):
        assert list(getattr(after, name)) == list(getattr(before, name)), name
    for name in ("initializer", "sparse_initializer", "quantization_annotation", "value_info"):
        assert list(getattr(after.graph, name)) == list(getattr(before.graph, name)), name
    assert UNKNOWN in inserted(whole())


def test_shapes_that_an_edit_may_have_changed_are_dropped() -> None:
    graph = parsed(whole())
    relu = graph.producer("inner")
    tanh = next(node for node in graph.nodes if node.name == "tanh")
    sizes = graph.add_constant("sizes", np.array([2, 2], np.int64))
    graph.add_op("Reshape", ["doubled", sizes], "square")
    graph.rewire("doubled", "square", [tanh])
    entry = graph.graph.value_info.add()
    entry.CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4]))
    kept = [e.name for e in model_of(graph.to_bytes()).graph.value_info]
    assert relu is not None and kept == ["inner", "doubled"]


def test_shapes_behind_a_name_that_nobody_makes_stay() -> None:
    """A file that lost a constant: no runtime opens it, but its shapes are still stated."""
    model = whole_onnx()
    tanh = next(node for node in model.graph.node if node.name == "tanh")
    model.graph.node.add(op_type="Add", input=["lost", *tanh.output], output=["sum"], name="add")
    model.graph.value_info.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, [1, 4]))
    kept = model_of(inserted(model.SerializeToString())).graph.value_info
    assert [entry.name for entry in kept] == [entry.name for entry in model.graph.value_info]


def test_nodes_of_a_file_that_is_not_in_order_stay_where_they_are() -> None:
    model = whole_onnx()
    nodes = [*model.graph.node][::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    after = model_of(inserted(model.SerializeToString()))
    assert [n.name for n in after.graph.node] == [
        *("dead", "inserted", "tanh", "call", "if", "relu")
    ]


def test_a_name_of_a_body_is_not_given_again() -> None:
    graph = parsed(whole())
    assert graph.fresh("then_branch_out") == "then_branch_out_1"


def test_bodies_count_as_readers() -> None:
    graph = parsed(whole())
    assert [node.name for node in graph.readers("inner")] == ["if", "dead"]
    assert [node.name for node in graph.readers("weight")] == ["if"]


def test_a_tensor_that_a_body_reads_stays() -> None:
    """Nobody else reads it any more."""
    graph = parsed(whole())
    graph.remove(next(node for node in graph.nodes if node.name == "dead"))
    after = model_of(graph.to_bytes())
    assert [node.name for node in after.graph.node] == ["relu", "if", "call", "tanh"]
    assert [entry.name for entry in after.graph.initializer] == ["weight", "unused"]


def test_a_tensor_that_a_body_reads_cannot_be_changed() -> None:
    graph = parsed(whole())
    relu = graph.producer("inner")
    assert relu is not None
    relu.op_type = "Abs"
    with pytest.raises(ModelError) as error:
        graph.to_bytes()
    assert error.value.message == ("'inner' is used inside If 'if', which cannot be edited with it")


def test_a_tensor_that_a_body_reads_cannot_be_renamed() -> None:
    graph = parsed(whole())
    relu = graph.producer("inner")
    assert relu is not None
    relu.output[0] = "other"
    with pytest.raises(ModelError, match="'inner' is used inside If"):
        graph.to_bytes()


def test_what_is_handed_to_a_body_keeps_its_type() -> None:
    """Through a Loop, whose body takes what the node is given."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["goes"]),
            helper.make_node("Relu", ["v"], ["w"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [1, 4]),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [1, 4]),
        ],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["start"]),
        helper.make_node("Loop", ["n", "", "start"], ["y"], name="loop", body=body),
    ]
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4]),
    ]
    count = numpy_helper.from_array(np.array(2, np.int64), "n")
    net = helper.make_graph(nodes, "net", values[:1], values[1:], [count])
    data = helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    graph = parsed(data)
    (loop,) = graph.readers("start")
    graph.add_op("Neg", ["start"], "negative")
    graph.rewire("start", "negative", [loop])
    graph.to_bytes()  # the same type and shape
    graph.add_op("Cast", ["negative"], "wide", to=TensorProto.DOUBLE)
    graph.rewire("negative", "wide", [loop])
    with pytest.raises(ModelError, match="'wide' is used inside Loop 'loop'"):
        graph.to_bytes()


def test_a_node_with_bodies_may_have_no_output() -> None:
    model = whole_onnx()
    spare = model.graph.node.add()
    spare.CopyFrom(model.graph.node[1])
    del spare.output[:]
    data = model.SerializeToString()
    assert len(model_of(inserted(data)).graph.node) == 7


def test_a_node_without_a_name_is_not_taken_for_one_in_a_body() -> None:
    model = whole_onnx()
    model.graph.node[0].name = ""
    model.graph.node[0].op_type = "Add"
    model.graph.node[0].input.append("x")
    for item in model.graph.node[1].attribute:
        item.g.node[0].name = ""
    graph = parsed(model.SerializeToString())
    assert graph.op("Add:#0") is None


def outside(folder: Path) -> Path:
    """Constants in files beside it, one of them inside of a body."""
    model = whole_onnx()
    body = model.graph.node[1].attribute[0].g
    body.initializer.append(numpy_helper.from_array(np.full((1, 4), 2.0, np.float32), "own"))
    body.node[0].input[1] = "own"
    tensors = [model.graph.initializer[0], body.initializer[0]]
    for number, tensor in enumerate(tensors):
        external_data_helper.set_external_data(tensor, f"data{number}.bin")
        tensor.name = ("weight", "own")[number]
    path = folder / "net.onnx"
    external_data_helper.write_external_data_tensors(model, str(folder))
    path.write_bytes(model.SerializeToString())
    return path


def test_data_of_other_files_come_inside(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = outside(tmp_path)
    data = OnnxFileGraph.parse(path.read_bytes(), tmp_path).to_bytes()
    assert data == whole_bytes(path)
    moved = tmp_path / "elsewhere" / "net.onnx"
    moved.parent.mkdir()
    moved.write_bytes(data)
    feeds = {"x": np.ones((1, 4), np.float32), "flag": np.array(True)}
    results = [onnxruntime_session(str(p)).run(None, feeds)[0] for p in (path, moved)]
    assert np.array_equal(*results)


def test_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    path = outside(tmp_path)
    (tmp_path / "data1.bin").unlink()
    with pytest.raises(FileError, match=r"'data1\.bin' is not a file in the model's folder"):
        OnnxFileGraph.parse(path.read_bytes(), tmp_path)


def test_shared_models_stay_equal(shared_models: Path) -> None:
    for path in sorted(shared_models.glob("*.onnx")):
        data = path.read_bytes()
        graph = OnnxFileGraph.parse(data, path.parent)
        assert graph.to_bytes() == data
        assert differences(data, graph.written()) == []
