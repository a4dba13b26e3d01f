"""Constants that an exporter left to be computed, or to be shared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from compiler.nets import MACHINES
from edits.border_case import edited, graph_of, misfit, outside
from models import OnnxWriter, save
from npuscope.advice.fix.workbench import BenchNetwork
from npuscope.edits import EditRequest, NotFitting, apply_edit, open_document
from npuscope.ops.run import run
from npuscope.rulebook.registry import lint_model_file

IMAGE = (1, 4, 8, 8)
Write = Callable[[OnnxWriter, str], str]


def net(write: Write, shape: tuple[int | str, ...] = IMAGE, opset: int = 17) -> bytes:
    writer = OnnxWriter(opset)
    x = writer.qdq(writer.input("x", shape), 1 / 64)
    y = write(writer, x)
    return writer.finish({y: None})


def kinds(data: bytes) -> list[str]:
    return [node.op_type for node in onnx.load_from_string(data).graph.node]


def same_results(before: bytes, after: bytes) -> bool:
    (old,), (new,) = outside(before).values(), outside(after).values()
    return np.array_equal(old, new)


def rules(folder: Path, data: bytes) -> list[str]:
    path = save(folder, "net.onnx", data)
    return [finding.rule for finding in lint_model_file(path, MACHINES["4.0"])]


def table(move: str, *rest: np.ndarray, **attrs: int) -> Write:
    """Something added from a quantized constant that is moved first."""

    def write(writer: OnnxWriter, x: str) -> str:
        size = (8, 1) if move == "Squeeze" else (4, 1)
        steps = writer.constant(np.arange(size[0], dtype=np.int8).reshape(size))
        scale = writer.constant(0.125)
        real = writer.node("DequantizeLinear", steps, scale, name="it")
        moved = writer.node(move, real, *(writer.constant(r) for r in rest), **attrs)
        return writer.qdq(writer.node("Add", x, moved), 1 / 32)

    return write


@pytest.mark.parametrize(
    "write",
    [
        table("Unsqueeze", np.array([2])),
        table("Reshape", np.array([4, 1, 1])),
        table("Squeeze", np.array([1])),
    ],
    ids=["unsqueeze", "reshape", "squeeze"],
)
def test_a_moved_constant_is_stored_as_it_lies_behind_the_move(
    write: Write, tmp_path: Path
) -> None:
    before = net(write)
    after = edited(before, "fold-constants", "DequantizeLinear:it")
    assert len(kinds(after)) == len(kinds(before)) - 1
    assert kinds(after).count("DequantizeLinear") == kinds(before).count("DequantizeLinear")
    assert same_results(before, after)
    assert "LINT-CONSTANT-DQ" in rules(tmp_path, before)
    assert "LINT-CONSTANT-DQ" not in rules(tmp_path, after)
    sample = {"x": np.random.default_rng(0).integers(-128, 127, IMAGE, np.int8)}
    (old,), (new,) = (run(graph_of(data), sample).values() for data in (before, after))
    assert np.array_equal(old, new)


def test_a_table_that_is_looked_up_becomes_float() -> None:
    def write(writer: OnnxWriter, x: str) -> str:
        steps = writer.constant(np.arange(8, dtype=np.int8).reshape(4, 2))
        real = writer.node("DequantizeLinear", steps, writer.constant(0.125), name="it")
        index = writer.node("ArgMax", x, axis=1, keepdims=0)
        return writer.node("Gather", real, index)

    before = net(write, (1, 4))
    document = onnx.load_from_string(before)
    assert any(node.name == "it" for node in document.graph.node)
    after = edited(before, "fold-constants", "DequantizeLinear:it")
    assert not any(node.name == "it" for node in onnx.load_from_string(after).graph.node)
    assert same_results(before, after)


def test_a_dequantize_that_no_move_reads() -> None:
    before = net(lambda w, x: w.node("Relu", x))
    name = next(f"{n.op_type}:#{i}" for i, n in enumerate(onnx.load_from_string(before).graph.node))
    assert misfit(before, "fold-constants", name) == "the network has no DequantizeLinear"
    sentence = "what it dequantizes is computed"
    assert misfit(before, "fold-constants", "DequantizeLinear:#1") == sentence


def test_a_gemm_gets_its_own_weights(tmp_path: Path) -> None:
    def write(writer: OnnxWriter, x: str) -> str:
        shared = writer.constant(np.eye(4, dtype=np.float32), "shared")
        first = writer.node("Gemm", x, shared, name="gemm")
        return writer.node("MatMul", first, shared, name="matmul")

    before = net(write, (1, 4))
    after = edited(before, "own-weights", "shared")
    nodes = {node.name: node for node in onnx.load_from_string(after).graph.node}
    assert nodes["gemm"].input[1] == "shared_gemm"
    assert nodes["matmul"].input[1] == "shared"
    assert same_results(before, after)
    assert "LINT-SHARED-WEIGHTS" in rules(tmp_path, before)
    assert "LINT-SHARED-WEIGHTS" not in rules(tmp_path, after)
    sentence = "no weights are shared by a Gemm and a MatMul"
    assert misfit(after, "own-weights", "shared") == sentence


def flattened(writer: OnnxWriter, x: str) -> str:
    """Batch and the rest, as a traced `view(x.size(0), -1)` leaves it."""
    size = writer.node("Shape", x, name="it")
    first = writer.node("Gather", size, writer.constant(np.array(0)), axis=0)
    batch = writer.node("Unsqueeze", first, writer.constant(np.array([0])))
    shape = writer.node("Concat", batch, writer.constant(np.array([-1])), axis=0)
    return writer.node("Reshape", x, shape)


@pytest.mark.parametrize("batch", [1, "batch"])
def test_shapes_become_constants(batch: int | str, tmp_path: Path) -> None:
    before = net(flattened, (batch, *IMAGE[1:]))
    after = edited(before, "static-export", "Shape:it")
    assert kinds(after) == ["QuantizeLinear", "DequantizeLinear", "Reshape"]
    assert same_results(before, after)
    assert "LINT-ALLOWZERO" in rules(tmp_path, before)
    assert "LINT-ALLOWZERO" not in rules(tmp_path, after)
    (entry,) = onnx.load_from_string(after).graph.input
    assert entry.type.tensor_type.shape.dim[0].dim_value == 1


def test_a_part_of_a_shape() -> None:
    def write(writer: OnnxWriter, x: str) -> str:
        tail = writer.node("Shape", x, name="it", start=1)
        return writer.node("Reshape", x, writer.node("Concat", tail, axis=0))

    before = net(write)
    after = edited(before, "static-export", "Shape:it")
    assert "Shape" not in kinds(after)
    assert same_results(before, after)


def reshape(sizes: tuple[int, ...]) -> Write:
    def write(writer: OnnxWriter, x: str) -> str:
        shape = writer.constant(np.array(sizes))
        return writer.node("Reshape", x, shape, name="it", allowzero=1)

    return write


def test_allowzero_goes(tmp_path: Path) -> None:
    before = net(reshape((1, 4, 64)))
    after = edited(before, "static-export", "Reshape:it")
    assert same_results(before, after)
    assert "LINT-ALLOWZERO" in rules(tmp_path, before)
    assert "LINT-ALLOWZERO" not in rules(tmp_path, after)


def test_a_shape_that_is_computed() -> None:
    def write(writer: OnnxWriter, x: str) -> str:
        return writer.node("Reshape", x, writer.node("Shape", x), name="it", allowzero=1)

    assert misfit(net(write), "static-export", "Reshape:it") == "its shape is computed"


def test_another_op() -> None:
    before = net(lambda w, x: w.node("Relu", x))
    assert misfit(before, "static-export", "Relu:#2") == "the network has no Reshape"


def test_a_size_of_zero_is_meant() -> None:
    data = misread(net(reshape((0, 4))), "Reshape:it")
    assert data == "a size of 0 in its shape is meant literally"


def test_a_shape_that_is_an_output() -> None:
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", IMAGE), 1 / 64)
    y = writer.node("Shape", x, name="it", output="y")
    data = writer.finish({y: None}, onnx.TensorProto.INT64)
    assert misread(data, "Shape:it") == "the shape is an output of the network"


def test_sizes_that_stay_open() -> None:
    proto = onnx.load_from_string(net(flattened))
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "rows"
    sentence = "a non-batch dimension of an input is dynamic"
    assert misread(bytes(proto.SerializeToString()), "Shape:it") == sentence


def misread(data: bytes, op: str) -> str:
    """Why an edit does not fit a file that our reader would not take."""
    network = BenchNetwork(graph_of(net(flattened)), MACHINES["4.0"])
    with pytest.raises(NotFitting) as caught:
        apply_edit(open_document("net", data), "static-export", EditRequest((op,), {}, network))
    return str(caught.value)
