"""Channel counts and zero points: lint rules, each with a network and its counterpart."""

from __future__ import annotations

import pytest

from compiler.nets import Net
from npuscope.graph.model import Activation, DType, Graph
from rulebook.lint_case import Case, check, conv, found_by, image_net


def pointwise(inputs: int, outputs: int, size: int = 8, zero: int = 0) -> Graph:
    net = Net()
    net.conv(net.input((1, size, size, inputs), (0.02, zero)), outputs, (1, 1))
    return net.graph()


def first_layer(zero: int, dtype: DType = DType.INT8) -> Graph:
    net = Net()
    x = net.input((1, 16, 16, 3), (0.02, zero), dtype)
    if dtype is DType.UINT8:
        x = net.quantize(x, (0.02, zero - 128))
    net.conv(x, 16, strides=(2, 2), activation=Activation.RELU)
    return net.graph()


def second_layer(zero: int) -> Graph:
    net, x = image_net()
    net.conv(net.conv(x, 8, zero=zero), 16, strides=(2, 2))
    return net.graph()


def found(rule: str, graph: Graph, generation: str = "4.0") -> list[tuple[str, dict[str, object]]]:
    findings = found_by(rule, graph, generation)
    return [(fix.id, dict(fix.parameters)) for finding in findings for fix in finding.fixes]


CASES = [
    *(
        Case(
            "LINT-CHANNELS",
            f"64 -> {count} channels",
            lambda count=count: pointwise(64, count),
            lambda: pointwise(64, 64),
        )
        for count in (257, 58, 29)
    ),
    Case(
        "LINT-CHANNELS",
        "257 -> 64 channels",
        lambda: pointwise(257, 64),
        lambda: pointwise(256, 64),
    ),
    Case(
        "LINT-CHANNELS",
        "16 -> 17 channels",
        lambda: conv((1, 8, 8, 16), channels=17),
        lambda: conv((1, 8, 8, 16), channels=16),
    ),
    Case("LINT-WIDE-OUTPUT", "520", lambda: pointwise(8, 520), lambda: pointwise(8, 512)),
    Case("LINT-WIDE-OUTPUT", "520", lambda: pointwise(8, 520), lambda: pointwise(8, 520, size=1)),
    Case(
        "LINT-NARROW-POINTWISE",
        "3",
        lambda: pointwise(3, 32, 64),
        lambda: conv((1, 64, 64, 3), channels=32),
    ),
    Case("LINT-NARROW-POINTWISE", "3", lambda: pointwise(3, 32, 64), lambda: pointwise(8, 32, 64)),
    Case("LINT-ZERO-POINT", "zero point -1", lambda: first_layer(-1), lambda: first_layer(0)),
    Case(
        "LINT-ZERO-POINT",
        "zero point -1",
        lambda: first_layer(127, DType.UINT8),
        lambda: first_layer(0, DType.UINT8),
    ),
    Case("LINT-ZERO-POINT", "zero point -1", lambda: first_layer(-1), lambda: second_layer(5)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)


def test_channels_propose_good_counts() -> None:
    assert found("LINT-CHANNELS", pointwise(64, 257)) == [
        ("change-outputs", {"channels": 256}),
        ("split-outputs", {"parts": "240+17"}),
        ("pad-channels", {"channels": 257, "padded": 260, "side": "outputs"}),
    ]
    assert found("LINT-CHANNELS", pointwise(257, 64)) == [
        ("change-inputs", {"channels": 256}),
        ("pad-channels", {"channels": 257, "padded": 260, "side": "inputs"}),
    ]


def test_small_layers_do_not_matter() -> None:
    """A bad count on one percent of the work is not worth a word."""
    net, x = image_net((1, 32, 32, 64))
    x = net.conv(x, 64)
    net.conv(net.max_pool(net.max_pool(net.max_pool(x))), 29, (1, 1))
    assert found("LINT-CHANNELS", net.graph()) == []
