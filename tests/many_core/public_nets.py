"""Networks with public figures, at their real sizes and with random weights: BERT-base, GPT-2,
ResNet-50 and MobileNetV2, written as exporters write them."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from models_onnx import OnnxWriter


class _Writer(OnnxWriter):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)

    def weights(self, *shape: int, spread: float = 0.02) -> str:
        return self.constant(self.random.standard_normal(shape, np.float32) * np.float32(spread))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def splat(self, value: float) -> str:
        return self.constant(np.float32(value))

    # --- Parts of transformers ---

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        product = self.node("MatMul", x, self.weights(inputs, outputs))
        return self.node("Add", product, self.weights(outputs))

    def norm(self, x: str, size: int) -> str:
        scale = self.constant(np.ones(size, np.float32))
        return self.node("LayerNormalization", x, scale, self.weights(size), axis=-1)

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.ints(*shape))

    def heads(self, x: str, rows: tuple[int, int], heads: int, order: list[int]) -> str:
        apart = self.reshape(x, *rows, heads, 768 // heads)
        return self.node("Transpose", apart, perm=order)

    def attention(self, q: str, k: str, v: str, rows: tuple[int, int], mask: str) -> str:
        query, value = (self.heads(x, rows, 12, [0, 2, 1, 3]) for x in (q, v))
        key = self.heads(k, rows, 12, [0, 2, 3, 1])
        scores = self.node("Div", self.node("MatMul", query, key), self.splat(8.0))
        masked = self.node("Add", scores, mask)
        mixed = self.node("MatMul", self.node("Softmax", masked, axis=-1), value)
        joined = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.reshape(joined, *rows, 768)

    # --- Parts of image networks ---

    def conv(
        self, x: str, inputs: int, outputs: int, size: int, relu: str = "", **attrs: object
    ) -> str:
        groups = int(attrs.get("group", 1))  # type: ignore[call-overload]
        fan = inputs // groups * size * size
        kernel = self.weights(outputs, inputs // groups, size, size, spread=math.sqrt(1.5 / fan))
        made = self.node("Conv", x, kernel, self.weights(outputs), pads=[size // 2] * 4, **attrs)
        if relu == "Relu6":
            return self.node("Clip", made, self.splat(0.0), self.splat(6.0))
        return self.node(relu, made) if relu else made


def bert(layers: int = 12, batch: int = 1, tokens: int = 128, seed: int = 0) -> bytes:
    """BERT-base with the head for answers to questions: start and end by token."""
    net = _Writer(seed)
    rows = (batch, tokens)
    ids = net.input("input_ids", rows, TensorProto.INT64)
    kinds = net.input("token_type_ids", rows, TensorProto.INT64)
    seen = net.input("attention_mask", rows, TensorProto.FLOAT)
    words = net.node("Gather", net.weights(2048, 768), ids, axis=0)
    types = net.node("Gather", net.weights(2, 768), kinds, axis=0)
    places = net.weights(1, tokens, 768)
    x = net.norm(net.node("Add", net.node("Add", words, types), places), 768)
    away = net.node("Sub", net.splat(1.0), net.reshape(seen, batch, 1, 1, tokens))
    mask = net.node("Mul", away, net.splat(-10000.0))
    for _ in range(layers):
        q, k, v = (net.dense(x, 768, 768) for _ in range(3))
        mixed = net.dense(net.attention(q, k, v, rows, mask), 768, 768)
        y = net.norm(net.node("Add", mixed, x), 768)
        inner = net.dense(y, 768, 3072)
        erf = net.node("Erf", net.node("Div", inner, net.splat(math.sqrt(2))))
        raised = net.node("Mul", inner, net.node("Add", erf, net.splat(1.0)))
        outer = net.dense(net.node("Mul", raised, net.splat(0.5)), 3072, 768)
        x = net.norm(net.node("Add", outer, y), 768)
    made = net.nodes_with("Split", [net.dense(x, 768, 2), net.ints(1, 1)], 2, axis=-1)
    outputs = [net.reshape(part, *rows) for part in made]
    return net.finish(dict.fromkeys(outputs, rows))


def gpt2(layers: int = 12, batch: int = 1, tokens: int = 64, seed: int = 0) -> bytes:
    """GPT-2 (small): norms before, one product for query, key and value, GELU with tanh."""
    net = _Writer(seed)
    rows = (batch, tokens)
    ids = net.input("input_ids", rows, TensorProto.INT64)
    words = net.node("Gather", net.weights(2048, 768), ids, axis=0)
    x = net.node("Add", words, net.weights(1, tokens, 768))
    hidden = np.triu(np.full((1, 1, tokens, tokens), -10000, np.float32), 1)
    mask = net.constant(hidden)
    for _ in range(layers):
        joined = net.dense(net.norm(x, 768), 768, 2304)
        q, k, v = net.nodes_with("Split", [joined, net.ints(768, 768, 768)], 3, axis=-1)
        x = net.node("Add", x, net.dense(net.attention(q, k, v, rows, mask), 768, 768))
        inner = net.dense(net.norm(x, 768), 768, 3072)
        cube = net.node("Mul", net.node("Mul", inner, inner), inner)
        bent = net.node("Add", inner, net.node("Mul", cube, net.splat(0.044715)))
        curve = net.node("Tanh", net.node("Mul", bent, net.splat(math.sqrt(2 / math.pi))))
        raised = net.node("Add", curve, net.splat(1.0))
        half = net.node("Mul", inner, net.splat(0.5))
        x = net.node("Add", x, net.dense(net.node("Mul", half, raised), 3072, 768))
    out = net.node("MatMul", net.norm(x, 768), net.weights(768, 2048))
    return net.finish({out: (batch, tokens, 2048)})


def resnet50(batch: int = 1, side: int = 224, seed: int = 0) -> bytes:
    """Version 1.5: the stride is in the 3x3 convolutions."""
    net = _Writer(seed)
    x = net.input("image", (batch, 3, side, side))
    x = net.conv(x, 3, 64, 7, "Relu", strides=[2, 2])
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        wide = 64 << stage
        for block in range(blocks):
            stride = [2, 2] if stage and not block else [1, 1]
            y = net.conv(x, inputs, wide, 1, "Relu")
            y = net.conv(y, wide, wide, 3, "Relu", strides=stride)
            y = net.conv(y, wide, 4 * wide, 1)
            if not block:
                x = net.conv(x, inputs, 4 * wide, 1, strides=stride)
            inputs = 4 * wide
            x = net.node("Relu", net.node("Add", net.node("Mul", y, net.splat(0.3)), x))
    flat = net.node("Flatten", net.node("GlobalAveragePool", x))
    out = net.node("Gemm", flat, net.weights(1000, 2048), net.weights(1000), transB=1)
    return net.finish({out: (batch, 1000)})


def mobilenet_v2(batch: int = 1, side: int = 224, seed: int = 0) -> bytes:
    net = _Writer(seed)
    x = net.input("image", (batch, 3, side, side))
    x = net.conv(x, 3, 32, 3, "Relu6", strides=[2, 2])
    inputs = 32
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2))
    for wider, outputs, count, stride in (*rows, (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for number in range(count):
            step = stride if not number else 1
            middle = inputs * wider
            y = net.conv(x, inputs, middle, 1, "Relu6") if wider > 1 else x
            y = net.conv(y, middle, middle, 3, "Relu6", strides=[step, step], group=middle)
            y = net.conv(y, middle, outputs, 1)
            x = net.node("Add", y, x) if step == 1 and inputs == outputs else y
            inputs = outputs
    x = net.conv(x, 320, 1280, 1, "Relu6")
    flat = net.node("Flatten", net.node("GlobalAveragePool", x))
    out = net.node("Gemm", flat, net.weights(1000, 1280), net.weights(1000), transB=1)
    return net.finish({out: (batch, 1000)})
