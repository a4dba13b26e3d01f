"""Which application fits the outputs of a network, and which borders are channel-first."""

from __future__ import annotations

import pytest

from npuscope.graph.model import Attrs, DType, Graph, Op, Quant, Tensor
from npuscope.ops.moves import TransposeAttrs
from npuscope.program.app_outputs import border_shape, find_application, is_channel_first
from program.app_networks import FOUND, Shapes, network

CHANNEL_FIRST, CHANNEL_LAST = (1, 3, 64, 48), (1, 64, 48, 3)
MAP_FIRST, MAP_LAST = (1, 21, 64, 48), (1, 64, 48, 21)


def turned() -> Graph:
    """As a reader of ONNX makes it: planes outside, channels last within."""
    quant = Quant((0.5,), (0,))
    shapes = {
        "planes": CHANNEL_FIRST,
        "bytes": CHANNEL_FIRST,
        "x": CHANNEL_LAST,
        "y": MAP_LAST,
        "map": MAP_FIRST,
    }
    tensors = [Tensor(name, shape, DType.INT8, quant) for name, shape in shapes.items()]
    ops = [
        Op("Quantize", "q", ("planes",), ("bytes",), Attrs()),
        Op("Transpose", "in", ("bytes",), ("x",), TransposeAttrs((0, 2, 3, 1))),
        Op("Conv2D", "conv", ("x",), ("y",), Attrs()),
        Op("Transpose", "out", ("y",), ("map",), TransposeAttrs((0, 3, 1, 2))),
    ]
    return Graph("net", tensors, ops, ("planes",), ("map",))


@pytest.mark.parametrize(("name", "shapes"), FOUND.items())
def test_it_is_found_from_the_outputs(name: str, shapes: Shapes) -> None:
    assert find_application(network(shapes)) == name


def test_channel_first_borders() -> None:
    graph = turned()
    assert border_shape(graph, "planes") == CHANNEL_LAST
    assert border_shape(graph, "map") == MAP_LAST
    assert find_application(graph) == "segmentation"


def test_other_borders_keep_their_shape() -> None:
    graph = network(FOUND["movenet"])
    assert not is_channel_first(graph, "image")
    assert border_shape(graph, "out0") == FOUND["movenet"][0]
    other = turned()
    other.ops[1] = other.ops[1].replace(attrs=TransposeAttrs((0, 3, 1, 2)))
    assert not is_channel_first(other, "planes")
