"""Pools and means: lint rules, each with a network and its counterpart."""

from __future__ import annotations

import pytest

from compiler.nets import per_tensor
from npuscope.graph.model import DType, Graph
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.reduce import ReduceAttrs
from rulebook.lint_case import IMAGE, Case, check, found_by, image_net


def pool(
    kind: str,
    window: tuple[int, int],
    strides: tuple[int, int] | None = None,
    shape: tuple[int, ...] = (1, 24, 24, 4),
    pad: int = 0,
) -> Graph:
    net, x = image_net(shape)
    make = net.max_pool if kind == "MaxPool" else net.average_pool
    make(x, window, strides or window, (pad,) * 4)
    return net.graph()


def global_pool(size: tuple[int, int]) -> Graph:
    return pool("AveragePool", size, (1, 1), (1, *size, 4))


def mean(axes: tuple[int, ...], floats: bool = False) -> Graph:
    net, x = image_net()
    if floats:
        shape = tuple(size for axis, size in enumerate(IMAGE) if axis not in axes)
        x = net.dequantize(x)
        net.op("Mean", (x,), ReduceAttrs(axes, False), shape, None, DType.FLOAT32)
    else:
        net.mean(x, axes=axes)
    return net.graph()


def found(rule: str, graph: Graph, generation: str = "4.0") -> list[tuple[str, dict[str, object]]]:
    findings = found_by(rule, graph, generation)
    return [(fix.id, dict(fix.parameters)) for finding in findings for fix in finding.fixes]


CASES = [
    Case(
        "LINT-POOL-WINDOW",
        "5x5",
        lambda: pool("AveragePool", (5, 5)),
        lambda: pool("AveragePool", (3, 3)),
    ),
    Case("LINT-POOL-WINDOW", "50x11", lambda: global_pool((50, 11)), lambda: global_pool((7, 7))),
    Case(
        "LINT-POOL-WINDOW",
        "5x5",
        lambda: pool("MaxPool", (5, 5)),
        lambda: pool("MaxPool", (5, 5), (1, 1)),
    ),
    Case(
        "LINT-POOL-WINDOW",
        "7x7",
        lambda: pool("MaxPool", (7, 7)),
        lambda: pool("MaxPool", (4, 4)),
    ),
    Case(
        "LINT-POOL-PAD",
        "padding (1, 1, 1, 1)",
        lambda: pool("AveragePool", (3, 3), (2, 2), pad=1),
        lambda: pool("MaxPool", (3, 3), (2, 2), pad=1),
    ),
    Case("LINT-MEAN-AXIS", "axes (1,) of 4", lambda: mean((1,)), lambda: mean((1, 2))),
    Case("LINT-MEAN-AXIS", "axes (1,) of 4", lambda: mean((1,)), lambda: mean((1,), True)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)


def test_an_op_of_constants_is_folded_not_reported() -> None:
    net, x = image_net()
    constant = net.constant(net.weights(IMAGE), per_tensor(0.02, 0))
    mean = net.mean(constant, axes=(1,))
    y = net.reshape(mean, (1, 1, 8, 4))
    net.op("Add", (x, y), BinaryAttrs(), IMAGE, per_tensor(0.05, 0))
    assert found("LINT-MEAN-AXIS", net.graph()) == []
