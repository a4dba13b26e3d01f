"""slope-instead in both formats: a leaky ReLU that an exporter wrote as a product and a maximum."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, misfit
from edits.moves_case import GENERATIONS, Lite, Qdq, check_same, findings, kinds, off_npu

RULE, FIX, SHAPE = "NA-MAX-LEAKY", "slope-instead", (1, 4, 4, 8)
MOST_LSB = 1.0  # one rounding instead of three
SLOPES = np.linspace(-60, 100, 8).astype(np.int8)
NO_SLOPE = "the Max does not compare a tensor with a multiple of itself"


def lite(slopes: np.ndarray = SLOPES, *, requantized: bool = True, same: bool = True) -> bytes:
    net = Lite()
    x = net.input(SHAPE)
    product = net.op("MUL", [x, net.constant(slopes, 1 / 127)], SHAPE, 0.04, 5)
    other = x if same else net.input(SHAPE)
    sides = [product, other]
    if requantized:
        sides = [net.op("QUANTIZE", [side], SHAPE, 0.06, -20) for side in sides]
    return net.finish(net.op("MAXIMUM", sides, SHAPE, 0.06, -20))


def qdq(slopes: np.ndarray = SLOPES, *, same: bool = True, floats: bool = False) -> bytes:
    net = Qdq()
    x = net.depthwise(net.input((1, 8, 4, 4)), 8)
    shaped = slopes.reshape(-1, 1, 1)
    if floats:
        factor = net.writer.constant((shaped / 127).astype(np.float32))
    else:
        factor = net.writer.dequantized_constant(shaped, 1 / 127)
    product = net.op("Mul", x, factor, scale=0.04, zero=5)
    other = x if same else net.depthwise(net.input((1, 8, 4, 4)), 8)
    return net.finish(net.op("Max", other, product, scale=0.06, zero=-20))


CASES = [lite(), lite(SLOPES[-1:]), qdq(), qdq(SLOPES[-1:])]


@pytest.mark.parametrize("before", CASES)
def test_a_maximum_becomes_a_prelu(before: bytes) -> None:
    for generation in GENERATIONS:
        found = findings(before, RULE, generation)
        assert len(found) == 1
        after = edited(before, FIX, *found[0].ops)
        assert "Max" not in kinds(after)
        assert "PRelu" in kinds(after)
        assert off_npu(after, generation) == []
        check_same(before, after, MOST_LSB)


def test_slopes_of_floats_are_stored_as_bytes() -> None:
    before = qdq(floats=True)
    after = edited(before, FIX, *findings(before, RULE)[0].ops)
    assert off_npu(after) == []
    check_same(before, after, MOST_LSB)


@pytest.mark.parametrize("data", [lite(same=False), qdq(same=False)])
def test_the_larger_of_two_tensors_stays(data: bytes) -> None:
    assert findings(data, RULE) == []
    assert len(findings(data, "NA-OP-SOFTWARE")) == 1
    assert misfit(data, FIX, *findings(data, "NA-OP-SOFTWARE")[0].ops) == NO_SLOPE


def wide(slopes: np.ndarray) -> bytes:
    net = Lite()
    x = net.input(SHAPE)
    product = net.op("MUL", [x, net.constant(slopes, 2 / 127)], SHAPE, 0.1, 0)
    sides = [net.op("QUANTIZE", [side], SHAPE, 0.1, 0) for side in (product, x)]
    return net.finish(net.op("MAXIMUM", sides, SHAPE, 0.1, 0))


def test_channels_that_grow_are_multiplied_behind() -> None:
    before = wide(SLOPES)
    after = edited(before, FIX, *findings(before, RULE)[0].ops)
    assert kinds(after) == ["PRelu", "Mul"]
    assert off_npu(after) == []
    check_same(before, after, MOST_LSB)


def test_slopes_on_both_sides_of_one_do_not_fit() -> None:
    before = wide(np.array([-120, 0, 0, 0, 0, 0, 0, 120], np.int8))
    assert misfit(before, FIX, *findings(before, RULE)[0].ops) == "slopes above 1 and below -1"
