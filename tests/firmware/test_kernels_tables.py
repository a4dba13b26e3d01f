"""Functions of one 8-bit value: C looks up what numpy computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from firmware.host_kernels import REAL, c_call, check, one_op
from firmware.seeded_values import BOTH, Case, scale_of, seeded, tensor
from npuscope.graph.model import Attrs, DType, Numerics
from npuscope.ops.functions import (
    CeluAttrs,
    ClipAttrs,
    EluAttrs,
    GeluAttrs,
    HardSigmoidAttrs,
    LeakyReluAttrs,
    SeluAttrs,
    ShrinkAttrs,
    ThresholdAttrs,
)
from npuscope.ops.reduce import ReduceAttrs

CASES: list[tuple[str, Callable[[], Case]]] = []

_ATTRS: dict[str, Attrs] = {
    "Selu": SeluAttrs(),
    "Celu": CeluAttrs(0.6),
    "ThresholdedRelu": ThresholdAttrs(0.4),
    "Shrink": ShrinkAttrs(0.2, 0.6),
    "LeakyRelu": LeakyReluAttrs(0.2),
    "Elu": EluAttrs(),
    "HardSigmoid": HardSigmoidAttrs(),
    "Gelu": GeluAttrs(),
    "Clip": ClipAttrs(-0.3, 6.0),
}


def looked_up(kind: str, source: DType, made: DType, numerics: Numerics) -> Case:
    shape = (1, 17, 19, 1)
    x = tensor("x", shape, source, scale_of(3, source))
    y = tensor("y", shape, made, scale_of(4, made))
    graph = one_op(kind, [x], [y], _ATTRS.get(kind, Attrs()), numerics)
    return graph, {"x": seeded(5, shape, source)}


for _numerics in BOTH:
    for _kind in (*REAL, "Clip", "Quantize"):
        CASES.append(
            (
                f"{_numerics.value}-{_kind}",
                lambda k=_kind, n=_numerics: looked_up(k, DType.INT8, DType.INT8, n),
            )
        )
_TYPES = [
    ("Quantize", DType.UINT8, DType.INT8, Numerics.LITERT),
    ("Quantize", DType.INT8, DType.INT16, Numerics.QDQ),
    ("Sigmoid", DType.UINT8, DType.UINT8, Numerics.QDQ),
    ("Sin", DType.UINT8, DType.INT16, Numerics.QDQ),
    ("Dequantize", DType.INT8, DType.FLOAT32, Numerics.QDQ),
    ("Dequantize", DType.UINT8, DType.FLOAT32, Numerics.LITERT),
    ("Tanh", DType.INT8, DType.FLOAT32, Numerics.QDQ),
]
for _row in _TYPES:
    CASES.append(
        ("-".join(str(getattr(v, "value", v)) for v in _row), lambda r=_row: looked_up(*r))
    )


@pytest.mark.parametrize("make", [make for _, make in CASES], ids=[name for name, _ in CASES])
def test_table_gives_the_same_bits(make: Callable[[], Case]) -> None:
    graph, feeds = make()
    assert c_call(graph).function == "npuscope_table"
    check(graph, feeds)


def test_a_reduction_that_keeps_the_shape_is_no_table() -> None:
    quant = scale_of(3, DType.INT8)
    x, y = (tensor(name, (5, 1), DType.INT8, quant) for name in "xy")
    graph = one_op("ReduceProd", [x], [y], ReduceAttrs((1,), True), Numerics.QDQ)
    assert c_call(graph).function == "npuscope_reduce_prod"
    check(graph, {"x": seeded(1, (5, 1), DType.INT8)})


def test_a_table_may_be_empty_work() -> None:
    quant = scale_of(3, DType.INT8)
    x, y = (tensor(name, (0, 3), DType.INT8, quant) for name in "xy")
    graph = one_op("Sigmoid", [x], [y], Attrs(), Numerics.QDQ)
    check(graph, {"x": np.zeros((0, 3), np.int8)})
