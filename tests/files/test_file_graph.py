"""The primitives of the file graph mean the same in both formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import mobilenet_like, to_onnx, to_tflite
from npuscope.files.file_graph import FileGraph
from npuscope.files.load import read_model
from npuscope.files.onnx.file_graph import OnnxFileGraph
from npuscope.files.tflite.file_graph import TfliteFileGraph
from npuscope.graph.model import Graph, first_difference

FORMATS = ["onnx", "tflite"]


def opened(format: str, data: bytes | None = None) -> FileGraph:
    if format == "onnx":
        return OnnxFileGraph.parse(to_onnx(mobilenet_like()) if data is None else data, Path())
    return TfliteFileGraph.parse(to_tflite(mobilenet_like()) if data is None else data)


def network(graph: FileGraph) -> Graph:
    return read_model(Path(f"net.{graph.format}"), graph.to_bytes())


def conv_of(graph: FileGraph) -> Any:
    return next(op for op in graph.nodes if graph.kind(op) == "Conv")


@pytest.mark.parametrize("format", FORMATS)
def test_what_a_node_says_of_itself(format: str) -> None:
    graph = opened(format)
    conv = conv_of(graph)
    data, weights = graph.inputs(conv)[:2]
    (result,) = graph.outputs(conv)
    assert graph.producer(result) is conv
    assert conv in graph.readers(data) and conv in graph.readers(weights)
    assert graph.word(conv) == {"onnx": "Conv", "tflite": "CONV_2D"}[format]
    assert graph.word(conv) in graph.title(conv)
    assert graph.alike(conv, conv)
    strides = graph.attribute(conv, "strides")
    assert len(strides) == 2 and min(strides) >= 1
    assert graph.attribute(conv, "nothing of this name", 3) == 3
    shape = graph.shape(result)
    assert shape is not None and len(shape) == 4
    assert graph.values(data) is None


@pytest.mark.parametrize("format", FORMATS)
def test_types_and_constants(format: str) -> None:
    graph = opened(format)
    constant = graph.add_constant("numbers", np.arange(6, dtype=np.int32).reshape(2, 3))
    assert graph.type(constant) == "int32"
    assert graph.shape(constant) == (2, 3)
    values = graph.values(constant)
    assert values is not None and values.tolist() == [[0, 1, 2], [3, 4, 5]]
    other = graph.add_constant("numbers", np.zeros(1, np.float32))
    assert graph.name(other) != graph.name(constant) == "numbers"
    assert graph.name(None) == ""


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_node_once_more_in_the_place_of_the_first(format: str) -> None:
    graph = opened(format)
    before, conv = network(graph), conv_of(graph)
    (result,) = graph.outputs(conv)
    new = graph.new_tensor("again", graph.shape(result) or (), result)
    twin = graph.again(conv, graph.inputs(conv), new)
    assert graph.alike(conv, twin)
    graph.rewire(result, new)
    graph.remove(conv)
    assert first_difference(before, network(graph)) == ""


@pytest.mark.parametrize("format", FORMATS)
def test_a_node_makes_another_tensor(format: str) -> None:
    graph = opened(format)
    before, conv = network(graph), conv_of(graph)
    (result,) = graph.outputs(conv)
    new = graph.new_tensor("moved", graph.shape(result) or (), result)
    graph.set_output(conv, result, new)
    assert graph.producer(result) is None and graph.producer(new) is conv
    for reader in graph.readers(result):
        graph.set_input(reader, graph.inputs(reader).index(result), new)
    assert first_difference(before, network(graph)) == ""


@pytest.mark.parametrize("format", FORMATS)
def test_an_attribute_is_set_and_stays_in_the_file(format: str) -> None:
    graph = opened(format)
    graph.set_attribute(conv_of(graph), "strides", [1, 1])
    graph.state(graph.outputs(conv_of(graph))[0])  # nothing to state
    assert [*graph.attribute(conv_of(graph), "strides")] == [1, 1]
    again = opened(format, graph.to_bytes())
    assert [*again.attribute(conv_of(again), "strides")] == [1, 1]


@pytest.mark.parametrize("format", FORMATS)
def test_a_network_ends_earlier(format: str) -> None:
    graph = opened(format)
    (result,) = graph.outputs(conv_of(graph))
    count = len(graph.nodes)
    graph.set_network_outputs([result], network(graph))
    assert graph.network_outputs == [result]
    again = opened(format, graph.to_bytes())
    assert len(again.nodes) < count
    assert [again.name(t) for t in again.network_outputs] == [graph.name(result)]


@pytest.mark.parametrize("format", FORMATS)
def test_a_copy_is_apart_and_an_untouched_file_is_itself(format: str) -> None:
    graph = opened(format)
    data, copy = graph.to_bytes(), graph.copy()
    copy.remove(conv_of(copy))
    assert graph.to_bytes() == data
    assert not graph.close_batch()
    assert not graph.has_open_sizes
