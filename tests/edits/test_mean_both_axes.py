"""mean-both-axes in both formats: exporters that reduce one axis after the other."""

from __future__ import annotations

import pytest

from edits.border_case import misfit
from edits.moves_case import GENERATIONS, Lite, Qdq, check_same, findings, fixed, kinds, off_npu

RULE, FIX = "NA-MEAN-AXES", "mean-both-axes"
# One rounding instead of two: a step of the mean, which the sigmoid makes 3.2 steps of its own.
MOST_LSB = 4.0
NO_PAIR = "it is not one of two means in a row, over height and over width"


def lite(first: int = 2, second: int = 1, *, keep: bool = True) -> bytes:
    net = Lite()
    x = net.input((1, 6, 7, 5))
    between = tuple(1 if axis == first else n for axis, n in enumerate((1, 6, 7, 5)))
    rows = net.op("MEAN", [x, net.integers(first)], between, keepDims=True)
    shape = tuple(1 if axis == second else n for axis, n in enumerate(between))
    shape = shape if keep else (1, 1, 5)
    y = net.op("MEAN", [rows, net.integers(second)], shape, keepDims=keep)
    return net.finish(net.logistic(y, shape))


def channels_first(axes: tuple[int, int] = (3, 2)) -> bytes:
    """As exporters of PyTorch networks write it: the axes are put first and dropped."""
    net = Lite()
    x = net.op("RELU6", [net.input((1, 6, 7, 5))], (1, 6, 7, 5))
    x = net.op("TRANSPOSE", [x, net.integers(0, 3, 1, 2)], (1, 5, 6, 7))
    shape: tuple[int, ...] = (1, 5, 6, 7)
    for axis in axes:
        shape = tuple(n for place, n in enumerate(shape) if place != axis)
        x = net.op("MEAN", [x, net.integers(axis)], shape, keepDims=False)
    return net.finish(net.logistic(x, shape))


def qdq(first: int = 3, second: int = 2, opset: int = 17) -> bytes:
    net = Qdq(opset)
    x = net.depthwise(net.input((1, 5, 6, 7)), 5)
    for axis in (first, second):
        if opset >= 18:
            made = net.writer.node("ReduceMean", x, net.writer.constant([axis]), name=f"Mean{axis}")
        else:
            made = net.writer.node("ReduceMean", x, name=f"Mean{axis}", axes=[axis])
        x = net.writer.qdq(made, 0.05, -3)
    return net.finish(net.sigmoid(x))


@pytest.mark.parametrize(
    "before", [lite(), lite(1, 2), channels_first(), channels_first((2, 2)), qdq(), qdq(2, 3, 18)]
)
def test_two_means_become_one(before: bytes) -> None:
    for generation in GENERATIONS:
        assert len(findings(before, RULE, generation)) == 2
        after = fixed(before, RULE, FIX, generation)
        assert kinds(after).count("Mean") == 1
        assert off_npu(after, generation) == []
        check_same(before, after, MOST_LSB)


@pytest.mark.parametrize("data", [lite(2, 3), qdq(3, 1), lite(keep=False), channels_first((1, 1))])
def test_other_pairs_stay(data: bytes) -> None:
    assert misfit(data, FIX, *findings(data, RULE)[0].ops) == NO_PAIR


def test_a_single_mean_stays() -> None:
    net = Lite()
    rows = net.op("MEAN", [net.input((1, 6, 7, 5)), net.integers(2)], (1, 6, 1, 5), keepDims=True)
    data = net.finish(net.logistic(rows, (1, 6, 1, 5)))
    assert misfit(data, FIX, *findings(data, RULE)[0].ops) == NO_PAIR
