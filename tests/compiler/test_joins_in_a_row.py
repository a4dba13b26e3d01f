"""A Concat of parts that follow each other in memory: heads of detectors, joined by anchors."""

from __future__ import annotations

import pytest

from compiler.nets import Net, compiled, operators, sample
from compiler.test_pipeline import differences
from npuscope.graph.model import Graph
from npuscope.program.model import EpochKind
from npuscope.structs import replace


def heads(read_again: bool = False, axis: int = 1) -> Graph:
    """Three maps of 5 figures an anchor; in the second case one of them has another reader."""
    net = Net(3)
    x = net.input((1, 12, 12, 8))
    maps = [net.conv(x, 10, (3, 3), (stride, stride), quant=(0.05, 4)) for stride in (1, 2, 3)]
    shapes = [(1, 2 * net.shape(name)[1] ** 2, 5) for name in maps]
    if axis == 0:
        shapes = [(shape[1], 1, 5) for shape in shapes]
    parts = [net.reshape(name, shape) for name, shape in zip(maps, shapes, strict=True)]
    joined = net.concat(tuple(parts), axis=axis)
    return net.graph(joined, *([net.clip(parts[0], -2.0, 2.0)] if read_again else []))


def calls(graph: Graph, generation: str) -> list[str]:
    epochs = compiled(graph, generation).epochs
    return [epoch.call.kernel for epoch in epochs if epoch.call]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("generation", ["3.0", "4.0", "open"])
def test_every_part_is_written_where_it_belongs(generation: str, axis: int) -> None:
    graph = heads(axis=axis)
    program = compiled(graph, generation)
    assert all(epoch.kind is not EpochKind.HYBRID for epoch in program.executed)
    assert not any("Concat" in names for names in operators(program))
    assert differences(program, graph, sample(graph)).max() <= 1


def test_older_compilers_copy_the_parts() -> None:
    assert calls(heads(), "2.2") == ["Concat"]


def test_a_part_that_others_read_is_copied() -> None:
    graph = heads(read_again=True)
    assert "Concat" in calls(graph, "4.0")
    assert differences(compiled(graph), graph, sample(graph)).max() <= 1


def test_a_tensor_that_is_channel_first_in_its_file_is_copied() -> None:
    """So measured: YOLOv8n and YOLO11n of 4.0.1."""
    graph = heads()
    name = next(op.outputs[0] for op in graph.ops if op.kind == "Concat")
    tensor = graph.tensor(name)
    graph.tensors[name] = replace(tensor, source_shape=(1, 5, tensor.shape[1]))
    assert calls(graph, "4.0") == ["Concat"]
