"""remove-reshapes in both formats: idle ones, pairs, and the first of two."""

from __future__ import annotations

import pytest

from edits.border_case import edited, misfit
from edits.moves_case import Lite, Qdq, check_same, findings, fixed, kinds, nodes

RULE, FIX = "LINT-DEAD-RESHAPE", "remove-reshapes"
SHAPE, FLAT = (1, 5, 3, 4), (1, 60)


def lite(*shapes: tuple[int, ...], between: bool = False) -> bytes:
    """Reshapes one after the other, or around functions."""
    net = Lite()
    x = net.logistic(net.input(SHAPE), SHAPE)
    for shape in shapes:
        x = net.op("RESHAPE", [x, net.integers(*shape)], shape, 1 / 256, -128, newShape=[*shape])
        x = net.logistic(x, shape) if between else x
    return net.finish(net.op("TANH", [x], shapes[-1], 1 / 128, 0))


def qdq(*shapes: tuple[int, ...], batch: int | str = 1, between: bool = False) -> bytes:
    net = Qdq()
    x = net.sigmoid(net.input((batch, 60)))  # type: ignore[arg-type]
    for shape in shapes:
        sizes = net.writer.constant([*shape])
        x = net.writer.node("Reshape", x, sizes, name=f"to{len(net.writer.nodes)}")
        x = net.sigmoid(net.writer.qdq(x, 1 / 256, -128)) if between else x
    x = net.writer.qdq(x, 1 / 256, -128)
    return net.finish(net.op("Tanh", x, scale=1 / 128, zero=0))


@pytest.mark.parametrize(
    ("before", "left"),
    [
        (lite(SHAPE), 0),
        (lite(FLAT, SHAPE), 0),
        (lite(FLAT, SHAPE, between=True), 0),
        (lite(FLAT, (1, 15, 4)), 1),
        (qdq((1, 15, 4), FLAT, between=True), 0),
    ],
)
def test_what_changes_nothing_goes(before: bytes, left: int) -> None:
    place = findings(before, RULE)
    after = fixed(before, RULE, FIX)
    assert len(place) == 1
    assert kinds(after).count("Reshape") == left
    assert findings(after, RULE) == []
    check_same(before, after)


@pytest.mark.parametrize(
    ("before", "left"),
    [(qdq(FLAT), 0), (qdq((1, 15, 4), FLAT), 0), (qdq((1, 15, 4), (1, 3, 20)), 1)],
)
def test_what_changes_nothing_goes_from_an_onnx_file(before: bytes, left: int) -> None:
    """Our reader sees through these; other compilers do not."""
    moves = [node for node in nodes(before) if node.startswith("Reshape:")]
    after = edited(before, FIX, *moves)
    assert sum(node.startswith("Reshape:") for node in nodes(after)) == left
    check_same(before, after)


def test_a_squeeze_and_its_opposite_count_as_reshapes() -> None:
    net = Qdq()
    x = net.sigmoid(net.input((1, 60)))
    axes = net.writer.constant([2])
    x = net.op("Unsqueeze", x, axes, scale=1 / 256, zero=-128)
    x = net.op("Squeeze", x, axes, scale=1 / 256, zero=-128)
    before = net.finish(net.sigmoid(x))
    moves = [node for node in nodes(before) if "queeze:" in node]
    after = edited(before, FIX, *moves)
    assert not [node for node in nodes(after) if "queeze:" in node]
    check_same(before, after)


def test_a_merged_reshape_needs_a_fixed_shape() -> None:
    data = qdq((-1, 15, 4), (-1, 3, 20), batch="N")
    moves = [node for node in nodes(data) if node.startswith("Reshape:")]
    expected = "the network's input has dynamic sizes: the shape of the result is not fixed"
    assert misfit(data, FIX, *moves) == expected


def test_others_stay() -> None:
    data = lite(FLAT, (1, 15, 4), between=True)
    expected = "the two turn (1, 5, 3, 4) into (1, 15, 4), and there are ops between them"
    assert misfit(data, FIX, "RESHAPE:#1", "RESHAPE:#3") == expected
    assert misfit(data, FIX, "RESHAPE:#1") == "the Reshape turns (1, 5, 3, 4) into (1, 60)"
    assert findings(data, RULE) == []


def test_a_tensor_between_with_other_readers_stays() -> None:
    net = Lite()
    x = net.logistic(net.input(SHAPE), SHAPE)
    x = net.op("RESHAPE", [x, net.integers(*FLAT)], FLAT, 1 / 256, -128, newShape=[*FLAT])
    x = net.op("TANH", [x], FLAT, 1 / 128, 0)
    y = net.op("RESHAPE", [x, net.integers(*SHAPE)], SHAPE, 1 / 128, 0, newShape=[*SHAPE])
    data = net.finish(x, net.logistic(y, SHAPE))
    assert findings(data, RULE) == []
    sentence = misfit(data, FIX, "RESHAPE:#1", "RESHAPE:#3")
    assert sentence == "'t4' between the two has other readers"
