"""Convolutions and kernels: lint rules, each with a network and its counterpart."""

from __future__ import annotations

import pytest

from compiler.nets import MACHINES, per_tensor
from npuscope.graph.model import Graph
from npuscope.ops.layers import TransposeConvAttrs
from npuscope.rulebook.finding import Severity
from npuscope.structs import replace
from rulebook.lint_case import Case, check, conv, found_by, image_net


def transposed(groups: int = 1) -> Graph:
    net, x = image_net()
    weights = net.constant(net.weights((4, 2, 2, 4 // groups)), per_tensor(0.01), "weights")
    attrs = TransposeConvAttrs((2, 2), groups=groups)
    net.op("TransposeConv", (x, weights), attrs, (1, 16, 16, 4), per_tensor(0.1, 0))
    return net.graph()


def bias_from_outside() -> Graph:
    graph = conv()
    graph.tensors["bias"] = replace(graph.tensor("bias"), data=None)
    graph.inputs = (*graph.inputs, "bias")
    return graph


def valid(shape: tuple[int, ...], window: tuple[int, int]) -> Graph:
    return conv(shape, window=window, pads=(0, 0, 0, 0))


CASES = [
    Case(
        "LINT-GROUPS", "2 groups", lambda: conv((1, 8, 8, 18), groups=2), lambda: conv(channels=0)
    ),
    Case("LINT-STRIDE", "stride 1x3", lambda: conv(strides=(1, 3)), lambda: conv(strides=(2, 2))),
    Case(
        "LINT-DEPTHWISE-STRIDE",
        "256 groups, stride 2",
        lambda: conv((1, 1, 40, 256), channels=0, window=(1, 3), strides=(1, 2)),
        lambda: conv((1, 8, 8, 256), channels=0, strides=(2, 2)),
    ),
    Case(
        "LINT-DEPTHWISE-STRIDE",
        "256 groups, stride 2",
        lambda: conv((1, 1, 40, 256), channels=0, window=(1, 3), strides=(1, 2)),
        lambda: conv((1, 1, 40, 128), channels=0, window=(1, 3), strides=(1, 2)),
    ),
    Case("LINT-TRANSPOSED-CONV", "1024 output elements", transposed, conv),
    Case(
        "LINT-TRANSPOSED-CONV",
        "1024 output elements (grouped: reported to crash the compiler)",
        lambda: transposed(2),
        conv,
    ),
    Case("LINT-BIAS-COMPUTED", "bias 'bias' is computed", bias_from_outside, conv),
    Case(
        "LINT-LARGE-KERNEL",
        "7x7 in 6 pieces, 6,144 bytes of sums in 2,883,584 of RAM",
        lambda: conv(window=(7, 7)),
        lambda: conv(window=(5, 5)),
    ),
    Case(
        "LINT-DILATED",
        "dilation 4x4",
        lambda: conv(dilations=(4, 4)),
        lambda: conv(window=(2, 2), dilations=(2, 2)),
    ),
    Case(
        "LINT-FULL-HEIGHT",
        "8x1",
        lambda: valid((1, 8, 16, 4), (8, 1)),
        lambda: valid((1, 8, 16, 4), (4, 1)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)


def test_a_hang_is_told_for_its_generation_only() -> None:
    strided = {"channels": 0, "window": (1, 3), "strides": (1, 2)}
    graph = conv((1, 1, 40, 256), **strided)
    counts = {name: len(found_by("LINT-DEPTHWISE-STRIDE", graph, name)) for name in MACHINES}
    assert counts == {"2.2": 0, "3.0": 0, "4.0": 1, "open": 0}


def test_partial_sums_that_leave_the_chip_are_a_warning() -> None:
    stem = conv((1, 112, 112, 3), channels=64, window=(7, 7))
    severities = [
        found_by("LINT-LARGE-KERNEL", graph)[0].severity for graph in (conv(window=(7, 7)), stem)
    ]
    assert severities == [Severity.INFO, Severity.WARNING]
