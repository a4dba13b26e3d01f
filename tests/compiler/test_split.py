"""Channel counts without good divisors: generation `open` cuts them in two."""

from __future__ import annotations

import pytest

from compiler.nets import MACHINES, Net, compiled
from npuscope.compiler.lower.pieces import good_parts
from npuscope.graph.model import Graph
from npuscope.profiling.run import estimate
from npuscope.profiling.validate import validate
from npuscope.program.model import EpochKind
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


def test_older_compilers_leave_a_prime_count_to_the_cpu() -> None:
    program = compiled(prime_layers(), "2.2")
    assert [e.kind for e in program.executed].count(EpochKind.SW) == 2


@pytest.mark.parametrize("graph", [prime_layers(), odd_layers()], ids=["prime", "odd"])
def test_open_maps_them_and_is_several_times_faster(graph: Graph) -> None:
    program, vendor = compiled(graph, "open"), compiled(graph, "4.0")
    verify(program)
    assert all(epoch.kind is EpochKind.HW for epoch in program.executed)
    ours, theirs = (estimate(p, MACHINES["4.0"]).total_ms for p in (program, vendor))
    assert ours < theirs / 4
    found = validate(program, graph, MACHINES["open"], seeds=2)
    assert found.passed
    assert all(output.within_1_lsb_share > 0.98 for output in found.outputs)
