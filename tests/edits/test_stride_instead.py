"""stride-instead in both formats: every second pixel, exactly."""

from __future__ import annotations

import pytest

from edits.border_case import misfit
from edits.moves_case import GENERATIONS, Lite, Qdq, check_same, fixed, off_npu

RULE, FIX = "NA-SLICE-STEP", "stride-instead"


def lite(
    starts: tuple[int, ...], steps: tuple[int, ...], ends: tuple[int, ...] = (1, 8, 7, 5)
) -> bytes:
    net, shape = Lite(), (1, 8, 7, 5)
    cut = tuple(len(range(*bounds)) for bounds in zip(starts, ends, steps, strict=True))
    x = net.logistic(net.input(shape), shape)
    inputs = [x, *(net.integers(*values) for values in (starts, ends, steps))]
    return net.finish(net.logistic(net.op("STRIDED_SLICE", inputs, cut, 1 / 256, -128), cut))


def qdq(starts: list[int], ends: list[int], steps: list[int], axes: list[int]) -> bytes:
    net = Qdq()
    x = net.sigmoid(net.input((1, 5, 8, 7)))
    places = [net.writer.constant(values) for values in (starts, ends, axes, steps)]
    y = net.writer.node("Slice", x, *places, name="Slice")
    return net.finish(net.sigmoid(net.writer.qdq(y, 1 / 256, -128)))


@pytest.mark.parametrize(
    "before",
    [
        lite((0, 0, 0, 0), (1, 2, 2, 1)),
        lite((0, 1, 0, 0), (1, 2, 2, 1)),
        lite((0, 1, 1, 0), (1, 2, 2, 1)),
        lite((0, 0, 2, 0), (1, 1, 3, 1)),
        qdq([0, 1], [2**31, 2**31], [2, 2], [2, 3]),
        qdq([-7], [100], [2], [-2]),
    ],
)
def test_the_npu_picks(before: bytes) -> None:
    for generation in GENERATIONS:
        assert "Slice" in off_npu(before, generation)
        after = fixed(before, RULE, FIX, generation)
        assert off_npu(after, generation) == []
        check_same(before, after)


def test_other_cuts_stay() -> None:
    op = "STRIDED_SLICE:#1"
    data = lite((0, 0, 0, 1), (1, 2, 2, 2))
    assert misfit(data, FIX, op) == "the Slice cuts images or channels too"
    data = lite((0, 3, 0, 0), (1, 2, 1, 1))
    assert misfit(data, FIX, op) == "the Slice starts at 3 with step 2"
    data = lite((0, 0, 0, 0), (1, 2, 1, 1), ends=(1, 5, 7, 5))
    assert misfit(data, FIX, op) == "the Slice ends before the last of 8 places"
    data = qdq([0], [5], [2], [1])
    assert misfit(data, FIX, "Slice:Slice") == "the Slice cuts images or channels too"
