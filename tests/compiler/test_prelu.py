"""PReLU with one slope per channel: the sum of its two sides, as builds of 2.1 to 3.0 have it."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, compiled, per_tensor, sample, scheduled
from npuscope.compiler.stages import ActivStage, ArithStage
from npuscope.graph.model import Attrs, Graph
from npuscope.ops.run import run
from npuscope.program.modes import ArithOp
from npuscope.program.units import Activ, Arith
from npuscope.program.verify import verify
from npuscope.sim.run import execute

SHAPE = (1, 12, 12, 16)


def network(slopes: tuple[float, int] = (0.004, 0), low: int = -90) -> Graph:
    net = Net(41)
    x = net.conv(net.input(SHAPE), 16, zero=-9)
    steps = np.linspace(low, 120, 16).astype(np.int8).reshape(1, 1, 16)
    slope = net.constant(steps, per_tensor(*slopes))
    net.op("PRelu", (x, slope), Attrs(), SHAPE, per_tensor(0.045, -20))
    return net.graph()


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0"])
def test_a_table_above_zero_and_a_product_below_it(generation: str) -> None:
    graph = network()
    program = compiled(graph, generation)
    verify(program, MACHINES[generation].units)
    units = [unit for epoch in program.executed for unit in epoch.units]
    (limit,) = (u for u in units if isinstance(u, Arith) and u.operation == ArithOp.CLIP)
    assert (limit.A_scalar, limit.C_scalar, limit.combinebc) == (-128, -9, 0)
    assert sum(isinstance(unit, Activ) for unit in units) == 1
    values = sample(graph)
    (found,), (wanted,) = execute(program, values).outputs.values(), run(graph, values).values()
    assert np.abs(found.astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("generation", ["2.2", "3.0"])
def test_the_upper_side_waits_for_the_next_epoch(generation: str) -> None:
    """Beside the lower side it would meet it again in a sum of the same epoch."""
    _, groups = scheduled(network(), MACHINES[generation])
    upper = next(n for n, g in enumerate(groups) for s in g.stages if isinstance(s, ActivStage))
    limit = next(
        n for n, g in enumerate(groups) for s in g.stages if isinstance(s, ArithStage) and s.limits
    )
    assert upper == limit + 1
    members = [stage.operator for stage in groups[upper].stages]
    assert members[-1] == "Add" and "Relu" in members


def test_steps_that_leave_16_bits_and_our_own_lowering_take_a_maximum() -> None:
    for graph, generation in ((network((0.004, -128), -128), "2.2"), (network(), "open")):
        program = compiled(graph, generation)
        operations = [u.operation for e in program.executed for u in e.units if u.unit == "ARITH"]
        assert ArithOp.MAX in operations and ArithOp.CLIP not in operations
        values = sample(graph)
        (found,), (wanted,) = execute(program, values).outputs.values(), run(graph, values).values()
        assert np.abs(found.astype(int) - wanted).max() <= 1
