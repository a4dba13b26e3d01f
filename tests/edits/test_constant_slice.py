"""constant-slice in both formats: a Gather of neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, misfit
from edits.moves_case import GENERATIONS, Lite, Qdq, check_same, fixed, nodes, off_npu

RULE, FIX = "NA-GATHER", "constant-slice"


def lite(*places: int, axis: int = 3) -> bytes:
    net, shape = Lite(), (1, 6, 7, 5)
    cut = tuple(len(places) if n == axis else size for n, size in enumerate(shape))
    x = net.op("GATHER", [net.input(shape), net.integers(*places)], cut, axis=axis)
    return net.finish(net.logistic(x, cut))


def qdq(places: object, axis: int = 1) -> bytes:
    net = Qdq()
    x = net.input((1, 5, 6, 7))
    y = net.writer.node("Gather", x, net.writer.constant(np.array(places)), name="G", axis=axis)
    return net.finish(net.sigmoid(net.writer.qdq(y, 0.05, -3)))


@pytest.mark.parametrize("before", [lite(1, 2, 3), lite(4)])
def test_the_npu_cuts(before: bytes) -> None:
    for generation in GENERATIONS:
        assert "Gather" in off_npu(before, generation)
        after = fixed(before, RULE, FIX, generation)
        assert off_npu(after, generation) == []
        check_same(before, after)


def test_along_another_axis() -> None:
    before = lite(2, 3, axis=1)
    after = fixed(before, RULE, FIX)
    assert "Gather" not in off_npu(after)
    check_same(before, after)


@pytest.mark.parametrize("before", [qdq([2, 3]), qdq([-2, -1]), qdq(2), qdq(-1, 3)])
def test_in_an_onnx_file(before: bytes) -> None:
    """Our reader makes slices of these by itself; other compilers do not."""
    after = edited(before, FIX, "Gather:G")
    assert not any(node.startswith("Gather:") for node in nodes(after))
    check_same(before, after)


def test_other_indices_stay() -> None:
    assert misfit(lite(1, 3), FIX, "GATHER:#0") == "the indices are not neighbours"
    assert misfit(qdq([[1, 2], [2, 3]]), FIX, "Gather:G") == "the indices have 2 axes"
    assert misfit(qdq([3, 2]), FIX, "Gather:G") == "the indices are not neighbours"
