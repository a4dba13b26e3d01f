"""remove-transposes in both formats: pairs, pairs around element-wise ops, idle ones."""

from __future__ import annotations

import pytest

from edits.border_case import edited, misfit
from edits.moves_case import Lite, Qdq, check_same, findings, fixed, kinds, nodes

RULE, FIX = "LINT-CANCELLING-TRANSPOSES", "remove-transposes"
SHAPE, TURNED = (1, 5, 3, 4), (1, 4, 5, 3)
THERE, BACK = (0, 3, 1, 2), (0, 2, 3, 1)


def lite(between: int = 0) -> bytes:
    net = Lite()
    x = net.logistic(net.input(SHAPE), SHAPE)
    x = net.op("TRANSPOSE", [x, net.integers(*THERE)], TURNED, 1 / 256, -128)
    for _ in range(between):
        x = net.op("TANH", [x], TURNED, 1 / 128, 0)
    steps = (1 / 128, 0) if between else (1 / 256, -128)
    x = net.op("TRANSPOSE", [x, net.integers(*BACK)], SHAPE, *steps)
    return net.finish(net.logistic(x, SHAPE))


def qdq(between: int = 0) -> bytes:
    """(2, 0, 1) of three axes: no layout of an image."""
    net = Qdq()
    x = net.sigmoid(net.input((4, 5, 3)))
    x = net.op("Transpose", x, perm=[2, 0, 1], scale=1 / 256, zero=-128)
    for _ in range(between):
        x = net.op("Tanh", x, scale=1 / 128, zero=0)
    steps = {"scale": 1 / 128, "zero": 0} if between else {"scale": 1 / 256, "zero": -128}
    x = net.op("Transpose", x, perm=[1, 2, 0], **steps)
    return net.finish(net.sigmoid(x))


@pytest.mark.parametrize("between", [0, 1, 2])
def test_a_pair_goes_and_the_results_stay(between: int) -> None:
    before = lite(between=between)
    assert kinds(before).count("Transpose") == 2
    after = fixed(before, RULE, FIX)
    assert "Transpose" not in kinds(after)
    assert findings(after, RULE) == []
    check_same(before, after)


@pytest.mark.parametrize("between", [0, 1, 2])
def test_a_pair_goes_from_an_onnx_file(between: int) -> None:
    """Our reader sees through most of them; other compilers do not."""
    before = qdq(between=between)
    pair = [node for node in nodes(before) if node.startswith("Transpose:")]
    after = edited(before, FIX, *pair)
    assert len(pair) == 2
    assert not any(node.startswith("Transpose:") for node in nodes(after))
    count = sum(node.startswith("QuantizeLinear") for node in nodes(after))
    assert count == 3 + between, "quantizers that do nothing any more are gone"
    check_same(before, after)


def test_a_transpose_that_moves_nothing_goes() -> None:
    net = Lite()
    x = net.logistic(net.input(SHAPE), SHAPE)
    x = net.op("TRANSPOSE", [x, net.integers(0, 1, 2, 3)], SHAPE, 1 / 256, -128)
    before = net.finish(net.op("TANH", [x], SHAPE, 1 / 128, 0))
    after = fixed(before, RULE, FIX)
    assert "Transpose" not in kinds(after)
    check_same(before, after)


def test_the_first_one_stays_for_its_other_readers() -> None:
    net = Lite()
    x = net.logistic(net.input(SHAPE), SHAPE)
    swapped, order = (1, 3, 5, 4), net.integers(0, 2, 1, 3)
    turned = net.op("TRANSPOSE", [x, order], swapped, 1 / 256, -128)
    back = net.op("TRANSPOSE", [turned, order], SHAPE, 1 / 256, -128)
    outputs = (net.op("TANH", [turned], swapped, 1 / 128, 0), net.logistic(back, SHAPE))
    before = net.finish(*outputs)
    after = edited(before, FIX, "TRANSPOSE:#1", "TRANSPOSE:#2")
    assert kinds(after).count("Transpose") == 1
    check_same(before, after)


def test_an_output_keeps_its_name_and_an_input_cannot_be_one() -> None:
    net = Lite()
    x = net.op("TRANSPOSE", [net.input(SHAPE), net.integers(*THERE)], TURNED)
    data = net.finish(net.op("TRANSPOSE", [x, net.integers(*BACK)], SHAPE))
    sentence = misfit(data, FIX, "TRANSPOSE:#0", "TRANSPOSE:#1")
    assert sentence == "the output 't4' would be the same as 'input0'"


def test_others_stay() -> None:
    assert misfit(lite(), FIX, "TRANSPOSE:#1") == "the Transpose (0, 3, 1, 2) moves axes"
    net, cube = Lite(), (1, 4, 4, 4)
    x = net.logistic(net.input(cube), cube)
    for _ in range(2):
        x = net.op("TRANSPOSE", [x, net.integers(*THERE)], cube, 1 / 256, -128)
    expected = "the Transposes (0, 3, 1, 2) and (0, 3, 1, 2) do not undo each other"
    assert misfit(net.finish(x), FIX, "TRANSPOSE:#1", "TRANSPOSE:#2") == expected


def test_no_transpose_at_the_place() -> None:
    expected = "none of its ops is a TRANSPOSE of this file"
    assert misfit(lite(), FIX, "LOGISTIC:#0") == expected
    expected = "none of its ops is a Transpose of this file"
    assert misfit(qdq(), FIX, "Sigmoid:Sigmoid2") == expected


def test_what_stands_between_must_treat_all_elements_alike() -> None:
    net = Lite()
    x = net.logistic(net.input(SHAPE), SHAPE)
    x = net.op("TRANSPOSE", [x, net.integers(*THERE)], TURNED, 1 / 256, -128)
    x = net.op("SOFTMAX", [x], TURNED, 1 / 256, -128)
    x = net.op("TRANSPOSE", [x, net.integers(*BACK)], SHAPE, 1 / 256, -128)
    data = net.finish(net.logistic(x, SHAPE))
    assert findings(data, RULE) == []
    assert misfit(data, FIX, "TRANSPOSE:#1", "TRANSPOSE:#3") == "a SOFTMAX is between the two"
