"""The IR version of a file is lowered where its content allows it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edits.border_case import edited, misfit, outside
from models import OnnxWriter


def net(ir: int = 10, opset: int = 17, four_bits: bool = False) -> bytes:
    writer = OnnxWriter(opset)
    y = writer.node("Relu", writer.input("x", (1, 8)))
    if four_bits:
        weights = writer.int4(np.ones((8, 8), np.int8))
        real = writer.node("DequantizeLinear", weights, writer.constant(0.1))
        y = writer.node("MatMul", y, real)
    proto = writer.proto({y: (1, 8)})
    proto.ir_version = ir
    return bytes(proto.SerializeToString())


def test_the_version_is_9() -> None:
    data = edited(net(), "older-ir")
    assert onnx.load_from_string(data).ir_version == 9
    onnx.checker.check_model(onnx.load_from_string(data))
    (old,), (new,) = outside(net()).values(), outside(data).values()
    assert np.array_equal(old, new)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (net(ir=8), "the IR version is already 8"),
        (net(opset=21), "opset 21 needs a newer IR version"),
        (
            net(opset=21, four_bits=True),
            "constants have a type that IR version 9 does not know",
        ),
    ],
)
def test_where_it_cannot_be_done(data: bytes, sentence: str) -> None:
    assert misfit(data, "older-ir") == sentence
