"""Counts that layers share, and what to pad them to."""

from __future__ import annotations

import pytest

from compiler.nets import MACHINES, Net
from npuscope.geometry.streams import DenseLayer
from npuscope.geometry.tiling import ConvShape
from npuscope.graph.model import Activation, Graph, Op
from npuscope.program.modes import Simd
from npuscope.rulebook.counts import padded_count, padding, shared_count

LATEST = MACHINES["4.0"]


def branch(channels: int, zero_point: int = 18) -> Graph:
    """A layer, a depthwise one, another layer."""
    net = Net()
    x = net.conv(net.input((1, 28, 28, 32)), channels, (1, 1), activation=Activation.RELU)
    x = net.conv(x, 0, quant=(0.02, zero_point))
    net.conv(x, 24, (1, 1))
    return net.graph()


def layers(graph: Graph) -> list[Op]:
    return [op for op in graph.ops if op.kind == "Conv2D"]


def test_layers_share_the_channels_between_them() -> None:
    graph = branch(58)
    first, _, last = layers(graph)
    for op, side in ((first, "outputs"), (last, "inputs")):
        found = shared_count(graph, op, side)
        assert found is not None
        assert (found.count, found.makers, found.takers) == (58, (first,), (last,))
        assert not found.repeats


def test_the_input_of_a_network_would_be_repeated() -> None:
    graph = branch(58)
    first = layers(graph)[0]
    found = shared_count(graph, first, "inputs")
    assert found is not None
    assert (found.count, found.makers, found.takers) == (32, (), (first,))
    assert found.repeats


def test_outputs_that_meet_the_input_cannot_grow() -> None:
    net = Net()
    x = net.input((1, 8, 8, 58))
    y = net.conv(x, 58, (1, 1))
    net.conv(net.add(x, y), 8, (1, 1))
    graph = net.graph()
    assert shared_count(graph, layers(graph)[0], "outputs") is None


def test_a_sum_ties_its_operands() -> None:
    net = Net()
    x = net.conv(net.input((1, 8, 8, 8)), 58, (1, 1))
    net.conv(net.add(x, net.conv(x, 58)), 8, (1, 1))
    graph = net.graph()
    first, second, last = layers(graph)
    found = shared_count(graph, first, "outputs")
    assert found is not None
    assert {op.name for op in found.makers} == {first.name, second.name}
    assert {op.name for op in found.takers} == {second.name, last.name}


def test_a_bad_count_is_padded_where_that_saves_most() -> None:
    graph = branch(58)
    for op in (layers(graph)[0], layers(graph)[2]):
        given = padding(graph, op, LATEST)
        assert given is not None
        assert given["channels"] == 58
        assert given["padded"] in (60, 64)


def test_a_good_count_stays() -> None:
    graph = branch(64)
    assert all(padding(graph, op, LATEST) is None for op in (layers(graph)[0], layers(graph)[2]))


@pytest.mark.parametrize("count", [29, 58, 116, 232, 257, 67])
@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize("simd", [Simd.S8X8, Simd.S16X8])
def test_a_padded_count_costs_less_or_is_the_present_one(count: int, side: str, simd: Simd) -> None:
    shape = ConvShape(64, 64, (1, 1), (14, 14), (14, 14))
    layer = DenseLayer(shape, simd).with_count(side, count)
    padded = padded_count([(layer, side)], LATEST)
    assert count <= padded <= 1.25 * count + 8
    before, after = (layer.with_count(side, n).cycles(LATEST) for n in (count, padded))
    assert padded == count or (after < 0.8 * before and padded % 4 == 0)
