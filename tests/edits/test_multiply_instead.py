"""multiply-instead: constant divisors."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, misfit
from edits.moves_case import GENERATIONS, Qdq, check_same, fixed, kinds, off_npu

RULE, FIX = "NA-DIV", "multiply-instead"
ROUNDING = 1.0  # LSB: 1/3 is no float32 number


def divided(divisor: np.ndarray, scale: float | None = 0.1) -> bytes:
    net = Qdq()
    x = net.input((1, 5, 4, 3))
    if scale is None:
        by = net.writer.constant(divisor)
    else:
        by = net.writer.dequantized_constant(divisor.astype(np.int8), scale)
    y = net.writer.node("Div", x, by, name="Div")
    return net.finish(net.sigmoid(net.writer.qdq(y, 0.02, -7)))


@pytest.mark.parametrize("divisor", [30, -40, 7])
def test_the_npu_divides(divisor: int) -> None:
    """By one number the compiler does it itself; the edit gives the same file as before."""
    before = divided(np.array(divisor))
    for generation in GENERATIONS:
        assert off_npu(before, generation) == []
        after = edited(before, FIX, "Div:Div")
        assert off_npu(after, generation) == []
        assert "Div" not in kinds(after)
        check_same(before, after, ROUNDING)


def test_in_a_network_of_floats() -> None:
    net = Qdq()
    x = net.writer.node("Abs", net.input((1, 5)))
    y = net.writer.node("Div", x, net.writer.constant(np.array(4.0)), name="Div")
    before = net.finish(net.sigmoid(net.writer.qdq(y, 0.02, -7)))
    after = fixed(before, RULE, FIX)
    assert "Div" not in kinds(after)
    check_same(before, after)


def test_other_divisors_stay() -> None:
    expected = "the divisor is not a single number other than 0"
    assert (
        misfit(divided(np.array([[[3]], [[4]], [[5]], [[6]], [[7]]])), FIX, "Div:Div") == expected
    )
    assert misfit(divided(np.array(0)), FIX, "Div:Div") == expected
    net = Qdq()
    y = net.writer.node("Div", net.input((1, 5)), net.input((1, 5)), name="Div")
    data = net.finish(net.writer.qdq(y, 0.02, -7))
    assert misfit(data, FIX, "Div:Div") == "the divisor is computed"
