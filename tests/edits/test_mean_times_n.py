"""mean-times-n in both formats."""

from __future__ import annotations

import pytest

from edits.border_case import misfit
from edits.moves_case import GENERATIONS, Lite, Qdq, check_same, fixed, off_npu

RULE, FIX = "NA-REDUCE-KIND", "mean-times-n"
ROUNDING = 1.0  # LSB: the units add in another order


def lite(axes: tuple[int, ...] = (1, 2), keep: bool = True) -> bytes:
    net = Lite()
    shape = (1, 1, 1, 5) if keep else (1, 5)
    shape = shape if axes == (1, 2) else (1, 1, 7, 5)
    x = net.input((1, 6, 7, 5))
    y = net.op("SUM", [x, net.integers(*axes)], shape, 0.6, 4, keepDims=keep)
    return net.finish(net.logistic(y, shape))


def qdq(axes: list[int], opset: int = 17, keep: int = 1) -> bytes:
    net = Qdq(opset)
    x = net.depthwise(net.input((1, 5, 6, 7)), 5)
    y = net.writer.node("ReduceSum", x, net.writer.constant(axes), name="Sum", keepdims=keep)
    return net.finish(net.sigmoid(net.writer.qdq(y, 0.6, 4)))


@pytest.mark.parametrize(
    "before",
    [lite(), lite(keep=False), qdq([2, 3]), qdq([-1, -2], 18), qdq([2, 3], keep=0)],
)
def test_the_npu_sums(before: bytes) -> None:
    for generation in GENERATIONS:
        assert "ReduceSum" in off_npu(before, generation)
        after = fixed(before, RULE, FIX, generation)
        assert off_npu(after, generation) == []
        check_same(before, after, ROUNDING)


def test_other_sums_stay() -> None:
    expected = "the sum is not over height and width"
    assert misfit(lite((1,)), FIX, "SUM:#0") == expected
    assert misfit(qdq([1]), FIX, "ReduceSum:Sum") == expected
    net = Qdq()
    y = net.writer.node("ReduceSum", net.input((1, 5, 6, 7)), net.writer.constant([2, 3]), name="S")
    data = net.finish(net.writer.node("Abs", y))
    assert misfit(data, FIX, "ReduceSum:S") == "'reducesum_8' is not quantized"
