"""Channel counts without good divisors: generation `open` cuts them in two."""

from __future__ import annotations

import pytest

from compiler.nets import MACHINES, Net, compiled
from npuscope.compiler.lower.pieces import good_parts
from npuscope.graph.model import Graph
from npuscope.profiling.run import estimate
from npuscope.profiling.validate import validate
from npuscope.program.code_files import code_files
from npuscope.program.model import EpochKind
from npuscope.program.units import Convacc
from npuscope.program.verify import verify


@pytest.mark.parametrize(
    ("channels", "limit", "parts"),
    [
        (257, 24, [(0, 240), (240, 17)]),
        (256, 24, [(0, 256)]),  # 16 a tile is good enough
        (24, 24, [(0, 24)]),
        (23, 24, [(0, 23)]),  # one tile
        (58, 8, [(0, 56), (56, 2)]),
        (29, 8, [(0, 24), (24, 5)]),
    ],
)
def test_parts(channels: int, limit: int, parts: list[tuple[int, int]]) -> None:
    assert good_parts(channels, limit) == parts


def test_parts_cover_all_channels() -> None:
    for channels in range(1, 400):
        parts = good_parts(channels, 24)
        assert [first for first, _ in parts] == [0, *[parts[0][1]][: len(parts) - 1]]
        assert sum(count for _, count in parts) == channels


def prime_layers() -> Graph:
    """1x1 convolutions of 257 channels at one position, and a Gemm to 257."""
    net = Net(3)
    x = net.conv(net.input((1, 1, 1, 257)), 257, (1, 1))
    x = net.conv(x, 512, (1, 1))
    net.dense(net.reshape(x, (1, 512)), 257)
    return net.graph()


def odd_layers() -> Graph:
    net = Net(4)
    net.conv(net.conv(net.input((1, 8, 8, 29)), 58), 29, (1, 1))
    return net.graph()


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0"])
def test_vendor_compilers_leave_a_prime_count_to_the_cpu(generation: str) -> None:
    program = compiled(prime_layers(), generation)
    assert [e.kind for e in program.executed].count(EpochKind.SW) == 2


@pytest.mark.parametrize("graph", [prime_layers(), odd_layers()], ids=["prime", "odd"])
def test_open_maps_them_and_is_several_times_faster(graph: Graph) -> None:
    program, vendor = compiled(graph, "open"), compiled(graph, "4.0")
    verify(program)
    assert all(epoch.kind is EpochKind.HW for epoch in program.executed)
    ours, theirs = (estimate(p, MACHINES["4.0"]).total_ms for p in (program, vendor))
    assert ours < theirs / 3
    found = validate(program, graph, MACHINES["open"], seeds=2)
    assert found.passed
    assert all(output.within_1_lsb_share > 0.98 for output in found.outputs)


def many_passes(inputs: int, window: tuple[int, int] = (1, 1), size: int = 2) -> Graph:
    net = Net(5)
    net.conv(net.input((1, size, size, inputs)), 32, window)
    return net.graph()


@pytest.mark.parametrize("generation", list(MACHINES))
@pytest.mark.parametrize(
    "graph",
    [
        many_passes(257),
        many_passes(514),
        many_passes(257, (3, 3)),
        many_passes(2056, (3, 3), 3),
        many_passes(12511),
    ],
    ids=["257", "514", "257 in 3x3", "2056 in 3x3", "12511"],
)
def test_passes_are_as_many_as_registers_count(graph: Graph, generation: str) -> None:
    """AFILT and a switch context have 8 bits: layers of more passes are the CPU's, or cut into
    parts that are added."""
    program, machine = compiled(graph, generation), MACHINES[generation]
    verify(program)
    units = [u for e in program.executed for g in e.groups or () for u in g.units]
    assert all(u.afilt_tot <= 255 for u in units if isinstance(u, Convacc))
    notes, files = code_files(program, machine, "network")
    assert not notes and "network.c" in files


@pytest.mark.parametrize("generation", list(MACHINES))
@pytest.mark.parametrize("window", [(1, 1), (3, 3)])
def test_added_parts_are_the_layer(window: tuple[int, int], generation: str) -> None:
    graph = many_passes(257, window)
    found = validate(compiled(graph, generation), graph, MACHINES[generation], seeds=1)
    assert found.passed
    assert all(output.within_1_lsb_share > 0.97 for output in found.outputs)


def test_parts_cut_by_passes_follow_each_other() -> None:
    """12,504 channels in 521 passes, which are three parts, and a rest of seven."""
    program = compiled(many_passes(12511), "open")
    convs = [any(isinstance(u, Convacc) for u in epoch.units) for epoch in program.executed]
    assert sum(convs) == 4
