"""How channels lie in memory: frame by frame or pixel by pixel, and copies into blocks in front of
layers in 16x8 mode, as builds of 2.0 to 2.2 have them."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import GENERATIONS, MACHINES, Net, compiled, sample
from npuscope.graph.model import Graph
from npuscope.ops.run import run
from npuscope.program.model import Buffer, Program
from npuscope.program.units import Streng
from npuscope.program.verify import verify
from npuscope.sim.run import execute

Size = tuple[int, int]


def network(size: Size, channels: tuple[int, int], window: Size, zero: int) -> Graph:
    """A pool in front: it makes frames of 8 channels, whatever the layer reads."""
    net = Net(43)
    x = net.max_pool(net.input((1, *size, channels[0]), (0.05, zero)), (1, 1), (1, 1))
    net.conv(x, channels[1], window)
    return net.graph()


def copies(program: Program) -> list[Buffer]:
    return [buffer for buffer in program.buffers if buffer.name.endswith(".cp")]


@pytest.mark.parametrize(
    ("generation", "level", "size", "channels", "window", "zero", "blocks"),
    [
        ("2.2", 3, (6, 6), (128, 128), (1, 1), 7, 16),  # 576 bytes a frame, 8 tiles
        ("2.2", 3, (12, 12), (128, 128), (1, 1), 7, 0),  # 2304 bytes a frame
        ("2.2", 3, (12, 12), (128, 256), (1, 1), 7, 16),
        ("2.2", 3, (8, 8), (32, 64), (3, 3), 7, 8),  # 16 tiles
        ("2.2", 3, (8, 8), (32, 32), (3, 3), 7, 0),
        ("2.2", 3, (1, 1), (128, 128), (1, 1), 7, 0),  # one pixel lies in a row as it is
        ("2.2", 0, (6, 6), (128, 128), (1, 1), 7, 0),
        ("2.2", 3, (6, 6), (128, 128), (1, 1), 0, 0),  # 8x8 mode
        ("3.0", 3, (6, 6), (128, 128), (1, 1), 7, 0),
        ("4.0", 3, (8, 8), (32, 64), (3, 3), 7, 0),
    ],
)
def test_a_layer_that_reads_its_features_often(
    generation: str,
    level: int,
    size: Size,
    channels: tuple[int, int],
    window: Size,
    zero: int,
    blocks: int,
) -> None:
    graph = network(size, channels, window, zero)
    program = compiled(graph, generation, optimization=level)
    verify(program, MACHINES[generation].units)
    assert [buffer.batch for buffer in copies(program)] == ([blocks] if blocks else [])
    values = sample(graph)
    (found,), (wanted,) = execute(program, values).outputs.values(), run(graph, values).values()
    assert np.abs(found.astype(int) - wanted).max() <= 1


def test_one_copy_serves_all_layers_that_read_such_blocks() -> None:
    net = Net(44)
    x = net.max_pool(net.input((1, 8, 8, 32), (0.05, 7)), (1, 1), (1, 1))
    ends = [net.conv(x, 64, (3, 3)) for _ in range(3)]
    graph = net.graph(*ends)
    program = compiled(graph, "2.2")
    verify(program, MACHINES["2.2"].units)
    assert len(copies(program)) == 1
    found, wanted = execute(program, sample(graph)).outputs, run(graph, sample(graph))
    assert all(np.abs(found[end].astype(int) - wanted[end]).max() <= 1 for end in ends)


def test_features_that_are_made_in_such_frames_are_read_as_they_are() -> None:
    """Through a sum with a shortcut too."""
    net = Net(45)
    x = net.conv(net.input((1, 7, 7, 24), (0.05, 7)), 192, (1, 1), zero=5)
    total = net.add(x, net.conv(net.max_pool(x, (1, 1), (1, 1)), 192, (1, 1), zero=5))
    net.conv(total, 576, (1, 1))
    program = compiled(net.graph(), "2.2")
    assert not any(buffer.name.startswith(total) for buffer in copies(program))


# Frames in memory


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(("both", "batch"), [(False, 8), (True, 32)])
def test_what_is_read_in_the_frames_it_was_made_in_lies_frame_by_frame(
    both: bool, batch: int, generation: str
) -> None:
    """Eight kernels of the first layer, eight channels a unit of the second; a 1x1 layer that
    reads all channels of a pixel keeps them together."""
    net = Net()
    x = net.conv(net.input((1, 16, 16, 3)), 32, zero=0)
    y = net.conv(x, 32)
    if both:
        net.add(y, net.conv(x, 32, (1, 1)))
    graph = net.graph()
    program = compiled(graph, generation)
    (buffer,) = (one for one in program.buffers if one.tensor == x)
    assert buffer.batch == batch
    runs = {
        (engine.batch_depth, engine.batch_offset)
        for epoch in program.epochs
        for engine in epoch.units
        if isinstance(engine, Streng) and engine.addr_base.buffer == buffer.name
        if engine.nbits_memory == 8
    }
    assert (8, batch) in runs
    found, wanted = execute(program, sample(graph)).outputs, run(graph, sample(graph))
    assert max(np.abs(found[n].astype(int) - wanted[n]).max() for n in graph.outputs) <= 1
