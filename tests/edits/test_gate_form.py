"""gate-form in both formats: the gate of a GRU."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, misfit
from edits.moves_case import (
    GENERATIONS,
    Lite,
    Qdq,
    check_same,
    findings,
    kinds,
    off_npu,
)

RULE, FIX, SHAPE = "LINT-SUB-CONSTANT", "gate-form", (1, 1, 1, 16)
NO_GATE = "the op is not part of (1 - z) * n + z * h"
MOST_LSB = 3.0  # steps of h - n are twice those of h: this form costs a bit


def lite(one: int = 127, shared: bool = True) -> bytes:
    net = Lite()
    z, n = net.logistic(net.input(SHAPE), SHAPE), net.input(SHAPE, 1 / 128, 0)
    n = net.op("TANH", [n], SHAPE, 1 / 128, 0)
    h = net.input(SHAPE, 1 / 128, 0)
    rest = net.op("SUB", [net.constant(np.array([one], np.int8), 1 / 127), z], SHAPE, 1 / 256, -128)
    new = net.op("MUL", [rest, n], SHAPE, 1 / 128, 0)
    old = net.op("MUL", [z if shared else n, h], SHAPE, 1 / 128, 0)
    return net.finish(net.op("ADD", [new, old], SHAPE, 1 / 128, 0))


def qdq(one: float = 1.0, shared: bool = True) -> bytes:
    net, unit = Qdq(), {"scale": 1 / 128, "zero": 0}
    z = net.sigmoid(net.input((1, 16)))
    n, h = net.op("Tanh", net.input((1, 16)), **unit), net.input((1, 16), 1 / 128, 0)
    steps = np.array(round(one * 100), np.int8)
    ones = net.writer.dequantized_constant(steps, 0.01)
    rest = net.op("Sub", ones, z, scale=1 / 256, zero=-128)
    new, old = net.op("Mul", n, rest, **unit), net.op("Mul", z if shared else n, h, **unit)
    return net.finish(net.op("Add", old, new, **unit))


@pytest.mark.parametrize("before", [lite(), qdq()])
def test_the_gate_has_one_op_less(before: bytes) -> None:
    for generation in GENERATIONS:
        after = edited(before, FIX, *findings(before, RULE, generation)[0].ops)
        assert len(kinds(after)) == len(kinds(before)) - 1
        assert off_npu(after, generation) == []
        assert findings(after, RULE, generation) == []
        check_same(before, after, MOST_LSB)


@pytest.mark.parametrize(
    ("data", "op"),
    [
        (lite(one=100), "SUB:#2"),
        (lite(shared=False), "SUB:#2"),
        (qdq(one=0.5), "Sub:Sub"),
        (qdq(shared=False), "Sub:Sub"),
    ],
)
def test_other_sums_are_no_gates(data: bytes, op: str) -> None:
    named = [name for name in _origins(data) if name.startswith(op)]
    assert misfit(data, FIX, *named) == NO_GATE


def _origins(data: bytes) -> list[str]:
    return [finding.ops[0] for finding in findings(data, RULE)]


def test_a_computed_left_operand_is_no_gate() -> None:
    net = Lite()
    data = net.finish(net.op("SUB", [net.input(SHAPE), net.input(SHAPE)], SHAPE))
    assert misfit(data, FIX, "SUB:#0") == "the left operand is computed"
