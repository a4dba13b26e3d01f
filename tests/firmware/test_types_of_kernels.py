"""Every kind of op on every mix of types: C has numpy's bits, or there is no kernel."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from firmware.host_kernels import REAL, assert_same_bits, c_call, one_op, run_on_host
from firmware.seeded_values import BOTH, scale_of, seeded, tensor
from npuscope.errors import ModelError
from npuscope.graph.model import Attrs, DType, Graph, Numerics, Quant, Tensor
from npuscope.ops.elementwise import BinaryAttrs
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
from npuscope.ops.norms import L2NormAttrs, LayerNormAttrs, SoftmaxAttrs
from npuscope.ops.reduce import ArgAttrs, PoolAttrs, ReduceAttrs
from npuscope.ops.run import run
from npuscope.program.kernel_calls.model import NoKernel

_SHAPE = (2, 3, 5, 4)
_OWN: dict[str, Attrs] = {
    "Selu": SeluAttrs(),
    "Celu": CeluAttrs(0.6),
    "ThresholdedRelu": ThresholdAttrs(0.4),
    "Shrink": ShrinkAttrs(0.2, 0.6),
    "LeakyRelu": LeakyReluAttrs(0.3),
    "Elu": EluAttrs(),
    "HardSigmoid": HardSigmoidAttrs(),
    "Gelu": GeluAttrs(),
    "Clip": ClipAttrs(-0.5, 1.5),
}
_POOL = PoolAttrs((2, 2), (1, 1), (1, 0, 0, 1))
_REDUCTIONS = ("Mean", "ReduceSum", "ReduceProd", "ReduceL2", "ReduceMax", "ReduceMin")
_OF_ONE: dict[str, tuple[Attrs, tuple[int, ...]]] = {
    **{
        kind: (_OWN.get(kind, Attrs()), _SHAPE)
        for kind in (*REAL, "Clip", "Quantize", "Dequantize", "Cast", "Not")
    },
    **{kind: (ReduceAttrs((1, 2), True), (2, 1, 1, 4)) for kind in _REDUCTIONS},
    "ArgMax": (ArgAttrs(3), _SHAPE[:3]),
    "ArgMin": (ArgAttrs(1, True, True), (2, 1, 5, 4)),
    "Softmax": (SoftmaxAttrs(3), _SHAPE),
    "LogSoftmax": (SoftmaxAttrs(3), _SHAPE),
    "L2Normalization": (L2NormAttrs(3), _SHAPE),
    "LayerNorm": (LayerNormAttrs(3), _SHAPE),
    "MaxPool": (_POOL, _SHAPE),
    "AveragePool": (_POOL, _SHAPE),
}
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Min", "Max", "Pow", "SquaredDifference")
_COMPARISONS = ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")
_OF_TWO: dict[str, Attrs] = {
    **dict.fromkeys(_ARITHMETIC, BinaryAttrs()),
    **dict.fromkeys(("PRelu", "And", "Or", *_COMPARISONS), Attrs()),
}
_TYPES = [
    *(DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16),
    *(DType.UINT16, DType.INT32, DType.INT64),
]


def kinds_of_numbers() -> list[tuple[DType, bool]]:
    """Types without a scale, and integers with one."""
    return [(t, False) for t in _TYPES] + [(t, True) for t in _TYPES if not t.is_float]


def operand(name: str, shape: tuple[int, ...], number: tuple[DType, bool], seed: int) -> Tensor:
    dtype, scaled = number
    wide = Quant((0.001,), (0,)) if dtype.bits > 16 else None
    return tensor(name, shape, dtype, (scale_of(seed, dtype) or wide) if scaled else None)


def outcome(graph: Graph) -> str:
    """What became of it; bits that differ raise."""
    feeds = {
        name: seeded(place, graph.tensors[name].shape, graph.tensors[name].dtype)
        for place, name in enumerate(graph.inputs)
    }
    try:
        call = c_call(graph)
    except NoKernel:
        return "none"
    with np.errstate(all="ignore"):
        expected = run(graph, feeds)["y"]
    assert_same_bits(run_on_host(call, feeds)[0], expected)
    return "same"


@pytest.mark.parametrize("kind", _OF_ONE)
def test_one_operand(kind: str) -> None:
    attrs, made = _OF_ONE[kind]
    seen: Counter[str] = Counter()
    for numerics, source, target in itertools.product(BOTH, *[kinds_of_numbers()] * 2):
        x, y = operand("x", _SHAPE, source, 1), operand("y", made, target, 2)
        seen[outcome(one_op(kind, [x], [y], attrs, numerics))] += 1
    assert seen["same"] > 1


@pytest.mark.parametrize("kind", _OF_TWO)
def test_two_operands(kind: str) -> None:
    seen: Counter[str] = Counter()
    few = (DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32)
    numbers = [(dtype, scaled) for dtype, scaled in kinds_of_numbers() if dtype in few]
    for numerics, first, second, target in itertools.product(BOTH, *[numbers] * 3):
        a, b = operand("a", _SHAPE, first, 1), operand("b", (5, 4), second, 2)
        y = operand("y", _SHAPE, target, 3)
        seen[outcome(one_op(kind, [a, b], [y], _OF_TWO[kind], numerics))] += 1
    assert seen["same"] > 1


def test_numpy_refuses_what_has_no_meaning() -> None:
    """The sweep would say so if C computed what numpy cannot."""
    x, y = operand("x", _SHAPE, (DType.INT8, True), 1), operand("y", _SHAPE, (DType.INT8, True), 2)
    graph = one_op("Not", [x], [y], Attrs(), Numerics.QDQ)
    assert outcome(graph) == "none"
    with pytest.raises(ModelError):
        run(graph, {"x": seeded(0, _SHAPE, DType.INT8)})
