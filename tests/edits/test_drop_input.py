"""An input that no op reads leaves the file."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import MACHINES
from edits.border_case import edited, graph_of, misfit, outside
from models import OnnxWriter, TfliteWriter
from npuscope.rulebook.registry import lint_graph


def onnx_net(spare: bool = True) -> bytes:
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 8)), 1 / 64)
    if spare:
        writer.input("spare", (1, 3))
    return writer.finish({writer.node("Relu", x, output="y"): (1, 8)})


def tflite_net(spare: bool = True) -> bytes:
    writer = TfliteWriter()
    unread = [writer.tensor("spare", (1, 3), scale=0.1)] if spare else []
    x = writer.tensor("x", (1, 8), scale=0.1)
    y = writer.tensor("y", (1, 8), scale=0.1)
    writer.op("RELU", [x], [y])
    return writer.finish([*unread, x], [y])


@pytest.mark.parametrize("make", [onnx_net, tflite_net])
def test_the_input_is_gone(make: object) -> None:
    data = edited(make(), "drop-input", "spare")  # type: ignore[operator]
    graph = graph_of(data)
    assert graph.inputs == ("x",)
    assert not {f.rule for f in lint_graph(graph, MACHINES["4.0"])} & {"LINT-UNUSED-INPUT"}
    without = make(False)  # type: ignore[operator]
    assert np.array_equal(outside(data)["y"], outside(without)["y"])


@pytest.mark.parametrize("make", [onnx_net, tflite_net])
def test_where_it_cannot_be_done(make: object) -> None:
    data = make()  # type: ignore[operator]
    assert misfit(data, "drop-input", "x") == "the input is read"
    assert misfit(data, "drop-input", "nobody") == "the network has no such input"


def test_the_only_input_stays() -> None:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 8), scale=0.1)
    c = writer.constant("c", np.ones((1, 8), np.int8), scale=0.1)
    y = writer.tensor("y", (1, 8), scale=0.1)
    writer.op("RELU", [c], [y])
    assert misfit(writer.finish([x], [y]), "drop-input", "x") == "it is the only input"
