"""Ranks, sizes, batches, inputs: lint rules, each with a network and its counterpart."""

from __future__ import annotations

import pytest

from compiler.nets import Net
from npuscope.graph.model import Graph, Numerics
from rulebook.lint_case import IMAGE, Case, check, conv, image_net


def reshaped(shape: tuple[int, ...]) -> Graph:
    net, x = image_net()
    net.reshape(x, shape)
    return net.graph()


def long_input(size: int) -> Graph:
    net, x = image_net((1, size))
    net.sigmoid(x)
    return net.graph()


def batch(count: int) -> Graph:
    net, x = image_net((count, 8, 8, 4))
    net.sigmoid(x)
    return net.graph()


def open_batch(is_open: bool) -> Graph:
    net = Net(numerics=Numerics.QDQ)
    net.conv(net.input(IMAGE), 8)
    graph = net.graph()
    if is_open:
        graph.notes.append("input 'x': the dynamic batch size was set to 1")
    return graph


def two_inputs(reads_both: bool) -> Graph:
    net = Net()
    x, y = net.input(IMAGE), net.input(IMAGE)
    net.add(x, y) if reads_both else net.sigmoid(x)
    return net.graph()


def recurrent(states: int) -> Graph:
    net = Net()
    names = [net.dense(net.input((1, 16)), 16) for _ in range(states)]
    return net.graph(*names)


def named(name: str) -> Graph:
    graph = conv()
    graph.name = name
    return graph


CASES = [
    Case("LINT-RANK", "1x8x2x4x4", lambda: reshaped((1, 8, 2, 4, 4)), lambda: reshaped((1, 256))),
    Case("LINT-DIMENSION", "1x65536", lambda: long_input(65536), lambda: long_input(65535)),
    Case("LINT-BATCH", "2", lambda: batch(2), lambda: batch(1)),
    Case(
        "LINT-OPEN-BATCH",
        "1 dynamic batch size",
        lambda: open_batch(True),
        lambda: open_batch(False),
    ),
    Case("LINT-UNUSED-INPUT", "no reader", lambda: two_inputs(False), lambda: two_inputs(True)),
    Case("LINT-STATE", "1 state input", lambda: recurrent(2), lambda: recurrent(1)),
    Case("LINT-STATE", "4 state inputs", lambda: recurrent(5), lambda: recurrent(1)),
    Case(
        "LINT-OE-FILE",
        "_OE_ in the file name",
        lambda: named("net_OE_3_2_0"),
        lambda: named("FOE_net"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)
