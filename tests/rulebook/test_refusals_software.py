"""Ops that no unit computes: each says why, and runs as a software or library epoch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.nets import Net, compiled, per_tensor
from npuscope.graph.model import Attrs, DType, Graph, Numerics, Quant, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.images import BlockAttrs
from npuscope.ops.layers import MatMulAttrs, TransposeConvAttrs
from npuscope.ops.moves import GatherAttrs
from npuscope.ops.reduce import ReduceAttrs
from npuscope.ops.run import run
from npuscope.program.model import EpochKind
from npuscope.sim.run import execute

IMAGE = (1, 4, 6, 8)
QUANT = per_tensor(0.02, 3)


def one(kind: str, attrs: Attrs, shape: tuple[int, ...], *more: Tensor) -> Graph:
    # Float slopes beside integers are a matter of QDQ files.
    net = Net(0, Numerics.QDQ if kind == "PRelu" else Numerics.LITERT)
    x = net.input(IMAGE, (0.02, 3))
    for tensor in more:
        net.built.add(tensor)
    net.op(kind, (x, *(tensor.name for tensor in more)), attrs, shape, QUANT)
    return net.graph()


def constant(name: str, data: np.ndarray, quant: Quant | None = None) -> Tensor:
    return Tensor(name, data.shape, DType(data.dtype.name), quant, data)


def softmax() -> Graph:
    net = Net()
    net.softmax(net.input(IMAGE))
    return net.graph()


def island() -> Graph:
    net = Net()
    net.quantize(net.dequantize(net.input(IMAGE)), (0.03, 1))
    return net.graph()


def matmul() -> Graph:
    net = Net()
    x, y = net.input((1, 2, 5, 8), (0.02, 3)), net.input((1, 2, 8, 5), (0.02, 3))
    net.op("MatMul", (x, y), MatMulAttrs(), (1, 2, 5, 5), per_tensor(0.3, 0))
    return net.graph()


def leaky() -> Graph:
    net = Net()
    x = net.input(IMAGE, (0.02, 3))
    slopes = net.constant(np.arange(8, dtype=np.int8), per_tensor(0.05, 0))
    product = net.op("Mul", (x, slopes), BinaryAttrs(), IMAGE, QUANT)
    net.op("Max", (product, x), BinaryAttrs(), IMAGE, QUANT)
    return net.graph()


SLOPES = constant("slopes", np.linspace(0.1, 0.4, 8, dtype=np.float32))
INDICES = constant("indices", np.array([2, 0, 1], np.int32))
DIVISOR = constant("divisor", np.arange(33, 41, dtype=np.int8), per_tensor(0.05, 0))
GROUPED = constant("weights", np.ones((8, 3, 3, 4), np.int8), Quant((0.01,) * 8, (0,) * 8, 0))
CASES: list[tuple[str, Callable[[], Graph]]] = [
    ("NA-SOFTMAX", softmax),
    ("NA-QUANTIZE-FLOAT", island),
    ("NA-DEQUANTIZE-FLOAT", island),
    ("NA-PRELU-SLOPE", lambda: one("PRelu", Attrs(), IMAGE, SLOPES)),
    ("NA-MAX-LEAKY", leaky),
    ("NA-MATMUL-DYNAMIC", matmul),
    ("NA-REDUCE-KIND", lambda: one("ReduceMax", ReduceAttrs((1, 2), True), (1, 1, 1, 8))),
    ("NA-DIV", lambda: one("Div", BinaryAttrs(), IMAGE, DIVISOR)),
    ("NA-GATHER", lambda: one("Gather", GatherAttrs(1), (1, 3, 6, 8), INDICES)),
    ("NA-DEPTH-SPACE", lambda: one("DepthToSpace", BlockAttrs(2), (1, 8, 12, 2))),
    (
        "NA-TRANSPOSED-CONV",
        lambda: one("TransposeConv", TransposeConvAttrs((2, 2), groups=2), (1, 9, 13, 8), GROUPED),
    ),
]


@pytest.mark.parametrize(("rule", "make"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_an_op_says_why_it_is_not_on_the_npu(
    rule: str, make: Callable[[], Graph], generation: str
) -> None:
    program = compiled(make(), generation)
    found = [e for e in program.executed if rule in {refused.rule for refused in e.trail}]
    assert found
    assert all(e.kind in (EpochKind.SW, EpochKind.HYBRID) for e in found)


@pytest.mark.parametrize(("rule", "make"), CASES, ids=[case[0] for case in CASES])
def test_and_computes_what_the_reference_does(rule: str, make: Callable[[], Graph]) -> None:
    graph = make()
    random = np.random.default_rng(5)
    values = {
        name: random.integers(-128, 128, graph.tensor(name).shape).astype(np.int8)
        for name in graph.inputs
    }
    found = execute(compiled(graph, "4.0"), values).outputs
    wanted = run(graph, values)
    for name in graph.outputs:
        difference = found[name].astype(np.float64) - wanted[name]
        assert np.abs(difference).max() <= 1


def test_requantization_between_integers_maps() -> None:
    net = Net()
    net.quantize(net.input(IMAGE, (0.02, 3)), (0.05, -4))
    assert [e.kind for e in compiled(net.graph(), "4.0").executed] == [EpochKind.HW]


@pytest.mark.parametrize("generation", ["2.2", "4.0", "open"])
@pytest.mark.parametrize("count", [1, 8])
def test_quantized_slopes_map(generation: str, count: int) -> None:
    slopes = np.linspace(-40, 120, count).astype(np.int8).reshape(1, 1, count)
    graph = one("PRelu", Attrs(), IMAGE, constant("slopes", slopes, per_tensor(0.004, 0)))
    program = compiled(graph, generation)
    assert {e.kind for e in program.executed} == {EpochKind.HW}
    values = np.random.default_rng(6).integers(-128, 128, IMAGE).astype(np.int8)
    found = execute(program, {"input0": values}).outputs[program.outputs[0]]
    wanted = run(graph, {"input0": values})[graph.outputs[0]]
    assert np.abs(found.astype(int) - wanted).max() <= 1
