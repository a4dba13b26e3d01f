"""expand-operand in both formats: constants in full, one channel repeated."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import misfit
from edits.moves_case import GENERATIONS, Lite, Qdq, check_same, fixed, off_npu

RULE, FIX = "NA-BROADCAST", "expand-operand"
SHAPE = (1, 6, 7, 5)


def lite(kind: str, shape: tuple[int, ...], left: bool = False) -> bytes:
    net = Lite()
    values = np.random.default_rng(5).integers(-99, 99, shape).astype(np.int8)
    pair = [net.input(SHAPE), net.constant(values, 0.03)]
    return net.finish(net.op(kind, pair[::-1] if left else pair, SHAPE, 0.09, 4))


def qdq(kind: str, shape: tuple[int, ...], data: tuple[int, ...]) -> bytes:
    net = Qdq()
    values = np.random.default_rng(6).integers(-99, 99, shape).astype(np.int8)
    constant = net.writer.dequantized_constant(values, 0.03)
    y = net.writer.node(kind, net.input(data), constant, name="op")
    return net.finish(net.writer.qdq(y, 0.09, 4))


@pytest.mark.parametrize(
    "before",
    [
        lite("SUB", (1, 6, 7, 1)),
        lite("SUB", (1, 6, 1, 5), left=True),
        lite("MUL", (7, 1)),
        qdq("Add", (1, 2, 1), (1, 2, 30)),
        qdq("Mul", (1, 2, 1), (1, 2, 30)),
    ],
)
def test_a_constant_is_stored_in_full(before: bytes) -> None:
    for generation in GENERATIONS:
        assert off_npu(before, generation)
        after = fixed(before, RULE, FIX, generation)
        away = off_npu(after, generation)
        assert not {"Add", "Sub", "Mul"} & {*away}
        check_same(before, after)


def test_a_constant_of_the_full_shape_needs_no_fix() -> None:
    for generation in GENERATIONS:
        for data in (lite("ADD", SHAPE), qdq("Mul", (1, 2, 30), (1, 2, 30))):
            assert off_npu(data, generation) == []


@pytest.mark.parametrize("place", [0, 1])
def test_a_computed_channel_is_repeated(place: int) -> None:
    """Spatial attention: one map of weights for all channels."""
    net = Lite()
    pair = [net.input(SHAPE), net.input((1, 6, 7, 1))]
    pair = pair if place else pair[::-1]
    before = net.finish(net.op("MUL", pair, SHAPE, 0.09, 4))
    other = Qdq()
    names = [other.input((1, 5, 6, 7)), other.input((1, 1, 6, 7))]
    names = names if place else names[::-1]
    y = other.writer.node("Mul", *names, name="op")
    for data in (before, other.finish(other.writer.qdq(y, 0.09, 4))):
        assert "Mul" in off_npu(data)
        after = fixed(data, RULE, FIX)
        assert off_npu(after) == []
        check_same(data, after)


def test_other_shapes_stay() -> None:
    net = Lite()
    pair = [net.input((1, 6, 1, 5)), net.input((1, 1, 7, 5))]
    data = net.finish(net.op("ADD", pair, SHAPE))
    assert misfit(data, FIX, "ADD:#0") == "no operand has the full shape"
    net = Lite()
    large = (1, 64, 64, 16)
    values = np.zeros((1, 64, 64, 1), np.int8)
    data = net.finish(net.op("ADD", [net.input(large), net.constant(values)], large))
    expected = "65536 elements do not fit an axis of the NPU"
    assert misfit(data, FIX, "ADD:#0") == expected
