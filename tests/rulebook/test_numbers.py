"""Weights, their sums, and scales: lint rules, each with a network and its counterpart."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, per_tensor
from npuscope.graph.model import Activation, Graph, Quant
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.structs import replace
from rulebook.lint_case import IMAGE, Case, check, conv, image_net


def per_tensor_weights(narrow: int) -> Graph:
    """Weights with one scale; so many of eight channels are small."""
    graph = conv()
    tensor = graph.tensor("weights")
    assert tensor.data is not None
    data = tensor.data.copy()
    data[:narrow] = np.clip(data[:narrow], -3, 3)
    graph.tensors["weights"] = replace(tensor, data=data, quant=per_tensor(0.001))
    return graph


def weights_with_zero_point(zero: int) -> Graph:
    graph = conv()
    quant = Quant((0.001,), (zero,))
    graph.tensors["weights"] = replace(graph.tensor("weights"), quant=quant)
    return graph


def zero_channels(count: int) -> Graph:
    graph = conv()
    data = graph.tensor("weights").data
    assert data is not None
    data[:count] = 0
    return graph


def sums(balanced: bool) -> Graph:
    """Edge detectors, whose weights cancel; or averages. The output tells all sums apart."""
    net, x = image_net((1, 8, 8, 16))
    weights = np.full((8, 3, 3, 16), 100, np.int8)
    if balanced:
        weights[..., ::2] = -100
    net.conv(x, 8, weights=weights, quant=(2.0, 0))
    return net.graph()


def addition(out: float, fine: float = 0.05, activation: Activation = Activation.NONE) -> Graph:
    net = Net()
    x, y = net.input(IMAGE, (0.1, 0)), net.input(IMAGE, (fine, 0))
    net.op("Add", (x, y), BinaryAttrs(activation), IMAGE, per_tensor(out, 0))
    return net.graph()


def concat(fine: float, requantized: bool = False) -> Graph:
    net = Net()
    parts = [net.input(IMAGE, (0.1, 0)), net.input(IMAGE, (fine, 0))]
    if requantized:
        parts[1] = net.quantize(parts[1], (0.1, 0))
    net.concat((parts[0], parts[1]), (0.1, 0))
    return net.graph()


def joined(quant: tuple[float, int]) -> Graph:
    """Two inputs that a Concat joins, as a frame and the state of a streaming network."""
    net = Net()
    net.concat((net.input(IMAGE, quant), net.input(IMAGE, quant)), quant)
    return net.graph()


def output_scale(scale: float) -> Graph:
    return conv(quant=(scale, 0))


def inputs(*quants: tuple[float, int]) -> Graph:
    """One dense layer an input, added up."""
    net = Net()
    layers = [net.dense(net.input((1, 16), quant), 8, quant=(0.1, 0)) for quant in quants]
    for layer in layers[1:]:
        layers[0] = net.add(layers[0], layer)
    return net.graph()


CASES = [
    Case(
        "LINT-PER-TENSOR",
        "2 of 8 channels within 16 steps",
        lambda: per_tensor_weights(2),
        lambda: per_tensor_weights(1),
    ),
    Case("LINT-PER-TENSOR", "4 of 8 channels within 16 steps", lambda: per_tensor_weights(4), conv),
    Case(
        "LINT-ASYMMETRIC",
        "zero point 3",
        lambda: weights_with_zero_point(3),
        lambda: weights_with_zero_point(0),
    ),
    Case("LINT-DEAD-CHANNELS", "2 of 8 channels", lambda: zero_channels(2), conv),
    Case("LINT-SATURATING-SUM", "sums up to 354724", lambda: sums(True), lambda: sums(False)),
    Case(
        "LINT-ADD-SCALES",
        "0.1 and 0.05 -> 0.05",
        lambda: addition(0.05),
        lambda: addition(0.1),
    ),
    Case(
        "LINT-ADD-SCALES",
        "0.1 and 0.005 -> 0.1",
        lambda: addition(0.1, 0.005),
        lambda: addition(0.05, activation=Activation.RELU),
    ),
    Case("LINT-CONCAT-SCALES", "10.0", lambda: concat(0.01), lambda: concat(0.05)),
    Case("LINT-CONCAT-SCALES", "10.0", lambda: concat(0.01, True), lambda: concat(0.05, True)),
    Case(
        "LINT-DEGENERATE-SCALE",
        "scale 1e-09",
        lambda: output_scale(1e-9),
        lambda: output_scale(0.01),
    ),
    Case("LINT-DEGENERATE-SCALE", "scale 5e+04", lambda: output_scale(5e4), conv),
    Case(
        "LINT-CALIBRATION",
        "6.26 wide",
        lambda: inputs((0.024541926, 2)),
        lambda: inputs((1 / 128, 0)),
    ),
    Case(
        "LINT-CALIBRATION",
        "same scale and zero point",
        lambda: inputs((0.0137, 5), (0.0137, 5)),
        lambda: inputs((0.0137, 5), (0.0151, 3)),
    ),
    Case(
        "LINT-CALIBRATION",
        "same scale and zero point",
        lambda: inputs((0.0137, 5), (0.0137, 5)),
        lambda: joined((0.0137, 5)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(("balanced", "exact"), [(True, False), (False, True)])
def test_the_simulated_npu_saturates_where_the_rule_says(balanced: bool, exact: bool) -> None:
    from compiler.nets import compiled
    from npuscope.profiling.validate import validate

    graph = sums(balanced)
    (output,) = validate(compiled(graph), graph, MACHINES["4.0"]).outputs
    assert (output.max_lsb <= 1) is exact
