"""add-behind: a computed bias leaves the layer."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, misfit, outside
from edits.moves_case import (
    GENERATIONS,
    Qdq,
    check_same,
    findings,
    fixed,
    nodes,
    off_npu,
)

RULE, FIX = "LINT-BIAS-COMPUTED", "add-behind"
MOST_LSB = 2.0  # of the sum: its own rounding, and that of the product before it


def gemm(computed: bool = True, turned: bool = False, **attrs: object) -> bytes:
    """A dense layer whose bias is another one's result."""
    net, rng = Qdq(), np.random.default_rng(3)
    x = net.input((1, 24))
    first = net.writer.dequantized_constant(rng.integers(-60, 60, (24, 8)).astype(np.int8), 0.01)
    bias = net.op("MatMul", x, first, scale=0.03, zero=2)
    if not computed:
        bias = net.writer.dequantized_constant(np.ones(8, np.int32), 0.0005)
    weights = rng.integers(-60, 60, (8, 24) if turned else (24, 8)).astype(np.int8)
    second = net.writer.dequantized_constant(weights, 0.01)
    made = net.writer.node("Gemm", x, second, bias, name="Gemm", **attrs)
    return net.finish(net.writer.qdq(made, 0.06, 3))


@pytest.mark.parametrize("before", [gemm(), gemm(turned=True, transB=1, alpha=0.5)])
def test_the_layer_runs_on_the_npu(before: bytes) -> None:
    for generation in GENERATIONS:
        assert "FullyConnected" in off_npu(before, generation)
        after = fixed(before, RULE, FIX, generation)
        assert off_npu(after, generation) == []
        assert findings(after, RULE, generation) == []
        check_same(before, after, MOST_LSB)


def test_a_network_of_floats_gets_a_plain_add() -> None:
    net = Qdq()
    x = net.writer.node("Abs", net.input((1, 24)))
    weights = net.writer.constant(np.ones((24, 8), np.float32))
    bias = net.writer.node("Abs", net.input((1, 8)))
    made = net.writer.node("Gemm", x, weights, bias, name="Gemm")
    before = net.finish(made)
    after = edited(before, FIX, "Gemm:Gemm")
    assert [node.partition(":")[0] for node in nodes(after)].count("Add") == 1
    same = outside(before)[made], outside(after)[made]
    assert np.allclose(*same)


def test_a_constant_bias_stays() -> None:
    assert misfit(gemm(computed=False), FIX, "Gemm:Gemm") == "the bias is constant"
