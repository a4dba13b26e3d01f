"""negate-by-product in both formats: c - x and -x without a Neg, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import misfit
from edits.moves_case import (
    GENERATIONS,
    Lite,
    Qdq,
    check_same,
    findings,
    fixed,
    kinds,
    off_npu,
)

FIX, SHAPE = "negate-by-product", (1, 4, 3, 5)


def lite(kind: str, zero: int = -3, values: tuple[int, ...] = (20,)) -> bytes:
    net = Lite()
    x = net.input(SHAPE, zero=zero)
    one = [net.constant(np.array(values, np.int8), 0.05)] if kind == "SUB" else []
    return net.finish(net.op(kind, [*one, x], SHAPE, 0.06, 11))


def qdq(kind: str, dtype: str = "int8", zero: int = -3) -> bytes:
    net = Qdq()
    x = net.input((1, 5, 4, 3), zero=zero, dtype=dtype)
    one = [net.writer.dequantized_constant(np.array(20, np.int8), 0.05)] if kind == "Sub" else []
    return net.finish(net.op(kind, *one, x, scale=0.06, zero=11))


@pytest.mark.parametrize(
    ("before", "rule"),
    [
        (lite("SUB"), "LINT-SUB-CONSTANT"),
        (lite("SUB", zero=-128), "LINT-SUB-CONSTANT"),
        (lite("SUB", values=(20, -7, 127, -128, 0)), "LINT-SUB-CONSTANT"),
        (qdq("Sub"), "LINT-SUB-CONSTANT"),
        (qdq("Sub", "uint8", 77), "LINT-SUB-CONSTANT"),
        (qdq("Neg"), "LINT-NEG"),
    ],
)
def test_the_hazard_goes_and_the_results_stay(before: bytes, rule: str) -> None:
    for generation in GENERATIONS:
        after = fixed(before, rule, FIX, generation)
        assert off_npu(after, generation) == []
        assert findings(after, rule, generation) == []
        assert not {"Neg", "Sub"} & {*kinds(after)}
        check_same(before, after)


def test_computed_operands_stay() -> None:
    net = Lite()
    data = net.finish(net.op("SUB", [net.input(SHAPE), net.input(SHAPE)], SHAPE))
    assert misfit(data, FIX, "SUB:#0") == "the left operand is computed"
    net = Qdq()
    x = net.writer.input("x", (1, 5))
    y = net.writer.node("Sub", net.writer.constant(1.0), x, name="Sub")
    data = net.finish(net.sigmoid(net.writer.qdq(y, 0.05, 0)))
    assert misfit(data, FIX, "Sub:Sub") == "'x' is not a quantized tensor"
