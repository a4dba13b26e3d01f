"""Small networks made in code, for every test that needs a model.

`mobilenet_like` gives the same int8 network as .tflite and as QDQ .onnx. The writers underneath
(TfliteWriter, OnnxWriter) build anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from models_onnx import OnnxWriter
from models_tflite import NONE, RELU, RELU6, SAME, TfliteWriter, pack_int4

__all__ = [
    "Layer",
    "Net",
    "OnnxWriter",
    "TfliteWriter",
    "conv_net",
    "dense_net",
    "mobilenet_like",
    "pack_int4",
    "save",
    "to_onnx",
    "to_tflite",
]

_ACTIVATIONS = {"none": NONE, "relu": RELU, "relu6": RELU6}
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """One int8 layer of a Net. `inputs` are layer numbers, -1 is the network's input.

    Weights are (O, kh, kw, I / groups), shapes channel-last.
    """

    kind: str  # conv, depthwise, add, mean, dense, softmax
    inputs: tuple[int, ...]
    shape: Shape
    scale: float
    zero_point: int
    weights: np.ndarray | None = None
    weight_scales: tuple[float, ...] = ()
    bias: np.ndarray | None = None
    stride: int = 1
    activation: str = "none"


@dataclass
class Net:
    """A network as a list of layers; the last one is the output."""

    input_shape: Shape
    input_scale: float = 1 / 64
    input_zero_point: int = -3
    seed: int = 0
    layers: list[Layer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def shape(self, index: int) -> Shape:
        return self.input_shape if index < 0 else self.layers[index].shape

    def quant(self, index: int) -> tuple[float, int]:
        if index < 0:
            return self.input_scale, self.input_zero_point
        return self.layers[index].scale, self.layers[index].zero_point

    def conv(
        self,
        out: int,
        kernel: int = 3,
        stride: int = 1,
        activation: str = "relu6",
        depthwise: bool = False,
        source: int | None = None,
    ) -> int:
        """A SAME-padded convolution behind `source` (the last layer); returns its number."""
        source = len(self.layers) - 1 if source is None else source
        n, height, width, channels = self.shape(source)
        per_group = 1 if depthwise else channels
        out = channels if depthwise else out
        shape = (n, -(-height // stride), -(-width // stride), out)
        weights = self.rng.integers(-127, 128, (out, kernel, kernel, per_group)).astype(np.int8)
        kind = "depthwise" if depthwise else "conv"
        return self._weighted(kind, source, shape, weights, activation, stride)

    def dense(self, out: int, activation: str = "none") -> int:
        source = len(self.layers) - 1
        n, channels = self.shape(source)
        weights = self.rng.integers(-127, 128, (out, channels)).astype(np.int8)
        return self._weighted("dense", source, (n, out), weights, activation, 1)

    def _weighted(
        self,
        kind: str,
        source: int,
        shape: Shape,
        weights: np.ndarray,
        activation: str,
        stride: int,
    ) -> int:
        """Scales such that outputs of random inputs fill the int8 range without saturating."""
        out, inner = weights.shape[0], weights[0].size
        count = 1 if kind == "dense" else out
        spread = self.rng.uniform(0.5, 1.5, count) / (73 * inner**0.5)
        scales = tuple(np.float32(spread).astype(float).tolist())
        bias = self.rng.integers(-2000, 2000, out).astype(np.int32)
        zero_point = -128 if activation.startswith("relu") else int(self.rng.integers(-9, 9))
        scale = float(np.float32(self.rng.uniform(0.015, 0.025)))
        return self._add(
            Layer(
                kind, (source,), shape, scale, zero_point, weights, scales, bias, stride, activation
            )
        )

    def add(self, a: int, b: int, activation: str = "none") -> int:
        scale = float(np.float32(self.rng.uniform(0.02, 0.04)))
        return self._add(Layer("add", (a, b), self.shape(a), scale, 5, activation=activation))

    def mean(self) -> int:
        source = len(self.layers) - 1
        n, _, _, channels = self.shape(source)
        return self._add(Layer("mean", (source,), (n, channels), *self.quant(source)))

    def softmax(self) -> int:
        source = len(self.layers) - 1
        return self._add(Layer("softmax", (source,), self.shape(source), 1 / 256, -128))

    def _add(self, layer: Layer) -> int:
        self.layers.append(layer)
        return len(self.layers) - 1


def _bias_scales(net: Net, layer: Layer) -> tuple[float, ...]:
    x_scale = net.quant(layer.inputs[0])[0]
    return tuple(float(np.float32(x_scale) * np.float32(s)) for s in layer.weight_scales)


def to_tflite(net: Net) -> bytes:
    writer = TfliteWriter()
    scale, zero_point = net.input_scale, net.input_zero_point
    index = {-1: writer.tensor("input", net.input_shape, scale=scale, zero_point=zero_point)}
    for number, layer in enumerate(net.layers):
        last = number == len(net.layers) - 1
        output = writer.tensor(
            "output" if last else f"layer{number}",
            layer.shape,
            scale=layer.scale,
            zero_point=layer.zero_point,
        )
        inputs = [index[source] for source in layer.inputs]
        _tflite_layer(writer, net, layer, inputs, output)
        index[number] = output
    return writer.finish([index[-1]], [index[len(net.layers) - 1]])


def _tflite_layer(
    writer: TfliteWriter, net: Net, layer: Layer, inputs: list[int], output: int
) -> None:
    fused = {"fusedActivationFunction": _ACTIVATIONS[layer.activation]}
    if layer.weights is not None and layer.bias is not None:
        turned = layer.weights.transpose(3, 1, 2, 0) if layer.kind == "depthwise" else layer.weights
        axis = 3 if layer.kind == "depthwise" else 0
        inputs.append(writer.constant("w", turned, scale=layer.weight_scales, axis=axis))
        inputs.append(writer.constant("b", layer.bias, scale=_bias_scales(net, layer)))
    if layer.kind in ("conv", "depthwise"):
        kind = "CONV_2D" if layer.kind == "conv" else "DEPTHWISE_CONV_2D"
        strides = {"strideH": layer.stride, "strideW": layer.stride, "padding": SAME}
        writer.op(kind, inputs, [output], **strides, **fused)
    elif layer.kind == "mean":
        axes = writer.constant("axes", np.array([1, 2], np.int32))
        writer.op("MEAN", [*inputs, axes], [output], keepDims=False)
    elif layer.kind == "softmax":
        writer.op("SOFTMAX", inputs, [output])
    else:
        kind = {"dense": "FULLY_CONNECTED", "add": "ADD"}[layer.kind]
        writer.op(kind, inputs, [output], **fused)


def to_onnx(net: Net, opset: int = 17, channel_last_input: bool = False) -> bytes:
    """QDQ form with float NCHW input and float output; or, like tf2onnx, an NHWC input."""
    writer = OnnxWriter(opset)
    shape = net.input_shape
    if len(shape) == 4 and not channel_last_input:
        shape = (shape[0], shape[3], shape[1], shape[2])
    x = writer.qdq(writer.input("input", shape), net.input_scale, net.input_zero_point)
    if channel_last_input:
        x = writer.node("Transpose", x, perm=[0, 3, 1, 2])
        x = writer.qdq(x, net.input_scale, net.input_zero_point)
    real = {-1: x}
    for number, layer in enumerate(net.layers):
        y = _onnx_layer(writer, net, layer, [real[source] for source in layer.inputs])
        if layer.activation == "relu":
            y = writer.node("Relu", y)
        elif layer.activation == "relu6":
            y = writer.node("Clip", y, writer.constant(0.0), writer.constant(6.0))
        y = writer.quantize(y, layer.scale, layer.zero_point)
        last = "output" if number == len(net.layers) - 1 else ""
        real[number] = writer.dequantize(y, layer.scale, layer.zero_point, output=last)
    return writer.finish({"output": net.layers[-1].shape})


def _onnx_layer(writer: OnnxWriter, net: Net, layer: Layer, inputs: list[str]) -> str:
    if layer.weights is None or layer.bias is None:
        return _onnx_plain(writer, layer, inputs)
    scales = np.array(layer.weight_scales, np.float32)
    bias_scales = np.array(_bias_scales(net, layer), np.float32)
    if len(scales) == 1:
        scales, bias_scales = scales.reshape(()), bias_scales.reshape(())
    bias = writer.dequantized_constant(layer.bias, bias_scales)
    if layer.kind == "dense":
        weights = writer.dequantized_constant(layer.weights, scales)
        return writer.node("Gemm", *inputs, weights, bias, transB=1)
    weights = writer.dequantized_constant(layer.weights.transpose(0, 3, 1, 2), scales)
    _, height, width, channels = net.shape(layer.inputs[0])
    kernel = layer.weights.shape[1]
    pads = [_same(size, kernel, layer.stride) for size in (height, width)]
    return writer.node(
        "Conv",
        *inputs,
        weights,
        bias,
        strides=[layer.stride] * 2,
        group=channels if layer.kind == "depthwise" else 1,
        pads=[pads[0][0], pads[1][0], pads[0][1], pads[1][1]],
        kernel_shape=[kernel, kernel],
    )


def _onnx_plain(writer: OnnxWriter, layer: Layer, inputs: list[str]) -> str:
    if layer.kind == "mean":
        if writer.opset < 18:
            return writer.node("ReduceMean", *inputs, axes=[2, 3], keepdims=0)
        return writer.node("ReduceMean", *inputs, writer.constant([2, 3]), keepdims=0)
    if layer.kind == "softmax":
        return writer.node("Softmax", *inputs, axis=-1 if writer.opset >= 13 else 1)
    return writer.node("Add", *inputs)


def _same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def mobilenet_like(
    seed: int = 0, size: int = 12, channels: int = 3, width: int = 8, classes: int = 5
) -> Net:
    """Stem, an inverted residual block with its Add, a strided block, mean, dense, softmax."""
    net = Net((1, size, size, channels), seed=seed)
    stem = net.conv(width, stride=2)
    net.conv(2 * width, kernel=1)
    net.conv(0, depthwise=True)
    narrow = net.conv(width, kernel=1, activation="none")
    net.add(stem, narrow)
    net.conv(2 * width, kernel=1, activation="relu")
    net.conv(0, stride=2, depthwise=True)
    net.conv(3 * width, kernel=1)
    net.mean()
    net.dense(classes)
    net.softmax()
    return net


def conv_net(
    size: int = 8,
    channels: int = 3,
    out: int = 4,
    kernel: int = 3,
    stride: int = 1,
    activation: str = "relu",
    depthwise: bool = False,
    seed: int = 0,
) -> Net:
    """One convolution."""
    net = Net((1, size, size, channels), seed=seed)
    net.conv(out, kernel, stride, activation, depthwise)
    return net


def dense_net(features: int = 16, outputs: tuple[int, ...] = (8, 4), seed: int = 0) -> Net:
    """Fully connected layers with relu between them."""
    net = Net((1, features), seed=seed)
    for place, count in enumerate(outputs):
        net.dense(count, "relu" if place < len(outputs) - 1 else "none")
    return net


def save(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path
