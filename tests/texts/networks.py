"""The networks that texts name: file name to a function that gives its bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edits.moves_case import Lite
from loadable import samples
from many_core.nets import EncoderShape, encoder
from models import (
    Net,
    OnnxWriter,
    TfliteWriter,
    conv_net,
    dense_net,
    mobilenet_like,
    to_onnx,
    to_tflite,
)
from models_tflite import VALID

IMAGE = (1, 8, 8, 4)
NETWORKS: dict[str, Callable[[], bytes]] = {
    "conv.tflite": lambda: to_tflite(conv_net(size=16, out=8)),
    "dense.tflite": lambda: to_tflite(dense_net()),
    "mobilenet.tflite": lambda: to_tflite(mobilenet_like()),
    "mobilenet.onnx": lambda: to_onnx(mobilenet_like()),
    "large_image.tflite": lambda: to_tflite(conv_net(size=1024, out=16)),
    "image_rel.bin": samples.image,
    "encoder.onnx": lambda: encoder(EncoderShape(hidden=64, sequence=16, feed_forward=128)),
    "text.tflite": lambda: b"not a network\n",
    "short.tflite": lambda: to_tflite(conv_net())[:500],
    "short.onnx": lambda: to_onnx(conv_net())[:500],
    "empty.onnx": bytes,
}


def network(maker: Callable[[], bytes]) -> Callable[[], bytes]:
    """A function `div_tflite` makes div.tflite."""
    name, _, form = maker.__name__.rpartition("_")
    NETWORKS[f"{name}.{form}"] = maker
    return maker


@network
def own_op_tflite() -> bytes:
    """An op of somebody's own behind a function."""
    w = TfliteWriter()
    x, y, z = (w.tensor(name, (1, 16), "int8", 0.1, 0) for name in ("x", "y", "z"))
    w.op("LOGISTIC", [x], [y])
    w.op("CUSTOM:Detect", [y], [z])
    return w.finish([x], [z])


def dangling(**changes: int) -> bytes:
    """A network whose second op reads or makes a tensor that the file does not have."""
    w = TfliteWriter()
    x, y, z = (w.tensor(name, (1, 16), "int8", 0.1, 0) for name in ("x", "y", "z"))
    w.op("LOGISTIC", [x], [y])
    w.op("LOGISTIC", [changes.get("reads", y)], [z])
    return w.finish([x], [changes.get("gives", z)])


NETWORKS["dangling_input.tflite"] = lambda: dangling(reads=7)
NETWORKS["dangling_output.tflite"] = lambda: dangling(gives=9)


def float_layer_behind_a_pair() -> bytes:
    """Scales at the input alone, as in a file of the vendor's front end; the layer is float."""
    w = OnnxWriter()
    scale, zero = w.constant(np.float32(0.5)), w.constant(np.int8(0))
    whole = w.node("QuantizeLinear", w.input("x", (1, 3, 4, 4)), scale, zero)
    real = w.node("DequantizeLinear", whole, scale, zero)
    w.node("Conv", real, w.constant(np.ones((4, 3, 1, 1), np.float32)), output="y")
    return w.finish({"y": (1, 4, 4, 4)})


NETWORKS["net_OE_3_3_0.onnx"] = float_layer_behind_a_pair
NETWORKS["half.onnx"] = float_layer_behind_a_pair


@network
def scores_tflite() -> bytes:
    """A softmax at the end."""
    net = Net((1, 16))
    net.dense(10)
    net.softmax()
    return to_tflite(net)


@network
def clean_tflite() -> bytes:
    net = Net((1, 32, 32, 3), input_scale=1 / 128, input_zero_point=0)
    net.conv(16, stride=2)
    net.conv(32, kernel=1)
    net.conv(0, depthwise=True)
    return to_tflite(net)


@network
def prime_channels_tflite() -> bytes:
    net = Net((1, 1, 1, 257), input_zero_point=0)
    net.conv(16, kernel=1)
    return to_tflite(net)


@network
def div_tflite() -> bytes:
    net = Lite()
    divisor = net.constant(np.arange(33, 37, dtype=np.int8), 0.05)
    return net.finish(net.op("DIV", [net.input(IMAGE), divisor], IMAGE))


@network
def leaky_tflite() -> bytes:
    """A leaky ReLU as an exporter wrote it: the larger of x and a multiple of x."""
    net = Lite()
    x = net.input(IMAGE)
    slopes = net.constant(np.array([10, 20, 30, 40], np.int8), 1 / 127)
    sides = net.op("MUL", [x, slopes], IMAGE, 0.04, 5), x
    same = [net.op("QUANTIZE", [side], IMAGE, 0.06, -20) for side in sides]
    return net.finish(net.op("MAXIMUM", same, IMAGE, 0.06, -20))


@network
def gather_tflite() -> bytes:
    net = Lite()
    places = net.integers(2, 0, 1)
    return net.finish(net.op("GATHER", [net.input(IMAGE), places], (1, 3, 8, 4), axis=1))


@network
def matmul_tflite() -> bytes:
    """Both operands of the product are computed."""
    net = Lite()
    x, y = net.input((1, 8, 16)), net.input((1, 16, 8), 0.03)
    return net.finish(net.op("BATCH_MATMUL", [x, y], (1, 8, 8), 0.5))


@network
def pool_tflite() -> bytes:
    net = Lite()
    x = net.input((1, 20, 20, 4))
    options = {"filterHeight": 9, "filterWidth": 9, "padding": VALID}
    return net.finish(net.op("AVERAGE_POOL_2D", [x], (1, 12, 12, 4), **options))


@network
def stride_tflite() -> bytes:
    return to_tflite(conv_net(size=64, out=8, kernel=5, stride=5))


@network
def one_scale_onnx() -> bytes:
    """Output channels of very different weights share one scale."""
    w = OnnxWriter()
    x = w.qdq(w.input("x", (1, 4, 8, 8)), 1 / 64)
    kernels = np.array([127, 60, 5, 2], np.int8).reshape(4, 1, 1, 1).repeat(4, axis=1)
    y = w.qdq(w.node("Conv", x, w.dequantized_constant(kernels, 0.01), name="conv"), 0.05)
    return w.finish({y: None})


@network
def prelu_onnx() -> bytes:
    """Slopes that stayed float between int8 layers."""
    w = OnnxWriter()
    x = w.qdq(w.input("x", (1, 4, 8, 8)), 1 / 64)
    weights = w.dequantized_constant(np.ones((4, 4, 1, 1), np.int8), 0.01)
    x = w.qdq(w.node("Conv", x, weights, name="conv"), 0.03)
    slopes = w.constant(np.full((4, 1, 1), 0.1, np.float32))
    y = w.qdq(w.node("PRelu", x, slopes, name="act"), 0.03)
    return w.finish({y: None})


@network
def float_onnx() -> bytes:
    w = OnnxWriter()
    kernel = w.constant(np.ones((4, 3, 3, 3), np.float32))
    y = w.node("Conv", w.input("x", (1, 3, 8, 8)), kernel, name="conv", output="y")
    return w.finish({y: None})


@network
def custom_tflite() -> bytes:
    writer = TfliteWriter()
    x, y = (writer.tensor(name, (1, 8), scale=0.1) for name in ("x", "y"))
    writer.op("CUSTOM:MyOp", [x], [y])
    return writer.finish([x], [y])


@network
def mean_axes_tflite() -> bytes:
    net = Lite()
    x = net.logistic(net.input(IMAGE), IMAGE)
    return net.finish(net.op("MEAN", [x, net.integers(1)], (1, 8, 4), 1 / 256, -128))


@network
def concat_axis_tflite() -> bytes:
    net = Lite()
    sides = [net.logistic(net.input(IMAGE, scale), IMAGE) for scale in (0.05, 0.03)]
    return net.finish(net.op("CONCATENATION", sides, (1, 16, 8, 4), 1 / 256, -128, axis=1))


@network
def slice_step_tflite() -> bytes:
    net = Lite()
    x = net.logistic(net.input(IMAGE), IMAGE)
    bounds = [net.integers(0, 0, 0, 0), net.integers(1, 8, 8, 4), net.integers(1, 3, 1, 1)]
    return net.finish(net.op("STRIDED_SLICE", [x, *bounds], (1, 3, 8, 4), 1 / 256, -128))


@network
def resize_tflite() -> bytes:
    net = Lite()
    x = net.logistic(net.input(IMAGE), IMAGE)
    sizes = net.integers(12, 12)
    return net.finish(net.op("RESIZE_BILINEAR", [x, sizes], (1, 12, 12, 4), 1 / 256, -128))


@network
def pad_channels_tflite() -> bytes:
    net = Lite()
    x = net.logistic(net.input(IMAGE), IMAGE)
    pads = net.integers([0, 0], [0, 0], [0, 0], [0, 3])
    return net.finish(net.op("PAD", [x, pads], (1, 8, 8, 7), 1 / 256, -128))


@network
def reduce_max_tflite() -> bytes:
    net = Lite()
    x = net.input(IMAGE)
    return net.finish(net.op("REDUCE_MAX", [x, net.integers(1, 2)], (1, 4)))


@network
def unequal_maximum_tflite() -> bytes:
    """LiteRT compares the bytes of a MAXIMUM, whatever their scales are."""
    net = Lite()
    x = net.input(IMAGE)
    product = net.op("MUL", [x, net.constant(np.array([40], np.int8), 1 / 127)], IMAGE, 0.04, 5)
    return net.finish(net.op("MAXIMUM", [product, x], IMAGE, 0.06, -20))


@network
def deep_tflite() -> bytes:
    """Layers enough for roundings to add up."""
    net = Net((1, 8, 8, 8), input_zero_point=0)
    for _ in range(6):
        net.conv(16, activation="none")
    return to_tflite(net)


@network
def balanced_tflite() -> bytes:
    """Weights that cancel in sum, so the shift for the sums is too small."""
    net = Lite()
    kernels = np.full((4, 3, 3, 8), 127, np.int8)
    kernels[..., ::2] = -127
    x = net.input((1, 12, 12, 8), 1 / 64, 0)
    constants = (
        net.constant(kernels, (0.01,) * 4),
        net.constant(np.zeros(4, np.int32), (0.01 / 64,) * 4),
    )
    return net.finish(net.op("CONV_2D", [x, *constants], (1, 10, 10, 4), 0.4, 0, padding=VALID))


@network
def float_tflite() -> bytes:
    writer = TfliteWriter()
    x, y = (writer.tensor(name, (1, size), "float32") for name, size in (("x", 8), ("y", 4)))
    weights = writer.constant("w", np.ones((4, 8), np.float32))
    writer.op("FULLY_CONNECTED", [x, weights], [y])
    return writer.finish([x], [y])


@network
def float_island_tflite() -> bytes:
    """One op that a quantizer left in float, between int8 ops."""
    net = Lite()
    x = net.logistic(net.input(IMAGE), IMAGE)
    float_x, float_y = (net.writer.tensor(name, IMAGE, "float32") for name in ("fx", "fy"))
    net.writer.op("DEQUANTIZE", [x], [float_x])
    net.writer.op("EXP", [float_x], [float_y])
    return net.finish(net.op("QUANTIZE", [float_y], IMAGE, 0.02, -128))
