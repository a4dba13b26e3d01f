"""pad-conv in both formats: channels of zeros, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import graph_of, misfit
from edits.channel_nets import total_ms
from edits.moves_case import GENERATIONS, Lite, Qdq, check_same, fixed, nodes, off_npu

RULE, FIX = "NA-PAD-CHANNEL", "pad-conv"
Pads = list[tuple[int, int]]
# Channels alone are padded as rows by the NPU, between two calls; with height or width, by one.
AS_ROWS, AT_ONCE = ["Transpose", "Transpose"], ["Pad"]


def lite(pads: Pads, zero: int = -3, value: int | None = None) -> bytes:
    net, shape = Lite(), (1, 6, 5, 7)
    x = net.input(shape, zero=zero)
    padded = tuple(n + sum(pair) for n, pair in zip(shape, pads, strict=True))
    inputs = [x, net.integers(*pads)]
    if value is not None:
        inputs.append(net.constant(np.array(value, np.int8), 0.05, zero_point=zero))
    kind = "PAD" if value is None else "PADV2"
    return net.finish(net.logistic(net.op(kind, inputs, padded, zero=zero), padded))


def qdq(pads: list[int], opset: int = 17, **attrs: object) -> bytes:
    """Behind a MaxPool without quantizers between, as exporters leave it."""
    net = Qdq(opset)
    x = net.writer.node("MaxPool", net.input((1, 7, 6, 5)), kernel_shape=[1, 1])
    y = net.writer.node("Pad", x, net.writer.constant(pads), name="Pad", **attrs)
    return net.finish(net.sigmoid(net.writer.qdq(y, 0.05, -3)))


@pytest.mark.parametrize(
    ("before", "calls"),
    [
        (lite([(0, 0), (0, 0), (0, 0), (0, 5)]), AS_ROWS),
        (lite([(0, 0), (0, 0), (0, 0), (2, 1)], zero=-128), AS_ROWS),
        (lite([(0, 0), (1, 2), (0, 1), (0, 5)]), AT_ONCE),
        (lite([(0, 0), (0, 0), (0, 0), (0, 5)], value=-3), AS_ROWS),
        (qdq([0, 0, 0, 0, 0, 5, 0, 0]), AS_ROWS),
        (qdq([0, 2, 1, 0, 0, 1, 2, 3]), AT_ONCE),
    ],
)
def test_the_npu_pads(before: bytes, calls: list[str]) -> None:
    for generation in GENERATIONS:
        assert off_npu(before, generation) == calls
        after = fixed(before, RULE, FIX, generation)
        assert off_npu(after, generation) == []
        assert total_ms(graph_of(after), generation) < total_ms(graph_of(before), generation)
        check_same(before, after)


def test_integers_between_integer_layers() -> None:
    """QOperator form: the Pad itself works on bytes, and fills with the zero point."""
    net = Qdq()
    writer = net.writer
    x = writer.quantize(writer.input("x", (1, 7, 6, 5)), 0.05)
    steps = [writer.constant(0.05), writer.constant(np.array(0, np.int8))]
    one = [writer.constant(0.1), writer.constant(np.array(0, np.int8))]
    ones = writer.constant(np.ones((7, 7, 1, 1), np.int8))
    y = writer.node("QLinearConv", x, *steps, ones, *one, *steps)
    pads = writer.constant([0, 0, 0, 0, 0, 5, 0, 0])
    y = writer.node("Pad", y, pads, steps[1], name="Pad")
    before = net.finish(net.sigmoid(writer.dequantize(y, 0.05)))
    after = fixed(before, RULE, FIX)
    assert off_npu(after) == []
    check_same(before, after)


def test_what_adds_more_than_channels_of_zeros_stays() -> None:
    data = lite([(0, 0), (0, 0), (0, 0), (0, 5)], value=40)
    assert misfit(data, FIX, "PADV2:#0") == "the new channels hold 2.15, not 0"
    data = lite([(0, 0), (1, 1), (0, 0), (0, 0)])
    assert misfit(data, FIX, "PAD:#0") == "the Pad adds no channels"
    data = qdq([0, 1, 1, 0, 0, 1, 1, 0], mode="reflect")
    assert misfit(data, FIX, "Pad:Pad") == "the Pad repeats values of the tensor"


def test_what_is_no_image_of_bytes_stays() -> None:
    net = Qdq()
    x = net.writer.input("x", (1, 7, 6, 5))
    y = net.writer.node("Pad", x, net.writer.constant([0, 0, 0, 0, 0, 5, 0, 0]), name="Pad")
    data = net.finish(net.sigmoid(net.writer.qdq(net.writer.node("Abs", y), 0.05, -3)))
    assert misfit(data, FIX, "Pad:Pad") == "'x' is not quantized"
    net = Qdq()
    y = net.op("Pad", net.input((1, 7)), net.writer.constant([0, 0, 0, 5]))
    data = net.finish(net.sigmoid(y))
    sentence = misfit(data, FIX, next(n for n in nodes(data) if n.startswith("Pad:")))
    assert sentence.endswith("is not an image (N, C, H, W)")
