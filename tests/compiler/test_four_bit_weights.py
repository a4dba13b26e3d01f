"""Weights of 4 bits: two a byte in flash, bytes again in the unit; the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, compiled, sample
from compiler.test_pipeline import differences
from npuscope.compiler.emit.convolution import in_halves
from npuscope.compiler.pipeline import compile_graph
from npuscope.errors import TargetError
from npuscope.graph.model import DType, Graph, Numerics
from npuscope.profiling.run import estimate
from npuscope.program.ec_blob.lower import lower
from npuscope.program.model import Program
from npuscope.program.network_c.writer import network_c_text
from npuscope.program.units import Streng
from npuscope.sim.run import execute
from npuscope.structs import replace


def layers(quant=(0.03, 3)) -> Graph:
    """Dense, deep and depthwise layers, with odd counts of weights."""
    net = Net(5, Numerics.QDQ)
    x = net.input((1, 9, 9, 3), quant)
    x = net.conv(x, 7, (3, 3))
    x = net.conv(x, 96, (1, 1), quant=(0.05, -128))
    x = net.conv(x, 25, (1, 1), quant=(0.05, -128))
    x = net.conv(x)  # depthwise
    return _in_four_bits(net.graph(net.conv(x, 5, (5, 5))))


def _in_four_bits(graph: Graph) -> Graph:
    for op in graph.ops:
        weights = graph.tensor(op.inputs[1])
        values = np.clip(weights.data // 16, -8, 7).astype(np.int8)
        graph.tensors[weights.name] = replace(weights, data=values, dtype=DType.INT4)
    return graph


def _as_bytes(graph: Graph) -> Graph:
    for name, tensor in graph.tensors.items():
        if tensor.dtype is DType.INT4:
            graph.tensors[name] = replace(tensor, dtype=DType.INT8)
    return graph


def _weight_bytes(program: Program) -> int:
    return sum(b.size_bytes for b in program.buffers if b.name.endswith(".weights"))


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0", "open"])
@pytest.mark.parametrize("quant", [(0.03, 3), (0.03, -128)])
def test_the_numbers_are_those_of_bytes(generation: str, quant: tuple[float, int]) -> None:
    graph, plain = layers(quant), _as_bytes(layers(quant))
    halves, whole = compiled(graph, generation), compiled(plain, generation)
    values = sample(graph)
    name = graph.outputs[0]
    assert np.array_equal(
        execute(halves, values).outputs[name], execute(whole, values).outputs[name]
    )
    assert differences(halves, graph, values).max() <= 1


def test_two_weights_share_a_byte() -> None:
    halves, whole = compiled(layers()), compiled(_as_bytes(layers()))
    sets = sum(u.frames for e in halves.executed for u in e.units if _is_packed(u))
    assert 0 < 2 * _weight_bytes(halves) - _weight_bytes(whole) <= sets  # odd sets are filled up


def _is_packed(unit: object) -> bool:
    return isinstance(unit, Streng) and unit.packed


def test_the_first_weight_is_the_lower_half_and_rows_fill_bytes() -> None:
    assert list(in_halves(np.array([[1, -2, 3], [-8, 7, 0]], np.int8))) == [0xE1, 3, 0x78, 0]


def test_they_leave_the_flash_twice_as_fast() -> None:
    net = Net(6, Numerics.QDQ)
    # Few positions: what is read from flash bounds the layer with half of the bytes too.
    x = net.conv(net.input((1, 2, 2, 256), (0.03, 3)), 256, (1, 1))
    halves = _in_four_bits(net.graph(x))
    machine = MACHINES["4.0"]
    after = estimate(compile_graph(halves, machine), machine)
    before = estimate(compile_graph(_as_bytes(halves), machine), machine)
    saved = 256 * 256 / 2 * machine.cycles_per_byte("xspi2") / machine.clocks.npu_mhz / 1000
    assert before.total_ms - after.total_ms == pytest.approx(saved, rel=0.02)


def test_no_code_for_a_board_is_written() -> None:
    program = compile_graph(layers(), MACHINES["4.0"])
    with pytest.raises(TargetError, match="weights of 4 bits"):
        network_c_text(program, MACHINES["4.0"])
    blob = next(epoch.blob for epoch in program.executed if epoch.blob is not None)
    with pytest.raises(TargetError, match="weights of 4 bits"):
        lower(program, blob)
