"""Small ONNX models that use odd corners of the format; each must compute what ONNX says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from models import OnnxWriter

CASES: dict[str, Callable[[], bytes]] = {}


def case(build: Callable[[np.random.Generator], bytes]) -> None:
    CASES[build.__name__] = lambda: build(np.random.default_rng(7))


def weights(writer: OnnxWriter, rng: np.random.Generator, *shape: int) -> str:
    return writer.dequantized_constant(rng.integers(-127, 128, shape).astype(np.int8), 0.011)


def finish(writer: OnnxWriter, y: str, *shape: int) -> bytes:
    writer.dequantize(writer.quantize(y, 0.053), 0.053, output="y")
    return writer.finish({"y": shape})


def image(writer: OnnxWriter, *shape: int) -> str:
    return writer.qdq(writer.input("x", shape or (1, 3, 5, 7)), 0.021, 2)


@case
def squeeze_and_excite(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    k = weights(w, rng, 4, 3, 3, 3)
    x = w.qdq(w.node("Conv", image(w), k, auto_pad="SAME_LOWER", strides=[2, 2]), 0.05)
    s = w.qdq(w.node("GlobalAveragePool", x), 0.02)
    s = w.qdq(w.node("Flatten", s), 0.02)
    s = w.qdq(w.node("Unsqueeze", s, w.constant([2, 3])), 0.02)
    s = w.qdq(w.node("Conv", s, weights(w, rng, 4, 4, 1, 1)), 0.02)
    s = w.qdq(w.node("Sigmoid", s), 1 / 256, -128)
    y = w.qdq(w.node("Mul", x, s), 0.03, 3)
    return finish(w, w.node("Add", y, x), 1, 4, 3, 4)


@case
def one_spatial_axis(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    bias = w.constant(rng.normal(size=8) * 0.1)
    x = image(w, 1, 5, 20)
    a = w.node("Conv", x, weights(w, rng, 8, 5, 3), bias, pads=[2, 1], dilations=[2])
    a = w.qdq(a, 0.05)
    b = w.node("Conv", a, weights(w, rng, 8, 1, 3), group=8, pads=[1, 1])
    b = w.qdq(w.node("Relu", b), 0.05, -128)
    y = w.qdq(w.node("Add", a, b), 0.08)
    y = w.qdq(w.node("MaxPool", y, kernel_shape=[2], strides=[2]), 0.08)
    y = w.node("AveragePool", y, kernel_shape=[3], pads=[1, 1], count_include_pad=1)
    y = w.qdq(w.node("Flatten", w.qdq(y, 0.08)), 0.08)
    return finish(w, w.node("MatMul", y, weights(w, rng, 72, 3)), 1, 3)


@case
def pools(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    x = image(w, 1, 3, 9, 9)
    a = w.node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    a = w.node("AveragePool", w.qdq(a, 0.02), kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    b = w.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    b = w.node("AveragePool", w.qdq(b, 0.021, 2), kernel_shape=[2, 2])
    y = w.node("Concat", w.qdq(a, 0.053), w.qdq(b, 0.053), axis=-3)
    return finish(w, y, 1, 6, 4, 4)


@case
def shape_chain(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    x = w.qdq(w.node("Conv", image(w), weights(w, rng, 4, 3, 3, 3)), 0.053)
    batch = w.node("Gather", w.node("Shape", x), w.constant(np.array(0)), axis=0)
    batch = w.node("Unsqueeze", batch, w.constant([0]))
    shape = w.node("Concat", batch, w.constant([-1]), axis=0)
    return finish(w, w.node("Reshape", x, shape), 1, 60)


@case
def constants_that_broadcast(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    y = w.qdq(w.node("Conv", image(w), weights(w, rng, 4, 3, 3, 3)), 0.05)
    y = w.qdq(w.node("Mul", y, weights(w, rng, 4, 1, 1)), 0.05)
    y = w.qdq(w.node("Add", weights(w, rng, 1, 4, 3, 1), y), 0.05)
    y = w.qdq(w.node("Sub", y, weights(w, rng, 5)), 0.05)
    mean = w.qdq(w.node("ReduceMean", y, axes=[0, 1], keepdims=0), 0.05)
    return finish(w, w.node("Add", y, mean), 1, 4, 3, 5)


@case
def attention(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    x = image(w, 1, 4, 6)
    turned = w.qdq(w.node("Transpose", x, perm=[0, 2, 1]), 0.021, 2)
    y = w.qdq(w.node("MatMul", x, turned), 0.05)
    y = w.qdq(w.node("Softmax", y, axis=-1), 1 / 256, -128)
    return finish(w, w.node("MatMul", y, x), 1, 4, 6)


@case
def batch_norm_pad_clip(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    parameters = [w.constant(rng.uniform(0.5, 1.5, 3)) for _ in range(4)]
    y = w.qdq(w.node("BatchNormalization", image(w), *parameters), 0.02)
    y = w.qdq(w.node("Pad", y, w.constant([0, 0, 1, 2, 0, 0, 0, 1])), 0.02)
    return finish(w, w.node("Clip", y, w.constant(-0.5), w.constant(0.75)), 1, 3, 6, 10)


@case
def matmul_with_a_bias_add(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    y = w.node("MatMul", image(w, 2, 3, 8), weights(w, rng, 8, 5))
    y = w.node("Add", w.constant(rng.normal(size=5)), y)
    return finish(w, w.node("Relu", y), 2, 3, 5)


@case
def weights_behind_a_transpose(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    scales = rng.uniform(0.005, 0.01, 5).astype(np.float32)
    k = w.dequantized_constant(rng.integers(-127, 128, (5, 8)).astype(np.int8), scales)
    return finish(w, w.node("MatMul", image(w, 1, 8), w.node("Transpose", k, perm=[1, 0])), 1, 5)


@case
def integer_inputs_and_outputs(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    x = w.dequantize(w.input("x", (1, 3, 5, 5), TensorProto.INT8), 0.02, 3)
    w.quantize(w.node("Conv", x, weights(w, rng, 4, 3, 3, 3)), 0.05, output="y")
    return w.finish({"y": (1, 4, 3, 3)}, TensorProto.INT8)


@case
def pads_of_integers(rng: np.random.Generator) -> bytes:
    """Between Q and DQ a Pad states its fill value as an integer; without one it is 0."""
    w = OnnxWriter()
    x = w.quantize(w.input("x", (1, 3, 5, 5)), 0.02, 7)
    pads = w.constant([0, 0, 1, 2, 0, 0, 1, 0])
    y = w.node("Pad", w.node("Pad", x, pads, w.constant(np.int8(25))), pads)
    z = w.node("Conv", w.dequantize(y, 0.02, 7), weights(w, rng, 4, 3, 3, 3))
    return finish(w, z, 1, 4, 7, 7)


@case
def qlinear(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()

    def scale(value: float) -> str:
        return w.constant(np.float32(value))

    def point(value: int) -> str:
        return w.constant(np.uint8(value))

    x = w.quantize(w.input("x", (1, 3, 6, 6)), 0.02, 2, "uint8")
    k = w.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8))
    k_scales = w.constant(rng.uniform(0.005, 0.01, 4).astype(np.float32))
    k_points = w.constant(np.zeros(4, np.int8))
    bias = w.constant(rng.integers(-300, 300, 4).astype(np.int32))
    a = (scale(0.03), point(100))
    y = w.node(
        "QLinearConv", x, scale(0.02), point(2), k, k_scales, k_points, *a, bias, pads=[1, 1, 1, 1]
    )
    b = (scale(0.06), point(110))
    z = w.node("com.microsoft.QLinearAdd", y, *a, y, *a, *b)
    c = (scale(0.05), point(120))
    z = w.node("com.microsoft.QLinearMul", z, *b, y, *a, *c)
    z = w.node("com.microsoft.QLinearGlobalAveragePool", z, *c, *a, channels_last=0)
    z = w.node("Reshape", z, w.constant([1, 4]))
    k = w.constant(rng.integers(0, 255, (4, 5)).astype(np.uint8))
    d = (scale(0.02), point(128))
    z = w.node("QLinearMatMul", z, *a, k, scale(0.01), point(128), *d)
    k = w.constant(rng.integers(-127, 128, (3, 5)).astype(np.int8))
    bias = w.constant(rng.integers(-300, 300, 3).astype(np.int32))
    zero = w.constant(np.int8(0))
    z = w.node("com.microsoft.QGemm", z, *d, k, scale(0.01), zero, bias, *d, transB=1)
    w.dequantize(z, 0.02, 128, "uint8", output="y")
    return w.finish({"y": (1, 3)})


@case
def integer_ops(rng: np.random.Generator) -> bytes:
    w = OnnxWriter()
    x = w.quantize(w.input("x", (1, 3, 6, 6)), 0.02, 2, "uint8")
    k = w.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8))
    y = w.node("ConvInteger", x, k, w.constant(np.uint8(2)))
    scales = w.constant(rng.uniform(0.0001, 0.0002, (1, 4, 1, 1)))
    y = w.node("Mul", w.node("Cast", y, to=TensorProto.FLOAT), scales)
    y = w.node("Relu", w.node("Add", y, w.constant(rng.normal(size=(1, 4, 1, 1)))))
    y = w.node("Flatten", w.qdq(y, 0.03, 0, "uint8"))
    y = w.quantize(y, 0.03, 0, "uint8")
    k = w.constant(rng.integers(-127, 128, (64, 5)).astype(np.int8))
    y = w.node("Cast", w.node("MatMulInteger", y, k), to=TensorProto.FLOAT)
    y = w.node("Mul", y, w.constant(np.float32(0.0003)))
    return finish(w, w.node("Add", y, w.constant(rng.normal(size=5))), 1, 5)


@case
def four_bit_weights(rng: np.random.Generator) -> bytes:
    w = OnnxWriter(21)
    k, points = w.int4(rng.integers(-8, 8, (4, 3, 3, 3))), w.int4(np.zeros(4))
    scales = w.constant(rng.uniform(0.05, 0.1, 4))
    k = w.node("DequantizeLinear", k, scales, points, axis=0)
    y = w.qdq(w.node("Conv", image(w), k), 0.05)
    y = w.qdq(w.node("Flatten", y), 0.05)
    k = w.int4(rng.integers(0, 16, (5, 60)), signed=False)
    point = w.int4(np.full((), 7), signed=False)
    k = w.node("DequantizeLinear", k, w.constant(np.float32(0.02)), point)
    return finish(w, w.node("Gemm", y, k, transB=1), 1, 5)
