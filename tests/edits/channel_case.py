"""The same small network as QDQ .onnx and as .tflite, for edits that are about channels.

Shapes are channel-last in both; weights are random, quantized per output channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from models_onnx import OnnxWriter
from models_tflite import NONE, RELU, SAME, TfliteWriter

SCALE = 0.05
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Data:
    """A tensor: its name or number in the file, its shape, its zero point."""

    id: Any
    shape: Shape
    zero_point: int

    @property
    def channels(self) -> int:
        return self.shape[-1]


@dataclass(frozen=True)
class Constants:
    """Of a layer: int8 weights (outputs, rows, columns, inputs of a group), scales, bias."""

    weights: np.ndarray
    scales: np.ndarray
    bias: np.ndarray

    @property
    def bias_scales(self) -> np.ndarray:
        return np.float32(SCALE) * self.scales


def constants(random: np.random.Generator, shape: Shape) -> Constants:
    """Scales such that results neither vanish nor saturate."""
    weights = random.integers(-127, 127, shape, np.int8, endpoint=True)
    spread = random.uniform(0.5, 1.5, shape[0]) / (60 * np.prod(shape[1:]) ** 0.5)
    bias = random.integers(-500, 500, shape[0]).astype(np.int32)
    return Constants(weights, spread.astype(np.float32), bias)


class Net(Protocol):
    """What both kinds of files can be made of."""

    def input(self, shape: Shape, zero_point: int = 3) -> Data: ...
    def conv(
        self,
        x: Data,
        outputs: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        zero_point: int = -128,
    ) -> Data: ...
    def dense(self, x: Data, outputs: int, zero_point: int = -5) -> Data: ...
    def add(self, a: Data, b: Data) -> Data: ...
    def multiply(self, x: Data, values: np.ndarray) -> Data: ...
    def pool(self, x: Data) -> Data: ...
    def mean(self, x: Data) -> Data: ...
    def sigmoid(self, x: Data) -> Data: ...
    def concat(self, *parts: Data) -> Data: ...
    def part(self, x: Data, first: int, last: int) -> Data: ...
    def shuffle(self, x: Data, groups: int) -> Data: ...
    def finish(self, *outputs: Data) -> bytes: ...


class QdqNet:
    """Every result goes through QuantizeLinear and DequantizeLinear."""

    def __init__(self, seed: int = 0) -> None:
        self.writer = OnnxWriter()
        self.random = np.random.default_rng(seed)

    def input(self, shape: Shape, zero_point: int = 3) -> Data:
        name = f"input{len(self.writer.inputs)}"
        turned = (shape[0], shape[-1], *shape[1:-1])
        made = self.writer.qdq(self.writer.input(name, turned), SCALE, zero_point)
        return Data(made, shape, zero_point)

    def op(self, kind: str, inputs: list[str], shape: Shape, zero: int, **attrs: Any) -> Data:
        made = self.writer.node(kind, *inputs, name=f"{kind}{len(self.writer.nodes)}", **attrs)
        return Data(self.writer.qdq(made, SCALE, zero), shape, zero)

    def conv(
        self,
        x: Data,
        outputs: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        zero_point: int = -128,
    ) -> Data:
        made = constants(self.random, (outputs, kernel, kernel, x.channels // groups))
        weights = made.weights.transpose(0, 3, 1, 2)
        shape = (x.shape[0], -(-x.shape[1] // stride), -(-x.shape[2] // stride), outputs)
        inputs = [x.id, *self.stored(weights, made)]
        pads = [kernel // 2 - (stride > 1 and x.shape[1] % 2 == 0)] * 2 + [kernel // 2] * 2
        pads = [max(pad, 0) for pad in pads]
        attrs = {"strides": [stride] * 2, "pads": pads, "group": groups}
        return self.op("Conv", inputs, shape, zero_point, **attrs)

    def stored(self, weights: np.ndarray, made: Constants) -> list[str]:
        writer = self.writer
        kernel = writer.dequantized_constant(weights, made.scales)
        return [kernel, writer.dequantized_constant(made.bias, made.bias_scales)]

    def dense(self, x: Data, outputs: int, zero_point: int = -5) -> Data:
        made = constants(self.random, (outputs, x.channels))
        inputs = [x.id, *self.stored(made.weights, made)]
        return self.op("Gemm", inputs, (1, outputs), zero_point, transB=1)

    def add(self, a: Data, b: Data) -> Data:
        return self.op("Add", [a.id, b.id], a.shape, 0)

    def multiply(self, x: Data, values: np.ndarray) -> Data:
        held = self.writer.dequantized_constant(values.reshape(-1, 1, 1), 1 / 64)
        return self.op("Mul", [x.id, held], x.shape, 0)

    def pool(self, x: Data) -> Data:
        shape = (1, x.shape[1] // 2, x.shape[2] // 2, x.channels)
        attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}
        return self.op("MaxPool", [x.id], shape, x.zero_point, **attrs)

    def mean(self, x: Data) -> Data:
        shape = (1, x.channels)
        return self.op("ReduceMean", [x.id], shape, x.zero_point, axes=[2, 3], keepdims=0)

    def sigmoid(self, x: Data) -> Data:
        return self.op("Sigmoid", [x.id], x.shape, -128)

    def concat(self, *parts: Data) -> Data:
        shape = (*parts[0].shape[:-1], sum(part.channels for part in parts))
        return self.op("Concat", [part.id for part in parts], shape, parts[0].zero_point, axis=1)

    def part(self, x: Data, first: int, last: int) -> Data:
        bounds = [self.writer.constant(np.array([n])) for n in (first, last, 1)]
        return self.op("Slice", [x.id, *bounds], (*x.shape[:-1], last - first), x.zero_point)

    def shuffle(self, x: Data, groups: int) -> Data:
        n, height, width, channels = x.shape
        turned = (n, channels, height, width)
        wide = self.writer.constant(np.array([n, groups, channels // groups, height, width]))
        y = self.op("Reshape", [x.id, wide], turned, x.zero_point)
        y = self.op("Transpose", [y.id], turned, x.zero_point, perm=[0, 2, 1, 3, 4])
        plain = self.writer.constant(np.array(turned))
        return self.op("Reshape", [y.id, plain], x.shape, x.zero_point)

    def function(self, kind: str, *inputs: Data, zero: int = 0) -> Data:
        """Any op that keeps the shape."""
        return self.op(kind, [x.id for x in inputs], inputs[0].shape, zero)

    def flat(self, x: Data, shape: Shape) -> Data:
        """Another shape for one row of channels."""
        turned = (shape[0], shape[-1], *shape[1:-1])
        held = self.writer.constant(np.array(turned))
        return self.op("Reshape", [x.id, held], shape, x.zero_point)

    def finish(self, *outputs: Data) -> bytes:
        return self.writer.finish({output.id: None for output in outputs})


class LiteNet:
    """int8 throughout."""

    def __init__(self, seed: int = 0) -> None:
        self.writer = TfliteWriter()
        self.random = np.random.default_rng(seed)
        self.inputs: list[int] = []

    def input(self, shape: Shape, zero_point: int = 3) -> Data:
        made = self._tensor(f"input{len(self.inputs)}", shape, zero_point)
        self.inputs.append(made.id)
        return made

    def _tensor(self, name: str, shape: Shape, zero: int) -> Data:
        return Data(self.writer.tensor(name, shape, scale=SCALE, zero_point=zero), shape, zero)

    def _op(self, kind: str, inputs: list[int], shape: Shape, zero: int, **options: Any) -> Data:
        made = self._tensor(f"t{len(self.writer.tensors)}", shape, zero)
        self.writer.op(kind, inputs, [made.id], **options)
        return made

    def _stored(self, weights: np.ndarray, made: Constants, axis: int = 0) -> list[int]:
        count = len(self.writer.tensors)
        scales, bias_scales = (tuple(v.astype(float)) for v in (made.scales, made.bias_scales))
        kernel = self.writer.constant(f"w{count}", weights, scale=scales, axis=axis)
        return [kernel, self.writer.constant(f"b{count}", made.bias, scale=bias_scales)]

    def conv(
        self,
        x: Data,
        outputs: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        zero_point: int = -128,
    ) -> Data:
        made = constants(self.random, (outputs, kernel, kernel, x.channels // groups))
        depthwise = groups == outputs == x.channels
        weights = made.weights.transpose(3, 1, 2, 0) if depthwise else made.weights
        inputs = [x.id, *self._stored(weights, made, 3 if depthwise else 0)]
        shape = (x.shape[0], -(-x.shape[1] // stride), -(-x.shape[2] // stride), outputs)
        kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        fused = RELU if zero_point == -128 else NONE
        options = {"strideH": stride, "strideW": stride, "padding": SAME}
        return self._op(kind, inputs, shape, zero_point, **options, fusedActivationFunction=fused)

    def dense(self, x: Data, outputs: int, zero_point: int = -5) -> Data:
        made = constants(self.random, (outputs, x.channels))
        inputs = [x.id, *self._stored(made.weights, made)]
        return self._op("FULLY_CONNECTED", inputs, (1, outputs), zero_point)

    def add(self, a: Data, b: Data) -> Data:
        return self._op("ADD", [a.id, b.id], a.shape, 0)

    def multiply(self, x: Data, values: np.ndarray) -> Data:
        name = f"factors{len(self.writer.tensors)}"
        held = self.writer.constant(name, values.reshape(1, 1, 1, -1), scale=1 / 64)
        return self._op("MUL", [x.id, held], x.shape, 0)

    def pool(self, x: Data) -> Data:
        shape = (1, x.shape[1] // 2, x.shape[2] // 2, x.channels)
        size = {"strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2, "padding": SAME}
        return self._op("MAX_POOL_2D", [x.id], shape, x.zero_point, **size)

    def mean(self, x: Data) -> Data:
        axes = self._numbers(1, 2)
        return self._op("MEAN", [x.id, axes], (1, x.channels), x.zero_point, keepDims=False)

    def sigmoid(self, x: Data) -> Data:
        made = self.writer.tensor("sigmoid", x.shape, scale=1 / 256, zero_point=-128)
        self.writer.op("LOGISTIC", [x.id], [made])
        return Data(made, x.shape, -128)

    def _numbers(self, *values: int) -> int:
        name = f"numbers{len(self.writer.tensors)}"
        return self.writer.constant(name, np.array(values, np.int32))

    def concat(self, *parts: Data) -> Data:
        """Quantized alike: the reference kernel asks for it."""
        shape = (*parts[0].shape[:-1], sum(part.channels for part in parts))
        ids = [part.id for part in parts]
        return self._op("CONCATENATION", ids, shape, parts[0].zero_point, axis=len(shape) - 1)

    def part(self, x: Data, first: int, last: int) -> Data:
        rank = len(x.shape)
        begin = self._numbers(*[0] * (rank - 1), first)
        end = self._numbers(*x.shape[:-1], last)
        steps = self._numbers(*[1] * rank)
        shape = (*x.shape[:-1], last - first)
        return self._op("STRIDED_SLICE", [x.id, begin, end, steps], shape, x.zero_point)

    def shuffle(self, x: Data, groups: int) -> Data:
        n, height, width, channels = x.shape
        wide = (n, height, width, groups, channels // groups)
        turned = (n, height, width, channels // groups, groups)
        y = self._op("RESHAPE", [x.id, self._numbers(*wide)], wide, x.zero_point)
        order = self._numbers(0, 1, 2, 4, 3)
        y = self._op("TRANSPOSE", [y.id, order], turned, x.zero_point)
        return self._op("RESHAPE", [y.id, self._numbers(*x.shape)], x.shape, x.zero_point)

    def finish(self, *outputs: Data) -> bytes:
        return self.writer.finish(self.inputs, [output.id for output in outputs])


FORMATS = (QdqNet, LiteNet)
