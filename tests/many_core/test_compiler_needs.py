"""A part of an output depends on nothing outside what `needs` names: seen with the executor."""

from __future__ import annotations

import numpy as np
import pytest

from many_core.nets import convolutions, encoder, graph_of, zoo
from npuscope.families.many_core.compiler.boxes import Box, common, cut, elements, full, reach
from npuscope.families.many_core.compiler.needs import needs, split_axes
from npuscope.families.many_core.compiler.simplify import simplified
from npuscope.graph.model import Graph, Op
from npuscope.ops.run import run, trace
from npuscope.structs import replace


def _values(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    inputs = {n: random.standard_normal(graph.tensors[n].shape, np.float32) for n in graph.inputs}
    constants = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    return {**constants, **inputs, **trace(graph, inputs)}


def _one_op(graph: Graph, op: Op, values: dict[str, np.ndarray]) -> np.ndarray:
    """The op alone, with other values where the caller has changed them."""
    names = [name for name in op.inputs if name]
    tensors = [replace(graph.tensors[n], data=None) for n in dict.fromkeys(names)]
    for place, tensor in enumerate(tensors):
        if graph.tensors[tensor.name].is_constant:
            tensors[place] = replace(tensor, data=values[tensor.name])
    alone = Graph("one", [*tensors, graph.output_tensor(op)], [op], (), op.outputs, graph.numerics)
    alone.inputs = tuple(t.name for t in tensors if not t.is_constant)
    return run(alone, {n: values[n] for n in alone.inputs})[op.outputs[0]]


def _at(box: Box) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in box)


def _changed(values: np.ndarray, keep: Box | None) -> np.ndarray:
    """Other values everywhere but in the box."""
    if not np.issubdtype(values.dtype, np.floating):
        return values
    steps = np.arange(values.size, dtype=np.float32).reshape(values.shape) % 5
    other = np.array(values + 7 + steps)
    if keep is not None:
        other[_at(keep)] = values[_at(keep)]
    return other.astype(values.dtype)


NETS = {"zoo": zoo(), "encoder": encoder(), "convolutions": convolutions(size=13, channels=8)}
GRAPHS = {name: simplified(graph_of(data)) for name, data in NETS.items()}
CASES = [(name, number) for name, graph in GRAPHS.items() for number in range(len(graph.ops))]


@pytest.fixture(scope="module")
def values() -> dict[str, dict[str, np.ndarray]]:
    return {name: _values(graph) for name, graph in GRAPHS.items()}


@pytest.mark.parametrize(("net", "number"), CASES)
def test_parts_of_outputs_need_no_more(
    net: str, number: int, values: dict[str, dict[str, np.ndarray]]
) -> None:
    graph, known = GRAPHS[net], values[net]
    op = graph.ops[number]
    whole = _one_op(graph, op, known)
    for axis in split_axes(graph, op):
        for box in cut(full(whole.shape), axis, 3):
            wanted = needs(graph, op, box)
            kept: dict[str, list[Box | None]] = {}
            for name, need in zip(op.inputs, wanted, strict=True):
                kept.setdefault(name, []).append(need)
            other = {n: _changed(known[n], k[0]) for n, k in kept.items() if n and len(k) == 1}
            found = _one_op(graph, op, {**known, **other})
            np.testing.assert_array_equal(found[_at(box)], whole[_at(box)])


@pytest.mark.parametrize(("net", "number"), CASES)
def test_boxes_lie_inside_their_tensors(net: str, number: int) -> None:
    graph = GRAPHS[net]
    op = graph.ops[number]
    for axis in split_axes(graph, op):
        for box in cut(full(graph.output_tensor(op).shape), axis, 4):
            for name, need in zip(op.inputs, needs(graph, op, box), strict=True):
                if name and need is not None:
                    shape = graph.tensors[name].shape
                    assert common(need, full(shape)) == need or not shape
                    assert elements(need) > 0


def test_rows_of_a_convolution_need_their_halo_only() -> None:
    graph = GRAPHS["convolutions"]
    op = next(op for op in graph.ops if op.kind == "Conv2D")
    height = graph.output_tensor(op).shape[1]
    source, weights, bias = needs(graph, op, ((0, 1), (4, 6), (0, height), (0, 8)))
    assert source == ((0, 1), (3, 7), (0, 13), (0, 3))
    assert weights == ((0, 8), (0, 3), (0, 3), (0, 3))
    assert bias == ((0, 8),)


def test_windows_beyond_the_edge_see_no_padding() -> None:
    assert reach((0, 2), size=8, window=3, stride=2, dilation=1, pad=1) == (0, 4)
    assert reach((3, 4), size=8, window=3, stride=2, dilation=2, pad=1) == (5, 8)


def test_normalised_axes_are_not_split() -> None:
    graph = GRAPHS["encoder"]
    kinds = {op.kind: op for op in graph.ops}
    assert split_axes(graph, kinds["Softmax"]) == (0, 1, 2)
    assert split_axes(graph, kinds["LayerNorm"]) == (0, 1)
    assert split_axes(graph, kinds["FullyConnected"]) == (0, 1, 2)
