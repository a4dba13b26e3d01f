"""Each invariant of the Graph, broken once."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import InternalError, ModelError
from npuscope.graph import DType, Graph, Op, Quant, Tensor
from npuscope.graph.model import Attrs
from npuscope.ops.functions import LeakyReluAttrs
from npuscope.ops.layers import ConvAttrs, DenseAttrs
from npuscope.ops.verify import RULES, verify
from npuscope.structs import replace

Q = Quant((0.5,), (0,))


def dense() -> Graph:
    """x -> FullyConnected -> h -> Sigmoid -> y."""
    weights = np.ones((3, 4), np.int8)
    return Graph(
        "g",
        [
            Tensor("x", (1, 4), DType.INT8, Q),
            Tensor("w", (3, 4), DType.INT8, Quant((0.1, 0.2, 0.3), (0, 0, 0), 0), weights),
            Tensor("h", (1, 3), DType.INT8, Q),
            Tensor("y", (1, 3), DType.INT8, Q),
        ],
        [
            Op("FullyConnected", "fc", ("x", "w"), ("h",), DenseAttrs(), ("Gemm:fc",)),
            Op("Sigmoid", "act", ("h",), ("y",), Attrs()),
        ],
        ["x"],
        ["y"],
    )


def test_a_good_graph_passes() -> None:
    verify(dense())


def change(graph: Graph, tensor: str, **fields: object) -> None:
    graph.tensors[tensor] = replace(graph.tensors[tensor], **fields)  # type: ignore[arg-type]


def change_op(graph: Graph, index: int, **fields: object) -> None:
    graph.ops[index] = graph.ops[index].replace(**fields)


def giant(graph: Graph) -> None:
    """A map of 2**30 elements under a window of 2**28."""
    side, reach = 2**15, 2**13
    graph.tensors["x"] = Tensor("x", (1, side, side, 1), DType.INT8, Q)
    graph.tensors["w"] = Tensor("w", (1, 2 * reach + 1, 2 * reach + 1, 1), DType.INT8, Q)
    graph.tensors["y"] = Tensor("y", (1, side, side, 1), DType.INT8, Q)
    attrs = ConvAttrs(pads=(reach, reach, reach, reach))
    graph.ops = [Op("Conv2D", "giant", ("x", "w"), ("y",), attrs)]
    graph.inputs = ("x", "w")


BREAKS = {
    "known kind": lambda g: change_op(g, 1, kind="Foo"),
    "attribute type": lambda g: change_op(g, 0, attrs=ConvAttrs()),
    "attribute values": lambda g: change_op(
        g, 1, kind="LeakyRelu", attrs=LeakyReluAttrs(float("nan"))
    ),
    "arity": lambda g: change_op(g, 0, inputs=("x",)),
    "known tensors": lambda g: change_op(g, 1, inputs=("nowhere",)),
    "tensor names": lambda g: change(g, "h", name="other"),
    "dimensions": lambda g: change(g, "h", shape=(1, 0)),
    "constant data": lambda g: change(g, "w", data=np.ones((3, 5), np.int8)),
    "quantization": lambda g: change(g, "w", quant=Quant((0.1, 0.2), (0, 0), 0)),
    "moved type": lambda g: (change_op(g, 1, kind="Reshape"), change(g, "y", dtype=DType.UINT8)),
    "element types": lambda g: change_op(g, 1, kind="Equal", inputs=("h", "h"), attrs=Attrs()),
    "single producer": lambda g: change_op(g, 1, outputs=("h",)),
    "defined before use": lambda g: g.ops.reverse(),
    "no dangling outputs": lambda g: setattr(g, "outputs", ("h",)),
    "inferred shape": lambda g: change(g, "h", shape=(1, 5)),
    "work": giant,
}


def test_every_rule_is_broken_here() -> None:
    assert BREAKS.keys() == RULES.keys()


@pytest.mark.parametrize("rule", BREAKS)
def test_rule(rule: str) -> None:
    graph = dense()
    BREAKS[rule](graph)
    with pytest.raises(InternalError, match=f"rule '{rule}'"):
        verify(graph)


def test_the_text_names_op_origin_and_rule() -> None:
    graph = dense()
    change(graph, "h", shape=(1, 5))
    with pytest.raises(ModelError) as caught:
        verify(graph, ModelError)
    assert str(caught.value) == (
        "op 'fc' (FullyConnected from Gemm:fc): output shapes are [(1, 5)], "
        "but the inputs give [(1, 3)] (rule 'inferred shape')"
    )


@pytest.mark.parametrize(
    ("quant", "text"),
    [
        (Quant((0.5, 0.5), (0, 0)), "2 scales without an axis"),
        (Quant((0.5,), ()), "1 scales and 0 zero points"),
        (Quant((float("nan"),), (0,)), "a scale is negative or not finite"),
        (Quant((0.5, 0.5), (0, 0), 2), r"axis 2 is outside shape \(1, 4\)"),
        (Quant((0.5, 0.5), (0, 0), 1), r"2 scales for axis 1 of shape \(1, 4\)"),
    ],
)
def test_quantization(quant: Quant, text: str) -> None:
    graph = dense()
    change(graph, "x", quant=quant)
    with pytest.raises(InternalError, match=text):
        verify(graph)
