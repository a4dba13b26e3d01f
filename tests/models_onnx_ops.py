"""Small ONNX models around one op each, as float networks and in QDQ form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import OnnxWriter

Build = Callable[[OnnxWriter, str, np.random.Generator], str]


@dataclass(frozen=True)
class OpCase:
    """`build` gets the writer and the op's input and returns its output.

    `scale` and `zero_point` are those of the quantized output; `all_integer` tells whether the
    QDQ form computes on integers only.
    """

    build: Build
    shape: tuple[int, ...] = (1, 3, 5, 7)
    scale: float = 0.023
    zero_point: int = -5
    opset: int = 17
    all_integer: bool = True


CASES: dict[str, OpCase] = {}
X_SCALE, X_ZERO = 0.021, 2  # of the input of a quantized model


def op_model(case: OpCase, quantized: bool) -> bytes:
    w = OnnxWriter(case.opset)
    rng = np.random.default_rng(11)
    x = w.input("x", case.shape)
    y = case.build(w, w.qdq(x, X_SCALE, X_ZERO) if quantized else x, rng)
    if quantized:
        y = w.quantize(y, case.scale, case.zero_point)
        w.dequantize(y, case.scale, case.zero_point, output="y")
    else:
        w.node("Identity", y, output="y")
    return w.finish({"y": None})


def simple(name: str, kind: str, **settings: Any) -> None:
    """One node without other inputs; keyword arguments of OpCase, the rest are attributes."""
    fields = OpCase.__dataclass_fields__
    case = {key: value for key, value in settings.items() if key in fields}
    attrs = {key: value for key, value in settings.items() if key not in fields}
    CASES[name] = OpCase(lambda w, x, rng: w.node(kind, x, **attrs), **case)


def case(**settings: Any) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        CASES[build.__name__] = OpCase(build, **settings)
        return build

    return add


def weights(w: OnnxWriter, rng: np.random.Generator, *shape: int, axis: int | None = None) -> str:
    data = rng.integers(-127, 128, shape).astype(np.int8)
    if axis is None:
        return w.dequantized_constant(data, 0.011)
    scales = (0.005 + 0.01 * rng.random(shape[axis])).astype(np.float32)
    return w.dequantized_constant(data, scales, axis=axis)


def positive(w: OnnxWriter, x: str, rng: np.random.Generator, kind: str) -> str:
    """For functions that have no value below zero: x * x first, quantized."""
    square = w.qdq(w.node("Mul", x, x), 0.05, -128)
    return w.node(kind, square)


for kind in ("Tanh", "Erf", "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Exp", "Sin", "Cos"):
    simple(kind, kind)
for kind in ("Sigmoid", "Softplus", "HardSwish"):
    simple(kind, kind)
for kind in ("Sqrt", "Log", "Reciprocal"):
    CASES[kind] = OpCase(lambda w, x, rng, kind=kind: positive(w, x, rng, kind))
simple("Mish", "Mish", opset=18)
simple("Gelu", "Gelu", opset=20)
simple("GeluByTanh", "Gelu", opset=20, approximate="tanh")
simple("LeakyRelu", "LeakyRelu", alpha=0.3)
simple("Elu", "Elu", alpha=0.7)
simple("Softsign", "Softsign", scale=1 / 128, opset=13)  # with opset 18 ONNX defines it by others
simple("Selu", "Selu", alpha=1.5, gamma=1.1)
simple("Selu without numbers", "Selu", opset=13)
simple("Celu", "Celu", alpha=0.6)
simple("ThresholdedRelu", "ThresholdedRelu", alpha=0.4)
simple("Shrink", "Shrink", lambd=0.6, bias=0.25)
simple("HardSigmoid", "HardSigmoid", alpha=0.3, beta=0.4, scale=1 / 256, zero_point=-128)
simple("Softmax", "Softmax", axis=1, scale=1 / 256, zero_point=-128)
simple("LogSoftmax", "LogSoftmax", axis=-1, scale=0.05, zero_point=127)
simple("GlobalMaxPool", "GlobalMaxPool", scale=0.021, zero_point=2)
simple("LpNormalization", "LpNormalization", axis=1, scale=1 / 128)
simple("DepthToSpaceDCR", "DepthToSpace", shape=(1, 18, 2, 5), blocksize=3)
simple("DepthToSpaceCRD", "DepthToSpace", shape=(1, 8, 3, 2), blocksize=2, mode="CRD")
simple("SpaceToDepth", "SpaceToDepth", shape=(1, 3, 6, 4), blocksize=2)
for kind in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2", "ReduceProd"):
    simple(f"{kind}HW", kind, shape=(1, 11, 3, 2), axes=[2, 3], keepdims=1, scale=0.05)
    simple(f"{kind}C", kind, axes=[-3], keepdims=0)
for kind in ("ReduceL1", "ReduceSumSquare"):
    simple(kind, kind, axes=[1, 3], keepdims=0, scale=0.2, zero_point=-128, all_integer=False)


@case(scale=0.2)
def reduce_sum(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("ReduceSum", x, w.constant([1, 3]), keepdims=0)


@case(scale=0.02, all_integer=True)
def prelu(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("PRelu", x, weights(w, rng, 3, 1, 1))


@case(all_integer=False)
def prelu_with_float_slopes(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("PRelu", x, w.constant(rng.normal(size=(3, 1, 1))))


def _two(kind: str) -> Build:
    def build(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
        other = w.qdq(w.node("Transpose", x, perm=[0, 1, 3, 2]), 0.037, 130, "uint8")
        return w.node(
            kind, w.qdq(x, 0.021, 2), w.qdq(w.node("Transpose", other, perm=[0, 1, 3, 2]), 0.037)
        )

    return build


for kind in ("Min", "Max", "Add", "Sub", "Mul"):
    CASES[f"{kind} of two"] = OpCase(_two(kind))


@case(scale=0.05)
def div_by_weights(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    divisor = rng.integers(20, 128, (3, 1, 1)).astype(np.int8)
    return w.node("Div", x, w.dequantized_constant(divisor, 0.02))


@case(scale=0.02)
def remainder_with_the_sign_of_x(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    divisor = rng.integers(-128, -20, (3, 1, 1)).astype(np.int8)
    return w.node("Mod", x, w.dequantized_constant(divisor, 0.013), fmod=1)


@case(all_integer=False)
def remainder_of_whole_numbers(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    whole = w.node("Cast", w.node("Mul", x, w.constant(np.float32(7))), to=6)
    rest = w.node("Mod", whole, w.constant(np.array([5, -3, 4], np.int32).reshape(3, 1, 1)))
    return w.node("Cast", rest, to=1)


@case()
def limits_by_min_and_max(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.node("Conv", x, weights(w, rng, 4, 3, 1, 1))
    y = w.node("Max", y, w.constant(np.float32(-0.7)))
    return w.node("Min", w.constant(np.float32([0.9])), y)


@case(all_integer=False)
def min_of_many(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Min", x, w.node("Neg", x), w.node("Abs", x), w.constant(np.float32(0.5)))


@case(all_integer=False, scale=0.05)
def sum_of_many(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Sum", x, w.node("Neg", x), w.node("Abs", x))


@case(scale=0.1)
def square(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Pow", x, w.constant(np.float32(2.0)))


@case(scale=0.1)
def cube(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Pow", x, w.constant(np.float32([3.0])))


@case(scale=0.05, all_integer=False)
def where(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    y = w.node("Conv", x, weights(w, rng, 3, 3, 1, 1))
    y = w.qdq(y, 0.05)
    big = w.node("Greater", x, w.constant(np.float32(0.2)))
    small = w.node("LessOrEqual", x, w.constant(rng.normal(size=(3, 1, 1))))
    chosen = w.node("And", w.node("Not", big), small)
    return w.node("Where", w.node("Or", chosen, big), x, y)


@case(all_integer=False)
def cast_of_a_mask(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    same = w.node("Equal", w.node("Round", x), w.constant(np.float32(1.0)))
    return w.node("Mul", w.node("Cast", same, to=1), x)


def _gemm(bias: tuple[int, ...], **attrs: float) -> Build:
    def build(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
        return w.node("Gemm", x, weights(w, rng, 7, 5), w.constant(rng.normal(size=bias)), **attrs)

    return build


for name, bias, attrs in (
    ("Gemm with beta", (5,), {"beta": 0.5}),
    ("Gemm with alpha and beta", (1, 5), {"alpha": 1.5, "beta": 2.0}),
):
    CASES[name] = OpCase(_gemm(bias, **attrs), shape=(3, 7))
for name, bias, attrs in (
    ("Gemm with a number", (1,), {"beta": 0.5}),
    ("Gemm with a column", (3, 1), {}),
    ("Gemm with a matrix", (3, 5), {"alpha": 0.5}),
    ("Gemm with a negative alpha", (5,), {"alpha": -0.5}),
):
    CASES[name] = OpCase(_gemm(bias, **attrs), shape=(3, 7), all_integer=False)


@case(shape=(4, 7), all_integer=False)
def gemm_of_two_activations(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("Gemm", x, x, w.constant(rng.normal(size=4)), transB=1, alpha=0.2, beta=0.3)


@case(shape=(5, 1, 6), scale=1 / 128)
def lstm(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    shapes = (1, 12, 6), (1, 12, 3), (1, 24)
    parts = [w.constant(rng.uniform(-0.5, 0.5, shape)) for shape in shapes]
    return w.node("LSTM", x, *parts, hidden_size=3)


@case(scale=0.05, shape=(1, 4, 6))
def layer_norm(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    parts = [w.constant(rng.normal(size=6)) for _ in range(2)]
    return w.node("Relu", w.node("LayerNormalization", x, *parts, axis=-1, epsilon=1e-3))


@case(scale=0.05, shape=(1, 4, 6))
def layer_norm_over_two_axes(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    return w.node("LayerNormalization", x, w.constant(rng.normal(size=(4, 6))), axis=1)


@case(scale=0.05)
def instance_norm(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    parts = [w.constant(rng.normal(size=3)) for _ in range(2)]
    return w.node("InstanceNormalization", x, *parts, epsilon=1e-3)


@case(scale=0.05, shape=(1, 6, 5, 3), opset=18)
def group_norm_per_group(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    parts = [w.constant(rng.normal(size=2)) for _ in range(2)]
    return w.node("GroupNormalization", x, *parts, num_groups=2)


@case(scale=0.05, shape=(1, 6, 5, 3), opset=21)
def group_norm_per_channel(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    parts = [w.constant(rng.normal(size=6)) for _ in range(2)]
    return w.node("GroupNormalization", x, *parts, num_groups=3)


@case(scale=0.05, shape=(1, 3, 4, 5, 2))
def batch_norm_of_five_axes(w: OnnxWriter, x: str, rng: np.random.Generator) -> str:
    parts = [w.constant(rng.uniform(0.5, 1.5, 3)) for _ in range(4)]
    return w.node("BatchNormalization", x, *parts)
