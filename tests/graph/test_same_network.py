"""Same network: what counts and what does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models import conv_net, save, to_tflite
from npuscope.files.load import load_model
from npuscope.graph import Graph, Quant
from npuscope.graph.model import Activation, Numerics, first_difference, same_network
from npuscope.structs import replace


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return load_model(save(tmp_path, "m.tflite", to_tflite(conv_net())))


def renamed(graph: Graph) -> Graph:
    """Every name, origin, note and the numerics changed."""
    name = {old: f"new_{old}" for old in graph.tensors}
    return Graph(
        "other",
        [replace(t, name=name[t.name], source_shape=(9,)) for t in graph.tensors.values()],
        [
            op.replace(
                name="z",
                origin=("?",),
                inputs=tuple(name[i] for i in op.inputs),
                outputs=tuple(name[o] for o in op.outputs),
            )
            for op in graph.ops
        ],
        [name[i] for i in graph.inputs],
        [name[o] for o in graph.outputs],
        Numerics.QDQ,
        ["a note"],
    )


def test_names_origins_and_numerics_do_not_count(graph: Graph) -> None:
    assert same_network(graph, renamed(graph)) and graph == renamed(graph)


def changed(graph: Graph, tensor: str, **fields: object) -> Graph:
    copy = graph.copy()
    copy.tensors[tensor] = replace(copy.tensors[tensor], **fields)  # type: ignore[arg-type]
    return copy


def test_scales_count(graph: Graph) -> None:
    other = changed(graph, "output", quant=Quant((0.5,), (-128,)))
    assert "quant of 'output'" in first_difference(graph, other)


def test_constants_count(graph: Graph) -> None:
    data = np.array(graph.tensors["w"].data)
    data[0, 0, 0, 0] += 1
    assert first_difference(graph, changed(graph, "w", data=data)).endswith("values of 'w' differ")


def test_attributes_count(graph: Graph) -> None:
    other = graph.copy()
    attrs = replace(other.ops[0].attrs, activation=Activation.NONE)  # type: ignore[call-arg]
    other.ops[0] = other.ops[0].replace(attrs=attrs)
    assert graph != other


def test_wiring_counts(graph: Graph) -> None:
    """Sub(a, b) is not Sub(b, a), although all tensors look alike."""
    from npuscope.graph import DType, Op, Tensor
    from npuscope.ops.elementwise import BinaryAttrs

    def sub(first: str, second: str) -> Graph:
        tensors = [Tensor(name, (4,), DType.FLOAT32) for name in "aby"]
        op = Op("Sub", "s", (first, second), ("y",), BinaryAttrs())
        return Graph("g", tensors, [op], ["a", "b"], ["y"])

    assert sub("a", "b") == sub("a", "b")
    assert "connected differently" in first_difference(sub("a", "b"), sub("b", "a"))
    assert sub("a", "b") != sub("a", "a")
