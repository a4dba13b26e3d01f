"""Five float networks and the small data sets they work on, made in code for `quantize.py`.

Weights are random, but nothing else is: batch normalisation is set from the data, so that ranges
are those of a network at work, and the last layer is solved for (ridge regression on what the
network sees), so that the classifiers do classify. Files are as exporters leave them: an open
batch, BatchNormalization, an old opset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Arrays = np.ndarray
CLASSES = 6
_RIDGE = 30.0


@dataclass
class Net:
    """A network in the making; every method adds an op and gives the name of its result."""

    name: str
    opset: int = 13
    seed: int = 0
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Arrays] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def input(self, *shape: int) -> str:
        self.shape = shape
        return "image"

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        stem = f"{kind.lower()}_{len(self.nodes)}"
        names = [stem] if outputs == 1 else [f"{stem}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(kind, [*inputs], names, name=f"/{stem}", **attributes))
        return names[0]

    def constant(self, stem: str, values: Arrays) -> str:
        name = f"{stem}_{len(self.constants)}"
        self.constants[name] = values
        return name

    def conv(
        self,
        x: str,
        cin: int,
        cout: int,
        k: int = 3,
        stride: int = 1,
        groups: int = 1,
        rank: int = 2,
    ) -> str:
        """Without a bias: BatchNormalization follows."""
        size = (cout, cin // groups, *[k] * rank)
        spread = np.sqrt(2 / (np.prod(size[1:])))
        weights = self.random.normal(0, spread, size).astype(np.float32)
        attributes = {"kernel_shape": [k] * rank, "strides": [stride] * rank, "group": groups}
        pads = [k // 2] * (2 * rank)
        return self.op("Conv", x, self.constant("weight", weights), pads=pads, **attributes)

    def norm(self, x: str, channels: int, spread: float = 0.35) -> str:
        """Gains differ by channel, as they do in trained networks."""
        gain = np.exp(self.random.normal(0, spread, channels)).astype(np.float32)
        shift = self.random.normal(0, 0.3, channels).astype(np.float32)
        ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        parts = (("gain", gain), ("shift", shift), ("mean", zeros), ("var", ones))
        return self.op("BatchNormalization", x, *(self.constant(n, v) for n, v in parts))

    def relu6(self, x: str) -> str:
        if self.opset < 11:
            return self.op("Clip", x, min=0.0, max=6.0)
        bounds = [self.constant("bound", np.float32(v)) for v in (0, 6)]
        return self.op("Clip", x, *bounds)

    def hard_swish(self, x: str) -> str:
        """As exporters of opset 13 write it."""
        return self.op("Mul", x, self.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))

    def prelu(self, x: str, channels: int) -> str:
        slopes = self.random.uniform(0.05, 0.4, (channels, 1, 1)).astype(np.float32)
        return self.op("PRelu", x, self.constant("slope", slopes))

    def shared_prelu(self, x: str) -> str:
        slope = self.random.uniform(0.1, 0.3, (1,)).astype(np.float32)
        return self.op("PRelu", x, self.constant("slope", slope))

    def layer(self, x: str, cin: int, cout: int, act: str = "Relu", **conv: int) -> str:
        y = self.norm(self.conv(x, cin, cout, **conv), cout)
        special: dict[str, Callable[[], str]] = {
            "": lambda: y,
            "relu6": lambda: self.relu6(y),
            "hard_swish": lambda: self.hard_swish(y),
            "prelu": lambda: self.prelu(y, cout),
            "silu": lambda: self.op("Mul", y, self.op("Sigmoid", y)),
        }
        return special[act]() if act in special else self.op(act, y)

    def dense(self, x: str, cin: int, cout: int) -> str:
        weights = self.random.normal(0, np.sqrt(1 / cin), (cout, cin)).astype(np.float32)
        names = self.constant("weight", weights), self.constant("bias", np.zeros(cout, np.float32))
        return self.op("Gemm", x, *names, transB=1)

    def features(self, x: str) -> str:
        return self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)

    # the finished network

    def proto(self, outputs: list[str] | None = None) -> onnx.ModelProto:
        dims = ["batch", *self.shape]
        entry = helper.make_tensor_value_info("image", TensorProto.FLOAT, dims)
        made = outputs or self.outputs
        results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in made]
        held = [numpy_helper.from_array(v, n) for n, v in self.constants.items()]
        graph = helper.make_graph(self.nodes, self.name, [entry], results, held)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model)  # outputs must state a shape

    def run(self, outputs: list[str], data: Arrays) -> list[Arrays]:
        from npuscope.profiling.runtimes import onnxruntime_session

        session = onnxruntime_session(self.proto(outputs).SerializeToString())
        return [np.asarray(value) for value in session.run(None, {"image": data})]

    def settle(self, data: Arrays) -> None:
        """Every BatchNormalization gets the mean and variance of what reaches it, in order."""
        for node in [n for n in self.nodes if n.op_type == "BatchNormalization"]:
            (seen,) = self.run([node.input[0]], data)
            axes = (0, *range(2, seen.ndim))
            self.constants[node.input[3]] = seen.mean(axes).astype(np.float32)
            self.constants[node.input[4]] = (seen.var(axes) + 1e-3).astype(np.float32)

    def teach(self, data: Arrays, labels: Arrays) -> float:
        """Solve the last Gemm for the labels; the share that it gets right."""
        node = [n for n in self.nodes if n.op_type == "Gemm"][-1]
        parts = [self.run([node.input[0]], part)[0] for part in np.array_split(data, 12)]
        seen = np.concatenate(parts)
        rows = np.hstack([seen, np.ones((len(seen), 1))]).astype(np.float64)
        wanted = 8.0 * np.eye(CLASSES)[labels] - 2.0
        square = rows.T @ rows + _RIDGE * np.eye(rows.shape[1])
        found = np.linalg.solve(square, rows.T @ wanted).astype(np.float32)
        self.constants[node.input[1]] = np.ascontiguousarray(found[:-1].T)
        self.constants[node.input[2]] = found[-1]
        return float(np.mean((rows @ found).argmax(1) == labels))


# --- Data: pictures of six shapes, sounds of six kinds ---


def pictures(count: int, size: int, seed: int) -> tuple[Arrays, Arrays]:
    """Bright figures of any colour, place and size on a dull, noisy ground; mean 0, spread 1."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:size, 0:size] / size
    made, labels = [], random.integers(0, CLASSES, count)
    for label in labels:
        y, x = random.uniform(0.35, 0.65, 2)
        r = random.uniform(0.15, 0.3)
        dy, dx = rows - y, columns - x
        figures = (
            dy**2 + dx**2 < r**2,
            (abs(dy) < r) & (abs(dx) < r),
            (abs(dy) < r / 3) & (abs(dx) < r),
            (abs(dy) < r) & (abs(dx) < r / 3),
            (abs(dy) + abs(dx)) < r,
            ((abs(dy) < r / 4) | (abs(dx) < r / 4)) & (abs(dy) < r) & (abs(dx) < r),
        )
        ground = random.uniform(0, 0.4, 3)[:, None, None] + random.normal(0, 0.06, (3, size, size))
        colour = random.uniform(0.55, 1.0, 3)[:, None, None]
        made.append(np.where(figures[label], colour, ground + 0.2 * rows))
    images = np.clip(np.array(made), 0, 1)
    return ((images - 0.45) / 0.25).astype(np.float32), labels


def sounds(count: int, length: int, seed: int) -> tuple[Arrays, Arrays]:
    """Tones, chords, rising and falling tones, pulses and noise, as four shifted channels."""
    random = np.random.default_rng(seed)
    t = np.arange(length) / length
    made, labels = [], random.integers(0, CLASSES, count)
    for label in labels:
        f = random.uniform(12, 30)
        kinds = (
            np.sin(2 * np.pi * f * t),
            np.sin(2 * np.pi * f * t) + np.sin(2 * np.pi * 1.5 * f * t),
            np.sin(2 * np.pi * f * t * (1 + t)),
            np.sin(2 * np.pi * f * t * (2 - t)),
            (np.sin(2 * np.pi * f / 4 * t) > 0.9).astype(float) * 2,
            random.normal(0, 0.7, length),
        )
        wave = random.uniform(0.4, 1.0) * kinds[label] + random.normal(0, 0.05, length)
        made.append([np.roll(wave, 3 * n) * (n + 1) / 2 for n in range(4)])
    return np.array(made, np.float32), labels


# --- The networks ---


def mobile_net(seed: int = 1) -> Net:
    """Inverted residuals with depthwise layers and hard-swish."""
    net = Net("mobile", 13, seed)
    x = net.layer(net.input(3, 64, 64), 3, 16, "hard_swish", stride=2)
    channels = 16
    for cout, stride, act in (
        (16, 1, "relu6"),
        (24, 2, "relu6"),
        (24, 1, "relu6"),
        (40, 2, "hard_swish"),
        (40, 1, "hard_swish"),
        (64, 2, "hard_swish"),
    ):
        wide = channels * 4
        y = net.layer(x, channels, wide, act, k=1)
        y = net.layer(y, wide, wide, act, stride=stride, groups=wide)
        y = net.layer(y, wide, cout, "", k=1)
        x = net.op("Add", x, y) if stride == 1 and channels == cout else y
        channels = cout
    x = net.layer(x, channels, 192, "hard_swish", k=1)
    net.outputs = [net.dense(net.features(x), 192, CLASSES)]
    return net


def dense_res_net(seed: int = 2) -> Net:
    """Residual blocks, and blocks whose results are joined; an exporter of 2019."""
    net = Net("residual", 9, seed)
    x = net.layer(net.input(3, 64, 64), 3, 32, stride=2)
    for cin, cout, stride in ((32, 32, 1), (32, 64, 2), (64, 64, 1)):
        y = net.layer(net.layer(x, cin, cout, stride=stride), cout, cout, "")
        short = x if cin == cout else net.layer(x, cin, cout, "", k=1, stride=stride)
        x = net.op("Relu", net.op("Add", y, short))
    pool = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    parts = [
        net.layer(x, 64, 32, k=1),
        net.layer(net.layer(x, 64, 24, k=1), 24, 32),
        net.layer(pool, 64, 32, "", k=1),
    ]
    x = net.layer(net.op("Concat", *parts, axis=1), 96, 128, stride=2)
    net.outputs = [net.dense(net.features(x), 128, CLASSES)]
    return net


def detector(seed: int = 3) -> Net:
    """Two scales joined by an upsampling, heads with Softmax and Sigmoid."""
    net = Net("detector", 13, seed)
    x = net.layer(net.input(3, 96, 96), 3, 16, "silu", stride=2)
    x = net.layer(x, 16, 32, "silu", stride=2)
    fine = net.layer(x, 32, 64, "silu", stride=2)
    deep = net.layer(fine, 64, 96, "silu", stride=2)
    scales = net.constant("scales", np.array([1, 1, 2, 2], np.float32))
    up = net.op("Resize", deep, "", scales, mode="nearest", nearest_mode="floor",
                coordinate_transformation_mode="asymmetric")  # fmt: skip
    joined = net.layer(net.op("Concat", up, fine, axis=1), 160, 64, "silu")
    classes = net.layer(joined, 64, CLASSES, "", k=1)
    boxes = net.layer(joined, 64, 4, "", k=1)
    net.outputs = [net.op("Softmax", classes, axis=1), net.op("Sigmoid", boxes)]
    return net


def face_net(seed: int = 4) -> Net:
    """Depthwise blocks with PReLU; the output is an embedding."""
    net = Net("face", 11, seed)
    x = net.layer(net.input(3, 64, 64), 3, 32, "prelu", stride=2)
    channels = 32
    for cout, stride in ((32, 1), (64, 2), (64, 1), (96, 2)):
        wide = 2 * channels
        y = net.layer(x, channels, wide, "prelu", k=1)
        y = net.layer(y, wide, wide, "prelu", stride=stride, groups=wide)
        y = net.layer(y, wide, cout, "", k=1)
        x = net.op("Add", x, y) if stride == 1 and channels == cout else y
        channels = cout
    net.outputs = [net.dense(net.features(net.layer(x, 96, 128, "prelu", k=1)), 128, CLASSES)]
    return net


def sound_net(seed: int = 5) -> Net:
    """One-dimensional: separable blocks with one slope each, as Conv-TasNet has them."""
    net = Net("sound", 12, seed)
    x = net.layer(net.input(4, 512), 4, 64, "", k=5, stride=2, rank=1)
    for _ in range(4):
        y = net.shared_prelu(net.layer(x, 64, 96, "", k=1, rank=1))
        y = net.shared_prelu(net.layer(y, 96, 96, "", k=9, groups=96, rank=1))
        x = net.op("Add", x, net.layer(y, 96, 64, "", k=1, rank=1))
    gate = net.layer(x, 64, 96, "Sigmoid", k=1, stride=2, rank=1)
    x = net.op("Mul", net.layer(x, 64, 96, "Tanh", k=1, stride=2, rank=1), gate)
    net.outputs = [net.op("Softmax", net.dense(net.features(x), 96, CLASSES), axis=1)]
    return net


@dataclass(frozen=True)
class Case:
    """A finished network with its data; `right` is the share that the float network classifies."""

    name: str
    proto: onnx.ModelProto
    data: Arrays
    labels: Arrays
    right: float


def cases(count: int = 160, taught: int = 1500) -> list[Case]:
    """Each with `count` samples, the first of those that its last layer was solved for."""
    made = []
    for net in (mobile_net(), dense_res_net(), detector(), face_net(), sound_net()):
        size = net.shape[-1]
        make = sounds if len(net.shape) == 2 else pictures
        data, labels = make(taught, size, net.seed)
        net.settle(data[:48])
        right = net.teach(data, labels) if net.name != "detector" else 0.0
        made.append(Case(net.name, net.proto(), data[:count], labels[:count], right))
    return made
