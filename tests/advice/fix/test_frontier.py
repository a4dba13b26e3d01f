"""Where the NPU's work ends."""

from __future__ import annotations

import pytest

from advice.runs import build
from compiler.nets import GENERATIONS, MACHINES, Net
from npuscope.advice.fix.frontier import Frontier, frontier
from npuscope.graph.model import DType, Graph
from npuscope.ops.moves import SliceAttrs
from npuscope.profiling.run import estimate

IMAGE = (1, 16, 16, 8)


def end_of(graph: Graph, generation: str = "4.0") -> Frontier:
    made = build(graph, MACHINES[generation])
    return frontier(made.graph, estimate(made.program, made.machine, graph))


def names(found: Frontier) -> list[str]:
    return [tensor.name for tensor in found.tensors]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_scores_are_left_to_the_application(generation: str) -> None:
    net = Net()
    scores = net.conv(net.input(IMAGE), 10)
    net.dequantize(net.softmax(scores))
    found = end_of(net.graph(), generation)
    assert names(found) == [scores]
    assert found.removed == ("Softmax:softmax", "Dequantize:dequantize")
    assert found.size_bytes == 16 * 16 * 10
    assert found.cpu_ms > 0
    assert found.npu_ms == 0
    start = "end at 1 tensor (2560 bytes): the last 2 ops take "
    assert found.sentence.startswith(start)
    assert found.sentence.endswith(" ms on the CPU")


def test_the_tensors_are_told_with_their_quantization() -> None:
    net = Net()
    scores = net.conv(net.input(IMAGE), 10, quant=(0.5, 3))
    net.softmax(scores)
    found = end_of(net.graph())
    (tensor,) = found.tensors
    assert (tensor.shape, tensor.dtype) == ((1, 16, 16, 10), "int8")
    assert (tensor.scale, tensor.zero_point) == (0.5, 3)
    assert "the last op takes " in found.sentence


def test_moves_in_front_of_the_cpu_go_with_it() -> None:
    net = Net()
    x = net.input(IMAGE)
    heads = [net.conv(x, 4, strides=(s, s), quant=(0.1, 0)) for s in (1, 2)]
    rows = [net.reshape(head, (1, 16 * 16 // n, 4)) for head, n in zip(heads, (1, 4), strict=True)]
    net.softmax(net.concat(tuple(rows), axis=1))
    found = end_of(net.graph())
    assert names(found) == heads
    assert [op.partition(":")[0] for op in found.removed] == [
        "Reshape",
        "Reshape",
        "Concat",
        "Softmax",
    ]


def test_a_slice_stays_where_it_saves_bytes() -> None:
    """In front of a move that drops most of the data, more would have to be read."""
    net = Net()
    x = net.conv(net.input(IMAGE), 32)
    attrs = SliceAttrs((0, 0, 0, 0), (1, 16, 16, 16), (1, 1, 1, 1))
    part = net.op("Slice", (x,), attrs, (1, 16, 16, 16), net.quant(x))
    net.softmax(part)
    found = end_of(net.graph())
    assert names(found) == [part]
    assert found.removed == ("Softmax:softmax",)


def test_a_move_that_is_an_output_stays() -> None:
    net = Net()
    rows = net.reshape(net.conv(net.input(IMAGE), 4), (1, 256, 4))
    found = end_of(net.graph(net.softmax(rows), rows))
    assert names(found) == [rows]


def test_moves_of_the_npu_behind_the_cpu_are_no_work_to_keep() -> None:
    net = Net()
    x = net.input(IMAGE)
    heads = [net.conv(x, 32, quant=(0.1, 0)) for _ in range(2)]
    joined = net.concat(tuple(heads), axis=2)  # a library call: rows of both by turns
    attrs = SliceAttrs((0, 0, 0, 0), (1, 16, 32, 16), (1, 1, 1, 1))
    net.softmax(net.op("Slice", (joined,), attrs, (1, 16, 32, 16), net.quant(joined)))
    assert names(end_of(net.graph())) == heads


def test_small_npu_work_behind_much_cpu_work_goes_too() -> None:
    net = Net()
    x = net.conv(net.input((1, 64, 64, 8)), 16)
    net.conv(net.softmax(x), 1, (1, 1))
    found = end_of(net.graph())
    assert names(found) == [x]
    assert found.removed == ("Softmax:softmax", "Conv2D:conv2d_1")
    assert found.npu_ms > 0
    assert found.sentence.endswith(" ms of NPU work")


def test_much_npu_work_behind_a_little_cpu_work_stays() -> None:
    net = Net()
    x = net.softmax(net.conv(net.input((1, 32, 32, 8)), 2))
    for _ in range(3):
        x = net.conv(x, 128)
    assert end_of(net.graph()).tensors == ()


def test_outputs_of_the_npu_stay_among_the_others() -> None:
    net = Net()
    x = net.conv(net.input(IMAGE), 8)
    first, second = net.conv(x, 4), net.conv(x, 6)
    found = end_of(net.graph(net.softmax(first), second))
    assert names(found) == [first, second]
    assert found.removed == ("Softmax:softmax",)


def test_an_output_without_an_input_goes() -> None:
    net = Net()
    x = net.conv(net.input(IMAGE), 4)
    constant = net.constant(net.weights((1, 4)), net.quant(x))
    anchors = net.dequantize(constant)
    found = end_of(net.graph(net.softmax(x), anchors))
    assert names(found) == [x]
    assert set(found.removed) == {"Softmax:softmax", "Dequantize:dequantize"}


def test_nothing_to_cut() -> None:
    net = Net()
    net.conv(net.input(IMAGE), 4)
    found = end_of(net.graph())
    assert found == Frontier(sentence="the network already ends on the NPU: nothing to cut")


def test_nothing_on_the_npu() -> None:
    net = Net()
    net.softmax(net.input(IMAGE))
    found = end_of(net.graph())
    assert found == Frontier(sentence="nothing runs on the NPU, so it cannot be cut")


def test_a_program_without_its_network() -> None:
    net = Net()
    net.conv(net.input(IMAGE), 4)
    made = build(net.graph())
    profile = estimate(made.program, made.machine)
    found = frontier(None, profile)
    assert found == Frontier(sentence="the network is unknown: give the model file")


def test_float_tensors_are_not_exposed_where_integers_are_in_front() -> None:
    net = Net()
    x = net.conv(net.input(IMAGE), 4)
    real = net.dequantize(x)
    net.op("Exp", (real,), net.built.ops[-1].attrs, net.shape(real), None, DType.FLOAT32)
    assert names(end_of(net.graph())) == [x]
