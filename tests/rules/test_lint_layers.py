"""Lint rules on layers, shapes, kernels and pools: each with a network and its counterpart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.nets import MACHINES, Net, per_tensor
from npuscope.graph.attrs import (
    Activation,
    BinaryAttrs,
    ReduceAttrs,
    TransposeConvAttrs,
)
from npuscope.graph.model import DType, Graph, Numerics
from npuscope.rules.finding import Severity
from npuscope.rules.lint import lints
from rules.lint_case import IMAGE, Case, check, conv, image_net


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
        graph.notes.append("input 'x': the open batch size was set to 1")
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


CASES = [
    Case("LINT-RANK", "1x8x2x4x4", lambda: reshaped((1, 8, 2, 4, 4)), lambda: reshaped((1, 256))),
    Case("LINT-DIMENSION", "1x65536", lambda: long_input(65536), lambda: long_input(65535)),
    Case("LINT-BATCH", "2", lambda: batch(2), lambda: batch(1)),
    Case(
        "LINT-OPEN-BATCH",
        "1 open batch sizes",
        lambda: open_batch(True),
        lambda: open_batch(False),
    ),
    Case("LINT-UNUSED-INPUT", "no reader", lambda: two_inputs(False), lambda: two_inputs(True)),
    Case("LINT-STATE", "2 state inputs", lambda: recurrent(2), lambda: recurrent(1)),
    Case(
        "LINT-OE-FILE",
        "_OE_ in the file name",
        lambda: named("net_OE_3_2_0"),
        lambda: named("FOE_net"),
    ),
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
    Case("LINT-GROUPS", "2 groups", lambda: conv(groups=2), lambda: conv(channels=0)),
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
    Case("LINT-LARGE-KERNEL", "6144", lambda: conv(window=(7, 7)), lambda: conv(window=(5, 5))),
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


def found(rule: str, graph: Graph, generation: str = "4.0") -> list[tuple[str, dict[str, object]]]:
    findings = lints()[rule].findings(graph, MACHINES[generation])
    return [(fix.id, dict(fix.parameters)) for finding in findings for fix in finding.fixes]


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


def test_a_hang_is_told_for_its_generation_only() -> None:
    strided = {"channels": 0, "window": (1, 3), "strides": (1, 2)}
    graph = conv((1, 1, 40, 256), **strided)
    rules = {name: lints()["LINT-DEPTHWISE-STRIDE"] for name in MACHINES}
    counts = {name: len([*rules[name].findings(graph, MACHINES[name])]) for name in MACHINES}
    assert counts == {"2.2": 0, "3.0": 0, "4.0": 1, "open": 0}


def test_partial_sums_that_leave_the_chip_are_a_warning() -> None:
    stem = conv((1, 112, 112, 3), channels=64, window=(7, 7))
    rule = lints()["LINT-LARGE-KERNEL"]
    severities = [
        next(iter(rule.findings(graph, MACHINES["4.0"]))).severity
        for graph in (conv(window=(7, 7)), stem)
    ]
    assert severities == [Severity.INFO, Severity.WARNING]


def test_an_op_of_constants_is_folded_not_reported() -> None:
    net, x = image_net()
    constant = net.constant(net.weights(IMAGE), per_tensor(0.02, 0))
    mean = net.mean(constant, axes=(1,))
    y = net.reshape(mean, (1, 1, 8, 4))
    net.op("Add", (x, y), BinaryAttrs(), IMAGE, per_tensor(0.05, 0))
    assert found("LINT-MEAN-AXIS", net.graph()) == []
