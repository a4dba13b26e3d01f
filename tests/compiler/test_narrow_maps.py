"""Maps one pixel wide: kernels along their only long axis, and vectors that are added to them."""

from __future__ import annotations

import pytest

from compiler.nets import MACHINES, Net, compiled
from npuscope.graph.model import Graph, Quant
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.profiling.validate import validate
from npuscope.program.model import EpochKind, Program
from npuscope.program.units import Arith, Convacc


def along(kernel: int, length: int = 40, stride: int = 1, valid: bool = False) -> Graph:
    """A kernel of one column on a map of one column, and a sum with what went in."""
    net = Net(2)
    x = net.conv(net.input((1, length, 1, 24), (0.05, 3)), 24, (1, 1))
    pads = (0, 0, 0, 0) if valid else None
    y = net.conv(x, 24, (kernel, 1), (stride, 1), pads=pads)
    if net.shape(x) == net.shape(y):
        net.add(y, x)
    return net.graph()


def convolutions(program: Program) -> list[list[Convacc]]:
    units = [[u for u in e.units if isinstance(u, Convacc)] for e in program.executed]
    return [found for found in units if found]


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
@pytest.mark.parametrize("kernel", [3, 5])
def test_a_kernel_of_one_column_runs_as_one_row(kernel: int, generation: str) -> None:
    """The convolution alone is turned: the arithmetic behind it has one column, as in builds."""
    program = compiled(along(kernel), generation)
    _, units = convolutions(program)
    assert {(u.kernelHeight, u.kernelWidth) for u in units} == {(1, kernel)}
    assert {(u.fHeight, u.fWidth) for u in units} == {(1, 40)}
    stages = [u for e in program.executed for u in e.units if isinstance(u, Arith)]
    assert {(u.fHeight, u.fWidth) for u in stages} == {(40, 1)}


def test_a_kernel_across_the_map_stays_as_it_is() -> None:
    net = Net(2)
    net.conv(net.input((1, 40, 1, 24), (0.05, 3)), 24, (1, 3))
    (units,) = convolutions(compiled(net.graph(), "4.0"))
    assert {(u.kernelHeight, u.kernelWidth, u.fHeight) for u in units} == {(1, 3, 40)}


@pytest.mark.parametrize("generation", ["2.2", "4.0", "open"])
@pytest.mark.parametrize(
    "graph",
    [along(3), along(5), along(7, stride=2), along(8, length=8, valid=True), along(3, valid=True)],
    ids=["3", "5", "7 strided", "whole", "valid"],
)
def test_turned_layers_compute_the_same(graph: Graph, generation: str) -> None:
    found = validate(compiled(graph, generation), graph, MACHINES[generation], seeds=2)
    assert found.passed
    assert all(output.max_lsb <= 1 for output in found.outputs)


def raised(first: bool) -> Graph:
    """A map and a vector that is computed from it."""
    net = Net(2)
    x = net.conv(net.input((1, 33, 1, 24), (0.05, -7)), 24, (3, 1))
    vector = net.conv(net.reshape(net.mean(x), (1, 1, 1, 24)), 24, (1, 1))
    operands = (vector, x) if first else (x, vector)
    net.op("Add", operands, BinaryAttrs(), (1, 33, 1, 24), Quant((0.3,), (4,)))
    return net.graph()


@pytest.mark.parametrize("first", [True, False])
def test_a_computed_vector_is_added_on_the_npu(first: bool) -> None:
    graph = raised(first)
    program = compiled(graph, "4.0")
    assert {epoch.kind for epoch in program.executed} == {EpochKind.HW}
    assert any(epoch.kind is EpochKind.SW for epoch in compiled(graph, "3.0").executed)
    found = validate(program, graph, MACHINES["4.0"], seeds=2)
    assert found.passed and all(output.max_lsb <= 1 for output in found.outputs)
