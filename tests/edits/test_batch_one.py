"""An open batch size is written as 1."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from compiler.nets import MACHINES
from edits.border_case import edited, graph_of, misfit, outside
from models import OnnxWriter, TfliteWriter
from npuscope.edits import open_document
from npuscope.rulebook.registry import lint_graph


def onnx_net(batch: int | str) -> bytes:
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (batch, 8)), 1 / 64)
    y = writer.qdq(writer.node("Relu", x), 1 / 64)
    return writer.finish({y: (batch, 8)})


def sizes(data: bytes) -> list[list[int]]:
    graph = onnx.load_from_string(data).graph
    entries = (*graph.input, *graph.output)
    return [[dim.dim_value for dim in e.type.tensor_type.shape.dim] for e in entries]


@pytest.mark.parametrize("name", ["batch", "N"])
def test_onnx(name: str) -> None:
    before = onnx_net(name)
    data = edited(before, "batch-one", "x")
    assert sizes(data) == [[1, 8], [1, 8]]
    rules = {finding.rule for finding in lint_graph(graph_of(data), MACHINES["2.2"])}
    assert "LINT-OPEN-BATCH" not in rules
    (old,), (new,) = outside(before).values(), outside(data).values()
    assert np.array_equal(old, new)


def test_tflite_signatures() -> None:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 8), scale=0.1, signature=(-1, 8))
    y = writer.tensor("y", (1, 8), scale=0.1, signature=(-1, 8))
    writer.op("RELU", [x], [y])
    before = writer.finish([x], [y])
    data = edited(before, "batch-one", "x")
    document = open_document("net", data)
    signatures = [tensor.source.get("ShapeSignature").tolist() for tensor in document.tensors]
    assert signatures == [[1, 8], [1, 8]]
    assert np.array_equal(outside(before)["y"], outside(data)["y"])


def test_a_closed_batch() -> None:
    assert misfit(onnx_net(1), "batch-one", "x") == "no batch size in the file is dynamic"


def test_a_fixed_batch_of_several() -> None:
    sentence = "the file is made for batch 4: export it again with batch 1"
    assert misfit(onnx_net(4), "batch-one", "x") == sentence
