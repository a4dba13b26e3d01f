"""Networks for the many-core machine: an encoder, convolutions, a product that waits for DDR.

Each is written as ONNX in code; `graph_of` reads the bytes as the compiler gets them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import mobilenet_like, to_onnx
from models_onnx import OnnxWriter
from npuscope.files.onnx.reader import read_onnx
from npuscope.files.sizes import Pins
from npuscope.graph.model import Graph


@dataclass(frozen=True, slots=True)
class EncoderShape:
    """Sizes of a BERT-like encoder. `base` has those of the profiled network."""

    layers: int = 1
    hidden: int = 128
    heads: int = 4
    sequence: int = 32
    feed_forward: int = 256
    batch: int = 1

    @property
    def per_head(self) -> int:
        return self.hidden // self.heads


def bert_base(layers: int = 1) -> EncoderShape:
    return EncoderShape(layers, hidden=768, heads=12, sequence=128, feed_forward=3072)


def graph_of(data: bytes, name: str = "net") -> Graph:
    return read_onnx(data, Path(f"{name}.onnx"), Pins(None))


def save(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def encoder(shape: EncoderShape | None = None, seed: int = 0) -> bytes:
    """Attention and feed-forward layers in float, GELU with erf, an additive mask."""
    writer = _EncoderWriter(shape or EncoderShape(), seed)
    return writer.write()


class _EncoderWriter(OnnxWriter):
    def __init__(self, shape: EncoderShape, seed: int) -> None:
        super().__init__()
        self.shape = shape
        self.random = np.random.default_rng(seed)

    def write(self) -> bytes:
        shape = self.shape
        tokens = (shape.batch, shape.sequence, shape.hidden)
        value = self.input("tokens", tokens)
        mask = self.input("mask", (shape.batch, 1, 1, shape.sequence))
        for layer in range(shape.layers):
            value = self._layer(value, mask, "out" if layer == shape.layers - 1 else "")
        return self.finish({"out": tokens})

    def _layer(self, x: str, mask: str, output: str) -> str:
        hidden, wide = self.shape.hidden, self.shape.feed_forward
        joined = self.node("Add", self._dense(self._attention(x, mask), hidden, hidden), x)
        y = self._norm(joined)
        inner = self._gelu(self._dense(y, hidden, wide))
        return self._norm(self.node("Add", self._dense(inner, wide, hidden), y), output)

    def _attention(self, x: str, mask: str) -> str:
        hidden = self.shape.hidden
        query = self._heads(self._dense(x, hidden, hidden), [0, 2, 1, 3])
        key = self._heads(self._dense(x, hidden, hidden), [0, 2, 3, 1])
        value = self._heads(self._dense(x, hidden, hidden), [0, 2, 1, 3])
        root = self.constant(np.float32(math.sqrt(self.shape.per_head)))
        scores = self.node("Add", self.node("Div", self.node("MatMul", query, key), root), mask)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), value)
        rows = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        return self._reshape(rows, (self.shape.batch, self.shape.sequence, hidden))

    def _heads(self, x: str, order: list[int]) -> str:
        shape = self.shape
        apart = (shape.batch, shape.sequence, shape.heads, shape.per_head)
        return self.node("Transpose", self._reshape(x, apart), perm=order)

    def _gelu(self, x: str) -> str:
        erf = self.node("Erf", self.node("Div", x, self.constant(np.float32(math.sqrt(2)))))
        raised = self.node("Add", erf, self.constant(np.float32(1)))
        return self.node("Mul", self.node("Mul", x, raised), self.constant(np.float32(0.5)))

    def _dense(self, x: str, inputs: int, outputs: int) -> str:
        product = self.node("MatMul", x, self._weights(inputs, outputs))
        return self.node("Add", product, self._weights(outputs))

    def _norm(self, x: str, output: str = "") -> str:
        hidden = self.shape.hidden
        scale, bias = self._weights(hidden), self._weights(hidden)
        return self.node("LayerNormalization", x, scale, bias, axis=-1, output=output)

    def _reshape(self, x: str, shape: tuple[int, ...]) -> str:
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def _weights(self, *shape: int) -> str:
        return self.constant(self.random.standard_normal(shape, np.float32) * np.float32(0.02))


def convolutions(size: int = 32, channels: int = 32, seed: int = 0, batch: int = 1) -> bytes:
    """Float: convolutions with halos, a depthwise one, pooling, a residual, a classifier."""
    writer = OnnxWriter()
    random = np.random.default_rng(seed)

    def weights(*shape: int) -> str:
        return writer.constant(random.standard_normal(shape, np.float32) * np.float32(0.1))

    def conv(x: str, inputs: int, outputs: int, **attrs: object) -> str:
        kernel = weights(outputs, inputs, 3, 3)
        made = writer.node("Conv", x, kernel, weights(outputs), pads=[1, 1, 1, 1], **attrs)
        return writer.node("Relu", made)

    x = writer.input("image", (batch, 3, size, size))
    first = conv(x, 3, channels)
    pooled = writer.node("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2])
    second = conv(pooled, 1, channels, group=channels)
    joined = writer.node("Add", conv(second, channels, channels), pooled)
    third = conv(joined, channels, 2 * channels, strides=[2, 2])
    flat = writer.node("Flatten", writer.node("GlobalAveragePool", third))
    writer.node("Gemm", flat, weights(10, 2 * channels), weights(10), transB=1, output="out")
    return writer.finish({"out": (batch, 10)})


def wide_product(inputs: int = 4096, outputs: int = 16384, rows: int = 1, seed: int = 0) -> bytes:
    """A matrix product whose weights have to come from DDR: nothing else takes time."""
    writer = OnnxWriter()
    random = np.random.default_rng(seed)
    x = writer.input("x", (rows, inputs))
    weights = writer.constant(random.standard_normal((inputs, outputs), np.float32))
    writer.node("MatMul", x, weights, output="out")
    return writer.finish({"out": (rows, outputs)})


def integer_net() -> bytes:
    """An int8 QDQ network with depthwise convolutions and a residual."""
    return to_onnx(mobilenet_like())


def zoo(seed: int = 0) -> bytes:
    """Float ops of many kinds, each fed by the inputs, with odd sizes, strides and groups."""
    writer = OnnxWriter()
    random = np.random.default_rng(seed)

    def data(*shape: int) -> str:
        return writer.constant(random.standard_normal(shape, np.float32))

    def ints(*values: int) -> str:
        return writer.constant(np.array(values, np.int64))

    image = writer.input("image", (2, 6, 11, 9))
    rows = writer.input("rows", (3, 7, 10))
    node = writer.node
    made = [
        node("Conv", image, data(8, 6, 3, 3), data(8), strides=[2, 1], pads=[1, 0, 1, 2]),
        node("Conv", image, data(4, 6, 3, 2), dilations=[2, 3]),
        node("Conv", image, data(12, 3, 3, 3), group=2, pads=[1, 1, 1, 1]),
        node("Conv", image, data(6, 1, 5, 5), group=6, pads=[2, 2, 2, 2]),
        node("ConvTranspose", image, data(6, 4, 3, 3), strides=[2, 2], pads=[1, 1, 0, 0]),
        node("MaxPool", image, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
        node("AveragePool", image, kernel_shape=[2, 3], strides=[1, 2]),
        node("GlobalAveragePool", image),
        node("ReduceMax", rows, axes=[1], keepdims=0),
        node("ArgMax", rows, axis=1, keepdims=0),
        node("Softmax", rows, axis=1),
        node("LayerNormalization", rows, data(10), data(10), axis=-1),
        node("InstanceNormalization", image, data(6), data(6)),
        node("MatMul", rows, node("Transpose", rows, perm=[0, 2, 1])),
        node("MatMul", rows, data(10, 5)),
        node("Transpose", rows, perm=[2, 0, 1]),
        node("Concat", rows, node("Neg", rows), axis=1),
        node("Slice", rows, ints(1, 8), ints(7, 0), ints(1, 2), ints(2, -3)),
        node("Pad", rows, ints(0, 2, 1, 0, 1, 3)),
        node("Pad", rows, ints(0, 2, 1, 0, 1, 3), mode="reflect"),
        node("Gather", rows, ints(6, 0, 3), axis=1),
        node("ReverseSequence", rows, ints(4, 7, 0), time_axis=1, batch_axis=0),
        node("Tile", rows, ints(1, 2, 1)),
        node("Expand", node("ReduceSum", rows, ints(1)), ints(3, 7, 10)),
        node("Reshape", rows, ints(7, 3, 10)),
        node("DepthToSpace", node("Conv", image, data(8, 6, 1, 1)), blocksize=2),
        node("Resize", image, "", "", ints(2, 6, 22, 18), mode="nearest"),
        node("PRelu", rows, data(1, 10)),
        node("Where", node("Greater", rows, data(7, 1)), rows, data(3, 1, 10)),
        node("Mul", rows, data(7, 1)),
        node("Mul", rows, writer.constant(np.float32(3))),
        node("Sub", data(3, 7, 10), rows),
        node("Relu", node("Sigmoid", rows)),
        *writer.nodes_with("Split", [rows, ints(2, 5)], 2, axis=1),
    ]
    return writer.finish(dict.fromkeys(made))
