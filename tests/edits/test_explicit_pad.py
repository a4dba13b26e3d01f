"""explicit-pad: averages that count their padding."""

from __future__ import annotations

import pytest

from edits.border_case import misfit
from edits.moves_case import GENERATIONS, Qdq, check_same, fixed, off_npu

RULE, FIX = "NA-POOL-PAD", "explicit-pad"


def pool(**attrs: object) -> bytes:
    net = Qdq()
    x = net.input((1, 4, 8, 7))
    y = net.writer.node("AveragePool", x, name="Pool", kernel_shape=[3, 3], **attrs)
    return net.finish(net.sigmoid(net.writer.qdq(y, 0.05, -3)))


@pytest.mark.parametrize(
    "before",
    [
        pool(pads=[1, 1, 1, 1], count_include_pad=1),
        pool(pads=[0, 1, 1, 0], count_include_pad=1, strides=[2, 2]),
        pool(auto_pad="SAME_UPPER", count_include_pad=1, strides=[2, 1]),
    ],
)
def test_the_pool_runs_on_the_npu(before: bytes) -> None:
    for generation in GENERATIONS:
        assert "AveragePool" in off_npu(before, generation)
        after = fixed(before, RULE, FIX, generation)
        assert off_npu(after, generation) == []
        check_same(before, after)


def test_averages_without_the_padding_have_no_other_form() -> None:
    data = pool(pads=[1, 1, 1, 1])
    expected = "the averages at the border do not count the padding"
    assert misfit(data, FIX, "AveragePool:Pool") == expected
