"""Float where the NPU has integers only: lint rules, each with a network and its counterpart."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import Net, per_tensor, uint8_network
from npuscope.graph.model import Attrs, DType, Graph, Op, Tensor
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.moves import SplitAttrs
from npuscope.ops.reduce import ReduceAttrs
from rulebook.lint_case import IMAGE, Case, check, conv, found_by, image_net


def float_conv(quantized_weights: bool = False) -> Graph:
    """A convolution of float activations; its weights may be integers."""
    net = Net()
    x = net.input(IMAGE, None)
    if quantized_weights:
        weights = net.constant(net.weights((8, 1, 1, 4)), per_tensor(0.01), "weights")
    else:
        weights = net.constant(np.ones((8, 1, 1, 4), np.float32), None, "weights")
    net.op("Conv2D", (x, weights), ConvAttrs(), (1, 8, 8, 8), None, DType.FLOAT32)
    return net.graph()


def island() -> Graph:
    net, x = image_net()
    x = net.dequantize(net.conv(x, 8))
    x = net.op("Mean", (x,), ReduceAttrs((1, 2), False), (1, 8), None, DType.FLOAT32)
    net.quantize(x, (0.05, 0))
    return net.graph()


def border(float_input: bool = False, float_output: bool = False) -> Graph:
    net = Net()
    x = net.input(IMAGE, None if float_input else (0.02, 0))
    x = net.conv(net.quantize(x, (0.02, 0)) if float_input else x, 8)
    if float_output:
        net.dequantize(x)
    return net.graph()


def identity(shape: tuple[int, ...] = IMAGE) -> Graph:
    net, x = image_net(shape)
    net.op("Sigmoid", (x,), Attrs(), shape, per_tensor(1 / 256, -128))
    return net.graph()


def split_of_bytes() -> Graph:
    """Of three parts the first is the network's output; nobody reads the others."""
    net = Net()
    x = net.input((1, 6, 9, 5), (0.02, 52), DType.UINT8)
    parts = tuple(f"part{number}" for number in range(3))
    for part in parts:
        net.built.add(Tensor(part, (1, 2, 9, 5), DType.UINT8, net.quant(x)))
    net.built.ops.append(
        Op("Split", "split", (x,), parts, SplitAttrs(1, (2, 2, 2)), ("Split:split",))
    )
    return net.graph(parts[0])


CASES = [
    Case("LINT-FLOAT-NETWORK", "0 of 1 layers quantized", float_conv, conv),
    Case("LINT-FLOAT-NETWORK", "0 of 1 layers quantized", float_conv, identity),
    Case("LINT-FLOAT-ISLAND", "Dequantize, Mean, Quantize", island, conv),
    Case("LINT-FLOAT-ISLAND", "Dequantize, Mean, Quantize", island, float_conv),
    Case("LINT-FLOAT-INPUT", "1x8x8x4", lambda: border(float_input=True), border),
    Case("LINT-FLOAT-OUTPUT", "1x8x8x8", lambda: border(float_output=True), island),
    Case(
        "LINT-HYBRID-QUANT",
        "weights int8, activations float32",
        lambda: float_conv(quantized_weights=True),
        float_conv,
    ),
    Case("LINT-UINT8", "1 uint8 tensor", uint8_network, conv),
    Case("LINT-UINT8", "2 uint8 tensors", split_of_bytes, conv),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)


def test_an_island_tells_what_it_costs() -> None:
    (found,) = found_by("LINT-FLOAT-ISLAND", island())
    assert found.evidence["epochs"] == 3
    assert found.evidence["bytes"] == 4 * (8 * 8 * 8 + 8)
    assert len(found.ops) == 3
