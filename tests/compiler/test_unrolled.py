"""Networks unrolled over time: thousands of small epochs, as three spiking networks have them on a
board of 2.2 without the epoch controller."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, compiled
from npuscope import estimate
from npuscope.graph.model import Graph, Quant
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.moves import SliceAttrs
from npuscope.profiling.validate import validate
from npuscope.program.model import EpochKind, Program
from npuscope.program.units import Arith

# Milliseconds and epochs that a NUCLEO-N657X0-Q took.
MEASURED = {
    "snn_100_3_V2.tflite": (6.836, 483),
    "snn_100_5_V2.tflite": (10.174, 797),
    "snn_1000_3_V2.tflite": (79.999, 434),
}


@pytest.mark.parametrize("name", list(MEASURED))
def test_a_board_took_so_long(name: str, shared_models: Path) -> None:
    found = estimate(shared_models / name, generation="2.2", epoch_controller=False)
    ms, epochs = MEASURED[name]
    assert found.total_ms == pytest.approx(ms, rel=0.03)
    assert len(found.epochs) == pytest.approx(epochs, rel=0.03)


def operators(program: Program) -> list[tuple[str, ...]]:
    return [tuple(epoch.operators) for epoch in program.executed]


def limited() -> Graph:
    """A convolution and the smaller of its outputs and 1."""
    net = Net(3)
    x = net.conv(net.input((1, 4, 4, 8)), 8)
    one = net.constant(np.array(1.0, np.float32))
    net.op("Min", (x, one), BinaryAttrs(), (1, 4, 4, 8), net.quant(x))
    return net.graph()


def test_a_minimum_with_a_number_is_computed_in_float() -> None:
    chain = [("DequantizeLinear",), ("Min",), ("QuantizeLinear",)]
    assert operators(compiled(limited(), "2.2"))[-3:] == chain
    kinds = {epoch.kind for epoch in compiled(limited(), "4.0").executed}
    assert kinds == {EpochKind.HW}


def rows(count: int = 4, channels: int = 24) -> Graph:
    """Lines of one tensor, a dense layer for each of them."""
    net = Net(4)
    x = net.input((1, count, channels), (0.1, -128))
    outputs = []
    for row in range(count):
        attrs = SliceAttrs((0, row, 0), (1, 1, channels), (1, 1, 1))
        line = net.op("Slice", (x,), attrs, (1, 1, channels), net.quant(x))
        outputs.append(net.dense(net.reshape(line, (1, channels)), 16))
    return net.graph(*outputs)


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_lines_that_are_all_of_a_tensor_are_read_in_place(generation: str) -> None:
    graph = rows()
    program = compiled(graph, generation)
    calls = [epoch for epoch in program.executed if epoch.kind is not EpochKind.HW]
    assert len(calls) == (0 if generation == "2.2" else 4)
    found = validate(program, graph, MACHINES[generation], seeds=2)
    assert found.passed and all(one.within_1_lsb_share == 1 for one in found.outputs)


def test_some_lines_of_a_tensor_are_copied() -> None:
    net = Net(4)
    x = net.input((1, 4, 24), (0.1, -128))
    attrs = SliceAttrs((0, 2, 0), (1, 1, 24), (1, 1, 1))
    net.dense(net.reshape(net.op("Slice", (x,), attrs, (1, 1, 24), net.quant(x)), (1, 24)), 16)
    assert ("Slice",) in operators(compiled(net.graph(), "2.2"))


def decayed(channels: int) -> Graph:
    """A vector times a constant of as many entries, times itself."""
    net = Net(5)
    x = net.input((1, channels), (0.1, 5))
    factors = np.arange(channels, dtype=np.int64) % 200 - 128
    quant = Quant((0.01,), (-128,))
    k = net.constant(factors.astype(np.int8), quant)
    y = net.op("Mul", (x, k), BinaryAttrs(), (1, channels), Quant((0.1,), (3,)))
    net.op("Mul", (y, x), BinaryAttrs(), (1, channels), Quant((0.5,), (3,)))
    return net.graph()


def arithmetic(program: Program) -> list[int]:
    return [sum(isinstance(u, Arith) for u in epoch.units) for epoch in program.executed]


def test_a_constant_of_the_maps_size_is_streamed() -> None:
    """No coefficients of 100 channels are loaded; its zero point of -128 needs no correction."""
    graph = decayed(100)
    program = compiled(graph, "2.2")
    units = [u for epoch in program.executed for u in epoch.units if isinstance(u, Arith)]
    sizes = {buffer.name: buffer.shape[-1] for buffer in program.buffers}
    held = [ref for u in units for ref in (u.A_vector, u.B_vector, u.C_vector) if ref]
    assert all(sizes[ref.buffer] == 1 for ref in held)
    found = validate(program, graph, MACHINES["2.2"], seeds=2)
    assert found.passed and all(one.within_1_lsb_share == 1 for one in found.outputs)


def test_small_maps_go_through_two_arithmetic_units_at_a_time() -> None:
    assert max(arithmetic(compiled(decayed(100), "2.2"))) == 2
    assert max(arithmetic(compiled(decayed(1000), "2.2"))) > 2
