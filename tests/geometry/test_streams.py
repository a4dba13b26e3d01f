"""What the streams of a layer cost is what the compiled layer takes."""

from __future__ import annotations

import pytest

from compiler.nets import MACHINES, Net, compiled
from npuscope.geometry.streams import DenseLayer
from npuscope.geometry.tiling import ConvMode, ConvShape, base_tiling, simd_of
from npuscope.graph.model import Graph
from npuscope.profiling.run import estimate
from npuscope.program.modes import Simd
from npuscope.rulebook.counts import dense_layer

LATEST = MACHINES["4.0"]


def layer(inputs: int, outputs: int, zero: int, size: int = 28, width: int = 1) -> Graph:
    net = Net()
    net.conv(net.input((1, size, size, inputs), (0.02, zero)), outputs, (width, width))
    return net.graph()


def milliseconds(graph: Graph) -> float:
    return estimate(compiled(graph, "4.0"), LATEST, graph).total_ms


@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize(("inputs", "outputs"), [(112, 116), (116, 116), (58, 58), (64, 96)])
def test_cycles_are_those_of_the_simulated_layer(inputs: int, outputs: int, zero: int) -> None:
    """Within the start of an epoch and the passes of other units: rules rank counts by it."""
    graph = layer(inputs, outputs, zero)
    cycles = dense_layer(graph, graph.ops[-1], LATEST).cycles(LATEST)
    assert milliseconds(graph) == pytest.approx(cycles / 1e6, rel=0.12, abs=0.02)


def test_the_mode_is_the_compilers_not_the_cheapest() -> None:
    """With 112 inputs the plain mode would be faster; compilers take the deep one, which needs no
    sums in memory, so that fewer inputs save nothing."""
    shape = ConvShape(112, 116, (1, 1), (28, 28), (28, 28))
    assert base_tiling(shape, Simd.S8X8, LATEST).mode is ConvMode.DEEP1X1
    deep, plain = (DenseLayer(shape, simd).cycles(LATEST) for simd in (Simd.S8X8, Simd.S16X8))
    assert deep > plain
    wider = DenseLayer(shape, Simd.S8X8).with_count("inputs", 116).cycles(LATEST)
    assert deep > 0.8 * wider


def test_full_tiles_are_not_slowed_down() -> None:
    for inputs, outputs, width in ((24, 24, 1), (8, 16, 3), (96, 96, 1)):
        graph = layer(inputs, outputs, 3, width=width)
        assert dense_layer(graph, graph.ops[-1], LATEST).slowdown(LATEST) == 1.0
    graph = layer(58, 58, 3)
    assert dense_layer(graph, graph.ops[-1], LATEST).slowdown(LATEST) > 2


def test_a_kernel_in_pieces_is_judged_by_its_first() -> None:
    graph = layer(8, 8, 0, width=7)
    assert dense_layer(graph, graph.ops[-1], LATEST).shape.window == (3, 6)


def test_zero_points_that_cost_nothing() -> None:
    assert [simd_of(zero) for zero in (0, -128, 3, None)] == [Simd.S8X8] * 2 + [Simd.S16X8] * 2
