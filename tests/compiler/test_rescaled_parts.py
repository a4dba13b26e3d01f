"""A part of a Concat that another op takes to a scale of its own: necks of detectors."""

from __future__ import annotations

import pytest

from compiler.nets import Net, compiled, operators, sample
from npuscope.compiler.pipeline import compile_graph
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.machine.set_keys import with_overrides
from npuscope.sim.run import execute

QUANT = (0.04, 2)
_KEY = "generation.rescaled_parts_apart"


def neck() -> Graph:
    """The part is read rescaled at once, and joined with what was made of that."""
    net = Net(7)
    skip = net.conv(net.input((1, 8, 8, 8)), 16, quant=QUANT)
    x = net.quantize(skip, (0.05, 3))
    for _ in range(3):
        x = net.conv(x, 16)
    net.conv(net.concat((net.conv(x, 8, quant=QUANT), skip)), 8, (1, 1))
    return net.graph()


@pytest.mark.parametrize("generation", ["3.0", "4.0"])
def test_it_lies_by_itself_until_all_parts_are_there(generation: str) -> None:
    graph = neck()
    program = compiled(graph, generation)
    join = next(op for op in graph.ops if op.kind == "Concat")
    other, skip = join.inputs
    names = {buffer.name: buffer for buffer in program.buffers}
    whole = names[join.outputs[0]]
    assert not names[skip].view_of
    assert names[skip].last > names[skip].first + 3
    assert whole.first >= names[skip].last - 1  # not before the other part
    assert other not in names or names[other].view_of == whole.name
    assert sum("Concat" in row for row in operators(program)) == 1
    values = sample(graph)
    silicon = load_machine(generation=generation)
    in_place = compile_graph(graph, with_overrides(silicon, {_KEY: False}))
    assert not any("Concat" in row for row in operators(in_place))
    outputs, same = execute(program, values).outputs, execute(in_place, values).outputs
    assert all((outputs[name] == same[name]).all() for name in graph.outputs)


def test_ours_writes_it_into_its_place() -> None:
    assert not any("Concat" in row for row in operators(compiled(neck(), "open")))
