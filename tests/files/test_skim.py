"""Large .onnx files are timed without reading their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuscope.bounded_file import MODEL
from npuscope.errors import FileError
from npuscope.files.load import load_model
from npuscope.files.onnx.constants import without_weights
from npuscope.files.onnx.skim import skimmed


def product(path: Path, rows: int, columns: int) -> np.ndarray:
    weights = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, columns])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return weights


def test_weights_become_places_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    weights = product(path, 256, 256)
    small = onnx.ModelProto.FromString(skimmed(path))
    (entry,) = small.graph.initializer
    place = {row.key: row.value for row in entry.external_data}
    start, size = int(place["offset"]), int(place["length"])
    stored = np.frombuffer(path.read_bytes()[start : start + size], np.float32)
    assert place["location"] == "net.onnx" and np.array_equal(stored, weights.ravel())
    small.graph.initializer[0].CopyFrom(onnx.load(path).graph.initializer[0])
    assert small == onnx.load(path)  # all else is as it was


def test_small_values_stay(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    product(path, 16, 16)
    assert skimmed(path) == path.read_bytes()


def large(path: Path) -> None:
    """Zeros that take no room on a disk: raw_data at the end of the file."""
    rows, columns = 16384, 17408
    product(path, 256, 256)
    model = onnx.load(path)
    model.graph.ClearField("initializer")
    for entry, size in ((model.graph.input[0], rows), (model.graph.output[0], columns)):
        entry.type.tensor_type.shape.dim[1].dim_value = size
    head = TensorProto(dims=[rows, columns], data_type=1, name="w").SerializeToString()
    size = rows * columns * 4
    tensor = head + b"\x4a" + _number(size)
    initializer = b"\x2a" + _number(len(tensor) + size) + tensor
    graph = model.graph.SerializeToString() + initializer
    model.ClearField("graph")
    with path.open("wb") as file:
        file.write(model.SerializeToString() + b"\x3a" + _number(len(graph) + size) + graph)
        file.truncate(file.tell() + size)
    assert path.stat().st_size > MODEL.most_bytes


def _number(value: int) -> bytes:
    digits = b""
    while value > 127:
        digits, value = digits + bytes([value & 127 | 128]), value >> 7
    return digits + bytes([value])


def test_a_file_above_the_limit_is_timed(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    large(path)
    with pytest.raises(FileError, match="a model has at most") as caught:
        load_model(path)
    assert caught.value.hint is not None and "manycore setups" in caught.value.hint
    with without_weights():
        graph = load_model(path)
    assert graph.output_tensor(graph.ops[-1]).shape == (1, 17408)


@pytest.mark.parametrize("content", [b"\x3a\xff\xff\xff\xff\x0f", b"\x0f", b"\x3a\x05\x2a\x09aaa"])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(FileError, match="belongs to no field"):
        skimmed(path)
