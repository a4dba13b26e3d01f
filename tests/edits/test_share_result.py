"""share-result in both formats."""

from __future__ import annotations

from edits.border_case import edited, misfit
from edits.moves_case import Lite, Qdq, check_same, findings, fixed, kinds, nodes

RULE, FIX = "LINT-DUPLICATE", "share-result"
SHAPE, TURNED = (1, 5, 3, 4), (1, 4, 5, 3)
NONE = "no two of its ops compute the same result in this file"


def lite(axes: tuple[int, ...] = (0, 3, 1, 2), outputs: bool = False) -> bytes:
    net = Lite()
    x = net.input(SHAPE)
    shape = tuple(SHAPE[axis] for axis in axes)
    one = net.op("TRANSPOSE", [x, net.integers(0, 3, 1, 2)], TURNED)
    two = net.op("TRANSPOSE", [x, net.integers(*axes)], shape)
    if outputs:
        return net.finish(one, two)
    return net.finish(net.logistic(one, TURNED), net.op("TANH", [two], shape, 1 / 128, 0))


def test_one_of_two_goes() -> None:
    before = lite()
    after = fixed(before, RULE, FIX)
    assert kinds(after).count("Transpose") == 1
    assert findings(after, RULE) == []
    check_same(before, after)


def test_other_attributes_and_two_outputs_are_no_place() -> None:
    ops = ("TRANSPOSE:#0", "TRANSPOSE:#1")
    assert misfit(lite((0, 2, 1, 3)), FIX, *ops) == NONE
    expected = "'t2' and 't4' are both outputs of the network"
    assert misfit(lite(outputs=True), FIX, *ops) == expected


def test_one_op_that_is_read_as_several_is_not_there_twice() -> None:
    net = Lite()
    row = net.op("MEAN", [net.input(SHAPE), net.integers(1, 2)], (1, 4))
    model = net.finish(net.op("PACK", [row, row], (2, 1, 4), values_count=2, axis=0))
    assert findings(model, RULE) == []
    assert misfit(model, FIX, "PACK:#1", "PACK:#1") == NONE


def test_quantizers_behind_the_two_are_shared_too() -> None:
    """Each reader got its own DequantizeLinear, op and QuantizeLinear."""
    net = Qdq()
    x = net.writer.quantize(net.writer.input("x", (1, 4, 5, 3)), 0.05, -3)
    ends = []
    for kind in ("Sigmoid", "Tanh"):
        y = net.op("Sigmoid", net.writer.dequantize(x, 0.05, -3), scale=1 / 256, zero=-128)
        ends.append(net.op(kind, y, scale=1 / 128, zero=0))
    before = net.finish(*ends)
    after = fixed(before, RULE, FIX)
    assert sum(node.startswith("QuantizeLinear") for node in nodes(after)) == 4
    assert kinds(after) == ["Sigmoid", "Sigmoid", "Tanh"]
    assert findings(after, RULE) == []
    check_same(before, after)


def test_an_output_keeps_its_name() -> None:
    net = Qdq()
    x = net.input((1, 4, 5, 3))
    one, two = (net.op("Sigmoid", x, scale=1 / 256, zero=-128) for _ in range(2))
    before = net.finish(net.op("Tanh", one, scale=1 / 128, zero=0), two)
    pair = [node for node in nodes(before) if node.startswith("Sigmoid:")]
    check_same(before, edited(before, FIX, *pair))


def test_different_nodes_are_no_place() -> None:
    net = Qdq()
    x = net.input((1, 4, 5, 3))
    one = net.op("LeakyRelu", x, alpha=0.1)
    data = net.finish(one, net.op("LeakyRelu", x, alpha=0.2))
    pair = [node for node in nodes(data) if node.startswith("LeakyRelu:")]
    assert misfit(data, FIX, *pair) == NONE
