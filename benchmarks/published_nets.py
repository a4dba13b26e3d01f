"""The networks of the published Cloud AI 100 runs, at their sizes and without their weights.

Each is an ONNX model as torch's exporter writes it, whose weights stand in a file that does not
exist: how long a network takes does not depend on their values. `network(Published(...))` gives
the Graph.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from npuscope.files.onnx.constants import without_weights
from npuscope.files.onnx.reader import read_onnx
from npuscope.files.sizes import Pins
from npuscope.graph.model import Graph


class Published(NamedTuple):
    """What decides the layers of a published row."""

    model: str
    batch: int
    size: int  # side of the image or number of tokens
    layers: int = 0
    hidden: int = 0
    heads: int = 0
    inner: int = 0
    vocabulary: int = 0
    head: str = ""  # "answers", "words" or "hidden"


class Net:
    """Nodes and initializers; methods return the name of what they make."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.count = 0

    def input(self, name: str, shape: tuple[int | str, ...], kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def node(self, kind: str, *inputs: str, **attrs: Any) -> str:
        self.count += 1
        output = f"{kind.lower()}_{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, **attrs))
        return output

    def weights(self, *shape: int) -> str:
        """A tensor in a file that is absent."""
        self.count += 1
        tensor = TensorProto(name=f"w_{self.count}", data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="absent.bin")
        self.constants.append(tensor)
        return tensor.name

    def values(self, data: Any, dtype: Any = np.float32) -> str:
        self.count += 1
        name = f"c_{self.count}"
        self.constants.append(numpy_helper.from_array(np.asarray(data, dtype), name))
        return name

    def file(self, name: str, outputs: dict[str, tuple[int | str, ...]]) -> bytes:
        results = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in outputs.items()
        ]
        graph = helper.make_graph(self.nodes, name, self.inputs, results, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        return bytes(model.SerializeToString())

    def graph(self, name: str, outputs: dict[str, tuple[int | str, ...]]) -> Graph:
        with without_weights():
            return read_onnx(self.file(name, outputs), Path(f"{name}.onnx"), Pins(None))

    # --- Image networks ---

    def conv(
        self, x: str, inputs: int, outputs: int, size: int, act: str = "", **attrs: Any
    ) -> str:
        kernel = self.weights(outputs, inputs // attrs.get("group", 1), size, size)
        pads = attrs.pop("pads", [size // 2] * 4)
        y = self.node("Conv", x, kernel, self.weights(outputs), pads=pads, **attrs)
        return self.act(y, act)

    def act(self, x: str, kind: str) -> str:
        if kind == "Relu6":
            return self.node("Clip", x, self.values(0.0), self.values(6.0))
        if kind == "Silu":
            return self.node("Mul", x, self.node("Sigmoid", x))
        return self.node(kind, x) if kind else x

    def pool(self, x: str, size: int, stride: int, pad: int = 0, **attrs: Any) -> str:
        sizes = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.node("MaxPool", x, **sizes, **attrs)

    def classes(self, x: str, inputs: int, outputs: int = 1000) -> str:
        flat = self.node("Flatten", self.node("GlobalAveragePool", x))
        return self.gemm(flat, inputs, outputs)

    def gemm(self, x: str, inputs: int, outputs: int) -> str:
        return self.node("Gemm", x, self.weights(outputs, inputs), self.weights(outputs), transB=1)

    # --- Transformers ---

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        return self.node("Add", self.node("MatMul", x, self.weights(inputs, outputs)),
                         self.weights(outputs))  # fmt: skip

    def norm(self, x: str, size: int) -> str:
        return self.node("LayerNormalization", x, self.weights(size), self.weights(size), axis=-1)

    def gelu(self, x: str) -> str:
        erf = self.node("Erf", self.node("Div", x, self.values(math.sqrt(2))))
        raised = self.node("Mul", x, self.node("Add", erf, self.values(1.0)))
        return self.node("Mul", raised, self.values(0.5))

    def gelu_new(self, x: str) -> str:
        """ALBERT's, with tanh and a third power, as its exporter writes it."""
        half = self.node("Mul", x, self.values(0.5))
        cube = self.node("Pow", x, self.values(3.0))
        bent = self.node("Add", x, self.node("Mul", cube, self.values(0.044715)))
        curve = self.node("Tanh", self.node("Mul", bent, self.values(math.sqrt(2 / math.pi))))
        return self.node("Mul", half, self.node("Add", curve, self.values(1.0)))

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.values(shape, np.int64))

    def attention(self, x: str, rows: tuple[int, int], size: int, heads: int, mask: str) -> str:
        apart = []
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            one = self.reshape(self.dense(x, size, size), *rows, heads, size // heads)
            apart.append(self.node("Transpose", one, perm=order))
        scores = self.node("MatMul", apart[0], apart[1])
        scores = self.node("Div", scores, self.values(math.sqrt(size // heads)))
        if mask:
            scores = self.node("Add", scores, mask)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), apart[2])
        joined = self.reshape(self.node("Transpose", mixed, perm=[0, 2, 1, 3]), *rows, size)
        return self.dense(joined, size, size)


def network(which: Published) -> Graph:
    if which.layers:
        return encoder(which)
    if which.model.startswith("efficientnet_v2"):
        return efficientnet_v2(which)
    stem = which.model.split("_")[0].rstrip("0123456789")
    return {"resnet": resnet, "vgg": vgg, "mobilenet": mobilenet_v2, "efficientnet": efficientnet,
            "densenet": densenet, "squeezenet": squeezenet, "vit": vit, "wide": resnet,
            "resnext": resnet, "shufflenet": shufflenet_v2, "inception": inception_v3,
            }[stem](which)  # fmt: skip


# --- Encoders ---


def encoder(which: Published) -> Graph:
    net, rows, size = Net(), (which.batch, which.size), which.hidden
    ids = net.input("input_ids", rows, TensorProto.INT64)
    seen = net.input("attention_mask", rows, TensorProto.INT64)
    albert = "albert" in which.model
    wide = 128 if albert else size
    words = net.node("Gather", net.weights(which.vocabulary, wide), ids, axis=0)
    x = net.node("Add", words, net.weights(1, which.size, wide))
    if "distilbert" not in which.model and "xlm" not in which.model:
        kinds = net.input("token_type_ids", rows, TensorProto.INT64)
        x = net.node("Add", x, net.node("Gather", net.weights(2, wide), kinds, axis=0))
    x = net.norm(x, wide)
    if albert:
        x = net.dense(x, wide, size)
    there = net.node("Cast", net.reshape(seen, which.batch, 1, 1, which.size), to=1)
    away = net.node("Sub", net.values(1.0), there)
    mask = net.node("Mul", away, net.values(-10000.0))
    for _ in range(which.layers):
        mixed = net.attention(x, rows, size, which.heads, mask)
        y = net.norm(net.node("Add", mixed, x), size)
        inner = net.dense(y, size, which.inner)
        inner = net.gelu_new(inner) if albert else net.gelu(inner)
        x = net.norm(net.node("Add", net.dense(inner, which.inner, size), y), size)
    if which.head == "hidden":
        return net.graph("encoder", {x: (*rows, size)})
    if which.head == "words":
        x = net.norm(net.gelu(net.dense(x, size, size)), size)
        return net.graph(
            "encoder", {net.dense(x, size, which.vocabulary): (*rows, which.vocabulary)}
        )
    pair = net.dense(x, size, 2)
    return net.graph("encoder", {pair: (*rows, 2)})


def vit(which: Published) -> Graph:
    net, patch = Net(), int(which.model.rsplit("_", 1)[1])
    side, size = which.size // patch, 768
    x = net.input("image", (which.batch, 3, which.size, which.size))
    x = net.conv(x, 3, size, patch, pads=[0] * 4, strides=[patch] * 2)
    tokens = side * side + 1
    x = net.node("Transpose", net.reshape(x, which.batch, size, tokens - 1), perm=[0, 2, 1])
    first = net.weights(which.batch, 1, size)
    x = net.node("Add", net.node("Concat", first, x, axis=1), net.weights(1, tokens, size))
    rows = (which.batch, tokens)
    for _ in range(12):
        x = net.node("Add", x, net.attention(net.norm(x, size), rows, size, 12, ""))
        inner = net.gelu(net.dense(net.norm(x, size), size, 4 * size))
        x = net.node("Add", x, net.dense(inner, 4 * size, size))
    x = net.node("Gather", net.norm(x, size), net.values(0, np.int64), axis=1)
    return net.graph("vit", {net.gemm(x, size, 1000): (which.batch, 1000)})


# --- Image networks ---


def resnet(which: Published) -> Graph:
    """Also with wider or grouped 3x3 convolutions: wide_resnet101_2, resnext101_32x8d."""
    kind, _, rest = which.model.removeprefix("wide_").partition("_")
    depth = int(kind.removeprefix("resnet").removeprefix("resnext"))
    groups, each = 1, 64
    if "x" in rest:
        groups, each = (int(part) for part in rest.removesuffix("d").split("x"))
    elif rest:
        each = 64 * int(rest)
    blocks = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3),
              152: (3, 8, 36, 3)}[depth]  # fmt: skip
    wider = 4 if depth >= 50 else 1
    net = Net()
    x = net.input("image", (which.batch, 3, which.size, which.size))
    x = net.pool(net.conv(x, 3, 64, 7, "Relu", strides=[2, 2]), 3, 2, 1)
    inputs = 64
    for stage, count in enumerate(blocks):
        wide = 64 << stage
        middle = (each * groups << stage) if wider == 4 else wide
        for block in range(count):
            strides = [2, 2] if stage and not block else [1, 1]
            if wider == 4:
                y = net.conv(x, inputs, middle, 1, "Relu")
                y = net.conv(y, middle, middle, 3, "Relu", strides=strides, group=groups)
                y = net.conv(y, middle, 4 * wide, 1)
            else:
                y = net.conv(x, inputs, wide, 3, "Relu", strides=strides)
                y = net.conv(y, wide, wide, 3)
            if inputs != wider * wide or strides != [1, 1]:
                x = net.conv(x, inputs, wider * wide, 1, strides=strides)
            inputs = wider * wide
            x = net.node("Relu", net.node("Add", y, x))
    return net.graph(which.model, {net.classes(x, inputs): (which.batch, 1000)})


def vgg(which: Published) -> Graph:
    """With or without normalisation: the exporter folds it."""
    counts = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
    depth = int(which.model.removeprefix("vgg").removesuffix("_bn"))
    net, inputs = Net(), 3
    x = net.input("image", (which.batch, 3, which.size, which.size))
    for count, wide in zip(counts[depth], (64, 128, 256, 512, 512), strict=True):
        for _ in range(count):
            x = net.conv(x, inputs, wide, 3, "Relu")
            inputs = wide
        x = net.pool(x, 2, 2)
    x = net.node("Flatten", x)
    for inputs, outputs in ((512 * 7 * 7, 4096), (4096, 4096)):
        x = net.node("Relu", net.gemm(x, inputs, outputs))
    return net.graph(which.model, {net.gemm(x, 4096, 1000): (which.batch, 1000)})


def mobilenet_v2(which: Published) -> Graph:
    net, inputs = Net(), 32
    x = net.input("image", (which.batch, 3, which.size, which.size))
    x = net.conv(x, 3, 32, 3, "Relu6", strides=[2, 2])
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
    for wider, outputs, count, stride in rows:
        for number in range(count):
            step, middle = (stride if not number else 1), inputs * wider
            y = net.conv(x, inputs, middle, 1, "Relu6") if wider > 1 else x
            y = net.conv(y, middle, middle, 3, "Relu6", strides=[step] * 2, group=middle)
            y = net.conv(y, middle, outputs, 1)
            x = net.node("Add", y, x) if step == 1 and inputs == outputs else y
            inputs = outputs
    x = net.conv(x, 320, 1280, 1, "Relu6")
    return net.graph(which.model, {net.classes(x, 1280): (which.batch, 1000)})


def efficientnet(which: Published) -> Graph:
    factors = ((1.0, 1.0), (1.0, 1.1), (1.1, 1.2), (1.2, 1.4), (1.4, 1.8), (1.6, 2.2), (1.8, 2.6),
               (2.0, 3.1))  # fmt: skip
    wide, deep = factors[int(which.model[-1])]

    def channels(count: int) -> int:
        rounded = max(8, int(count * wide + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * count * wide else rounded

    net, inputs = Net(), channels(32)
    x = net.input("image", (which.batch, 3, which.size, which.size))
    x = net.conv(x, 3, inputs, 3, "Silu", strides=[2, 2])
    rows = ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
            (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1))  # fmt: skip
    for wider, size, stride, plain, count in rows:
        outputs = channels(plain)
        for number in range(math.ceil(count * deep)):
            step, middle = (stride if not number else 1), inputs * wider
            y = net.conv(x, inputs, middle, 1, "Silu") if wider > 1 else x
            y = net.conv(y, middle, middle, size, "Silu", strides=[step] * 2, group=middle)
            squeezed = max(1, inputs // 4)
            scale = net.conv(net.node("GlobalAveragePool", y), middle, squeezed, 1, "Silu")
            scale = net.node("Sigmoid", net.conv(scale, squeezed, middle, 1))
            y = net.conv(net.node("Mul", scale, y), middle, outputs, 1)
            x = net.node("Add", y, x) if step == 1 and inputs == outputs else y
            inputs = outputs
    x = net.conv(x, inputs, 4 * inputs, 1, "Silu")
    return net.graph(which.model, {net.classes(x, 4 * inputs): (which.batch, 1000)})


def densenet(which: Published) -> Graph:
    growth, first, blocks = {
        "densenet121": (32, 64, (6, 12, 24, 16)), "densenet161": (48, 96, (6, 12, 36, 24)),
        "densenet169": (32, 64, (6, 12, 32, 32)), "densenet201": (32, 64, (6, 12, 48, 32)),
    }[which.model]  # fmt: skip
    net = Net()

    def norm(x: str, channels: int) -> str:
        shift = [net.weights(channels) for _ in range(4)]
        return net.node("Relu", net.node("BatchNormalization", x, *shift))

    x = net.input("image", (which.batch, 3, which.size, which.size))
    x = net.pool(net.conv(x, 3, first, 7, "Relu", strides=[2, 2]), 3, 2, 1)
    channels = first
    for block, count in enumerate(blocks):
        parts = [x]
        for _ in range(count):
            joined = net.node("Concat", *parts, axis=1) if len(parts) > 1 else x
            y = net.conv(norm(joined, channels), channels, 4 * growth, 1, "Relu")
            parts.append(net.conv(y, 4 * growth, growth, 3))
            channels += growth
        x = net.node("Concat", *parts, axis=1)
        if block < len(blocks) - 1:
            x = net.conv(norm(x, channels), channels, channels // 2, 1)
            x = net.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
            channels //= 2
    x = norm(x, channels)
    return net.graph(which.model, {net.classes(x, channels): (which.batch, 1000)})


def squeezenet(which: Published) -> Graph:
    net, old = Net(), which.model.endswith("1_0")
    x = net.input("image", (which.batch, 3, which.size, which.size))
    inputs, size = (96, 7) if old else (64, 3)
    x = net.conv(x, 3, inputs, size, "Relu", strides=[2, 2], pads=[0] * 4)
    x = net.pool(x, 3, 2, ceil_mode=1)
    pools = (3, 7) if old else (2, 4)
    fires = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    for number, (squeezed, wide) in enumerate(fires):
        if number in pools:
            x = net.pool(x, 3, 2, ceil_mode=1)
        y = net.conv(x, inputs, squeezed, 1, "Relu")
        sides = [net.conv(y, squeezed, wide, size, "Relu") for size in (1, 3)]
        x = net.node("Concat", *sides, axis=1)
        inputs = 2 * wide
    x = net.conv(x, inputs, 1000, 1, "Relu")
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    return net.graph(which.model, {x: (which.batch, 1000)})


def shufflenet_v2(which: Published) -> Graph:
    """Channels are mixed as torch exports it: reshape, transpose, reshape, two slices."""
    stages = {"0_5": (24, 48, 96, 192, 1024), "1_0": (24, 116, 232, 464, 1024),
              "1_5": (24, 176, 352, 704, 1024), "2_0": (24, 244, 488, 976, 2048),
              }[which.model.rsplit("_x", 1)[1]]  # fmt: skip
    net = Net()
    x = net.input("image", (which.batch, 3, which.size, which.size))
    x = net.pool(net.conv(x, 3, 24, 3, "Relu", strides=[2, 2]), 3, 2, 1)
    inputs, side = 24, which.size // 4

    def half(y: str, start: int, stop: int) -> str:
        return net.node("Slice", y, net.values([start], np.int64), net.values([stop], np.int64),
                        net.values([1], np.int64))  # fmt: skip

    for outputs, count in zip(stages[1:4], (4, 8, 4), strict=True):
        wide = outputs // 2
        side //= 2
        for block in range(count):
            if block:
                shape = (which.batch, 2, wide, side, side)
                mixed = net.node("Transpose", net.reshape(x, *shape), perm=[0, 2, 1, 3, 4])
                mixed = net.reshape(mixed, which.batch, outputs, side, side)
                left, right = half(mixed, 0, wide), half(mixed, wide, outputs)
                y = net.conv(right, wide, wide, 1, "Relu")
                y = net.conv(y, wide, wide, 3, group=wide)
            else:
                left = net.conv(x, inputs, inputs, 3, strides=[2, 2], group=inputs)
                left = net.conv(left, inputs, wide, 1, "Relu")
                y = net.conv(x, inputs, wide, 1, "Relu")
                y = net.conv(y, wide, wide, 3, strides=[2, 2], group=wide)
            x = net.node("Concat", left, net.conv(y, wide, wide, 1, "Relu"), axis=1)
            inputs = outputs
        shape = (which.batch, 2, wide, side, side)
        mixed = net.node("Transpose", net.reshape(x, *shape), perm=[0, 2, 1, 3, 4])
        x = net.reshape(mixed, which.batch, outputs, side, side)
    x = net.conv(x, inputs, stages[-1], 1, "Relu")
    return net.graph(which.model, {net.classes(x, stages[-1]): (which.batch, 1000)})


def efficientnet_v2(which: Published) -> Graph:
    """Rows: fused with the first convolution, wider, size, stride, channels, count."""
    rows = {
        "s": ((1, 1, 3, 1, 24, 2), (1, 4, 3, 2, 48, 4), (1, 4, 3, 2, 64, 4), (0, 4, 3, 2, 128, 6),
              (0, 6, 3, 1, 160, 9), (0, 6, 3, 2, 256, 15)),
        "m": ((1, 1, 3, 1, 24, 3), (1, 4, 3, 2, 48, 5), (1, 4, 3, 2, 80, 5), (0, 4, 3, 2, 160, 7),
              (0, 6, 3, 1, 176, 14), (0, 6, 3, 2, 304, 18), (0, 6, 3, 1, 512, 5)),
        "l": ((1, 1, 3, 1, 32, 4), (1, 4, 3, 2, 64, 7), (1, 4, 3, 2, 96, 7), (0, 4, 3, 2, 192, 10),
              (0, 6, 3, 1, 224, 19), (0, 6, 3, 2, 384, 25), (0, 6, 3, 1, 640, 7)),
    }[which.model[-1]]  # fmt: skip
    net, inputs = Net(), rows[0][4]
    x = net.input("image", (which.batch, 3, which.size, which.size))
    x = net.conv(x, 3, inputs, 3, "Silu", strides=[2, 2])
    for fused, wider, size, stride, outputs, count in rows:
        for number in range(count):
            step, middle = (stride if not number else 1), inputs * wider
            if fused and wider == 1:
                y = net.conv(x, inputs, outputs, size, "Silu", strides=[step] * 2)
            elif fused:
                y = net.conv(x, inputs, middle, size, "Silu", strides=[step] * 2)
                y = net.conv(y, middle, outputs, 1)
            else:
                y = net.conv(x, inputs, middle, 1, "Silu")
                y = net.conv(y, middle, middle, size, "Silu", strides=[step] * 2, group=middle)
                squeezed = max(1, inputs // 4)
                scale = net.conv(net.node("GlobalAveragePool", y), middle, squeezed, 1, "Silu")
                scale = net.node("Sigmoid", net.conv(scale, squeezed, middle, 1))
                y = net.conv(net.node("Mul", scale, y), middle, outputs, 1)
            x = net.node("Add", y, x) if step == 1 and inputs == outputs else y
            inputs = outputs
    x = net.conv(x, inputs, 1280, 1, "Silu")
    return net.graph(which.model, {net.classes(x, 1280): (which.batch, 1000)})


def inception_v3(which: Published) -> Graph:
    net = Net()

    def conv(
        y: str, inputs: int, outputs: int, size: tuple[int, int] = (1, 1), **attrs: Any
    ) -> str:
        kernel = net.weights(outputs, inputs, *size)
        pads = attrs.pop("pads", [size[0] // 2, size[1] // 2] * 2)
        return net.node(
            "Relu", net.node("Conv", y, kernel, net.weights(outputs), pads=pads, **attrs)
        )

    def average(y: str) -> str:
        return net.node("AveragePool", y, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)

    none, two = [0] * 4, [2, 2]
    x = net.input("image", (which.batch, 3, which.size, which.size))
    x = conv(x, 3, 32, (3, 3), pads=none, strides=two)
    x = conv(conv(x, 32, 32, (3, 3), pads=none), 32, 64, (3, 3))
    x = conv(conv(net.pool(x, 3, 2), 64, 80), 80, 192, (3, 3), pads=none)
    x, inputs = net.pool(x, 3, 2), 192
    for pooled in (32, 64, 64):
        parts = [conv(x, inputs, 64), conv(conv(x, inputs, 48), 48, 64, (5, 5))]
        y = conv(conv(x, inputs, 64), 64, 96, (3, 3))
        parts += [conv(y, 96, 96, (3, 3)), conv(average(x), inputs, pooled)]
        x, inputs = net.node("Concat", *parts, axis=1), 224 + pooled
    y = conv(conv(x, inputs, 64), 64, 96, (3, 3))
    parts = [conv(x, inputs, 384, (3, 3), pads=none, strides=two)]
    parts += [conv(y, 96, 96, (3, 3), pads=none, strides=two), net.pool(x, 3, 2)]
    x, inputs = net.node("Concat", *parts, axis=1), 768
    for wide in (128, 160, 160, 192):
        parts = [conv(x, 768, 192)]
        y = conv(conv(x, 768, wide), wide, wide, (1, 7))
        parts.append(conv(y, wide, 192, (7, 1)))
        y = conv(conv(x, 768, wide), wide, wide, (7, 1))
        y = conv(conv(y, wide, wide, (1, 7)), wide, wide, (7, 1))
        parts += [conv(y, wide, 192, (1, 7)), conv(average(x), 768, 192)]
        x = net.node("Concat", *parts, axis=1)
    y = conv(conv(conv(x, 768, 192), 192, 192, (1, 7)), 192, 192, (7, 1))
    parts = [conv(conv(x, 768, 192), 192, 320, (3, 3), pads=none, strides=two)]
    parts += [conv(y, 192, 192, (3, 3), pads=none, strides=two), net.pool(x, 3, 2)]
    x, inputs = net.node("Concat", *parts, axis=1), 1280
    for _ in range(2):
        y, z = conv(x, inputs, 384), conv(conv(x, inputs, 448), 448, 384, (3, 3))
        pairs = [net.node("Concat", conv(one, 384, 384, (1, 3)),
                          conv(one, 384, 384, (3, 1)), axis=1)
                 for one in (y, z)]  # fmt: skip
        parts = [conv(x, inputs, 320), *pairs, conv(average(x), inputs, 192)]
        x, inputs = net.node("Concat", *parts, axis=1), 2048
    return net.graph(which.model, {net.classes(x, 2048): (which.batch, 1000)})
