"""Networks made in code, op by op, for the compiler's tests.

Weights are seeded; output scales are chosen so that random inputs fill the byte's range.
"""

from __future__ import annotations

from math import prod

import numpy as np

from npuscope.compiler.groups import StageGroup
from npuscope.compiler.lower.graph import lower_graph
from npuscope.compiler.passes import run_passes
from npuscope.compiler.pipeline import CompileOptions, compile_graph
from npuscope.compiler.schedule import schedule
from npuscope.compiler.stages import Lowered
from npuscope.graph.model import Activation, Attrs, DType, Graph, Numerics, Op, Quant, Tensor
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.layers import ConvAttrs, DenseAttrs
from npuscope.ops.moves import ConcatAttrs, PadAttrs, TransposeAttrs
from npuscope.ops.norms import SoftmaxAttrs
from npuscope.ops.reduce import PoolAttrs, ReduceAttrs
from npuscope.ops.verify import verify
from npuscope.program.model import Program
from npuscope.structs import replace

GENERATIONS = ("2.2", "3.0", "4.0", "open")
MACHINES = {name: load_machine(generation=name) for name in GENERATIONS}
Pair = tuple[int, int]
Quantization = tuple[float, int]


def per_tensor(scale: float, zero: int = 0) -> Quant:
    return Quant((float(np.float32(scale)),), (zero,))


def per_channel(scales: np.ndarray) -> Quant:
    return Quant(tuple(np.float32(scales).astype(float).tolist()), (0,) * len(scales), 0)


class Net:
    """A graph in the making. Methods take and give tensor names."""

    def __init__(self, seed: int = 0, numerics: Numerics = Numerics.LITERT) -> None:
        self.random = np.random.default_rng(seed)
        self.built = Graph("net", (), (), (), (), numerics)

    def graph(self, *outputs: str) -> Graph:
        self.built.outputs = outputs or (self.built.ops[-1].outputs[0],)
        verify(self.built)
        return self.built

    def shape(self, name: str) -> tuple[int, ...]:
        return self.built.tensor(name).shape

    def quant(self, name: str) -> Quant:
        quant = self.built.tensor(name).quant
        assert quant is not None
        return quant

    def input(
        self,
        shape: tuple[int, ...],
        quant: Quantization | None = (0.02, 0),
        dtype: DType = DType.INT8,
    ) -> str:
        name = f"input{len(self.built.inputs)}"
        known = per_tensor(*quant) if quant else None
        self.built.add(Tensor(name, shape, dtype if quant else DType.FLOAT32, known))
        self.built.inputs = (*self.built.inputs, name)
        return name

    def constant(self, data: np.ndarray, quant: Quant | None = None, stem: str = "constant") -> str:
        dtype = DType(data.dtype.name)
        return self.built.add(
            Tensor(self.built.fresh_name(stem), data.shape, dtype, quant, data)
        ).name

    def op(
        self,
        kind: str,
        inputs: tuple[str, ...],
        attrs: Attrs,
        shape: tuple[int, ...],
        quant: Quant | None,
        dtype: DType = DType.INT8,
    ) -> str:
        """Any op; returns the name of its output."""
        name = self.built.fresh_name(kind.lower())
        self.built.add(Tensor(name, shape, dtype, quant))
        self.built.ops.append(Op(kind, name, inputs, (name,), attrs, (f"{kind}:{name}",)))
        return name

    def conv(
        self,
        x: str,
        channels: int = 0,
        window: Pair = (3, 3),
        strides: Pair = (1, 1),
        pads: tuple[int, int, int, int] | None = None,
        activation: Activation = Activation.NONE,
        quant: Quantization | None = None,
        zero: int | None = None,
        weights: np.ndarray | None = None,
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> str:
        """A convolution, SAME-padded unless `pads` are given; `channels` 0 means depthwise.

        `quant` sets scale and zero point of the output, `zero` the zero point alone.
        """
        _, height, width, inputs = self.shape(x)
        groups = groups if channels else inputs
        reach = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
        if pads is None:
            pads = same_pads((height, width), (reach[0], reach[1]), strides)
        if weights is None:
            weights = self.weights((channels or inputs, *window, inputs // groups))
        size = [
            (length + before + after - k) // s + 1
            for length, before, after, k, s in zip(
                (height, width), pads[:2], pads[2:], reach, strides, strict=True
            )
        ]
        attrs = ConvAttrs(strides, pads, dilations, groups, activation)
        return self._layer("Conv2D", x, weights, (1, *size, len(weights)), attrs, quant, zero)

    def dense(
        self,
        x: str,
        channels: int,
        activation: Activation = Activation.NONE,
        quant: Quantization | None = None,
    ) -> str:
        weights = self.weights((channels, self.shape(x)[-1]))
        shape = (*self.shape(x)[:-1], channels)
        return self._layer("FullyConnected", x, weights, shape, DenseAttrs(activation), quant)

    def weights(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.random.integers(-127, 128, shape).astype(np.int8)

    def _layer(
        self,
        kind: str,
        x: str,
        weights: np.ndarray,
        shape: tuple[int, ...],
        attrs: ConvAttrs | DenseAttrs,
        quant: Quantization | None,
        zero: int | None = None,
    ) -> str:
        scales = self.random.uniform(0.5, 1.5, len(weights)) / 1000
        unit = self.quant(x).scale * scales
        spread = unit.mean() * prod(weights.shape[1:]) ** 0.5 * 73 * 60
        if zero is None:
            clamped = attrs.activation in (Activation.RELU, Activation.RELU6)
            zero = -128 if clamped else int(self.random.integers(1, 9))
        quant = quant or (spread / (60 if zero == -128 else 40), zero)
        bias = np.rint(self.random.normal(0, spread / 3, len(weights)) / unit).astype(np.int32)
        names = (
            x,
            self.constant(weights, per_channel(scales), "weights"),
            self.constant(bias, per_channel(unit), "bias"),
        )
        return self.op(kind, names, attrs, shape, per_tensor(*quant))

    def add(self, x: str, y: str, kind: str = "Add", quant: Quantization | None = None) -> str:
        scale = 1.3 * max(self.quant(x).scale, self.quant(y).scale)
        return self.op(
            kind, (x, y), BinaryAttrs(), self.shape(x), per_tensor(*(quant or (scale, -5)))
        )

    def max_pool(
        self,
        x: str,
        window: Pair = (2, 2),
        strides: Pair = (2, 2),
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> str:
        return self._pool("MaxPool", x, PoolAttrs(window, strides, pads), self.quant(x))

    def average_pool(
        self,
        x: str,
        window: Pair = (2, 2),
        strides: Pair = (2, 2),
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
        quant: Quantization | None = None,
    ) -> str:
        known = per_tensor(*quant) if quant else self.quant(x)
        return self._pool("AveragePool", x, PoolAttrs(window, strides, pads), known)

    def _pool(self, kind: str, x: str, attrs: PoolAttrs, quant: Quant) -> str:
        n, height, width, channels = self.shape(x)
        top, left, bottom, right = attrs.pads
        rows = (height + top + bottom - attrs.window[0]) // attrs.strides[0] + 1
        columns = (width + left + right - attrs.window[1]) // attrs.strides[1] + 1
        return self.op(kind, (x,), attrs, (n, rows, columns, channels), quant)

    def mean(
        self, x: str, quant: Quantization | None = None, axes: tuple[int, ...] = (1, 2)
    ) -> str:
        known = per_tensor(*quant) if quant else self.quant(x)
        shape = tuple(size for axis, size in enumerate(self.shape(x)) if axis not in axes)
        return self.op("Mean", (x,), ReduceAttrs(axes, False), shape, known)

    def softmax(self, x: str) -> str:
        axis = len(self.shape(x)) - 1
        return self.op(
            "Softmax", (x,), SoftmaxAttrs(axis), self.shape(x), per_tensor(1 / 256, -128)
        )

    def sigmoid(self, x: str) -> str:
        return self.op("Sigmoid", (x,), Attrs(), self.shape(x), per_tensor(1 / 256, -128))

    def concat(
        self, parts: tuple[str, ...], quant: Quantization | None = None, axis: int = 3
    ) -> str:
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        known = per_tensor(*quant) if quant else self.quant(parts[0])
        return self.op("Concat", parts, ConcatAttrs(axis), tuple(shape), known)

    def clip(self, x: str, low: float, high: float, quant: Quantization | None = None) -> str:
        known = per_tensor(*quant) if quant else self.built.tensor(x).quant
        dtype = self.built.tensor(x).dtype
        return self.op("Clip", (x,), ClipAttrs(low, high), self.shape(x), known, dtype)

    def pad(self, x: str, pads: tuple[Pair, Pair], value: float = 0.0) -> str:
        """Rows (before, after) and columns (before, after)."""
        n, height, width, channels = self.shape(x)
        shape = (n, height + sum(pads[0]), width + sum(pads[1]), channels)
        attrs = PadAttrs(((0, 0), *pads, (0, 0)), value)
        return self.op("Pad", (x,), attrs, shape, self.quant(x))

    def reshape(self, x: str, shape: tuple[int, ...]) -> str:
        return self._move("Reshape", x, Attrs(), shape)

    def identity(self, x: str) -> str:
        return self._move("Identity", x, Attrs(), self.shape(x))

    def transpose(self, x: str, permutation: tuple[int, ...]) -> str:
        shape = tuple(self.shape(x)[axis] for axis in permutation)
        return self._move("Transpose", x, TransposeAttrs(permutation), shape)

    def _move(self, kind: str, x: str, attrs: Attrs, shape: tuple[int, ...]) -> str:
        tensor = self.built.tensor(x)
        return self.op(kind, (x,), attrs, shape, tensor.quant, tensor.dtype)

    def quantize(self, x: str, quant: Quantization, dtype: DType = DType.INT8) -> str:
        return self.op("Quantize", (x,), Attrs(), self.shape(x), per_tensor(*quant), dtype)

    def dequantize(self, x: str) -> str:
        return self.op("Dequantize", (x,), Attrs(), self.shape(x), None, DType.FLOAT32)


def same_pads(size: Pair, window: Pair, strides: Pair) -> tuple[int, int, int, int]:
    totals = [
        max(0, (-(-n // s) - 1) * s + k - n) for n, k, s in zip(size, window, strides, strict=True)
    ]
    top, left = (total // 2 for total in totals)
    return top, left, totals[0] - top, totals[1] - left


def random_network(seed: int) -> Graph:
    """Branches, residual additions, pools, all kernel kinds, odd channel counts."""
    net = Net(seed)
    random = net.random
    x = net.input((1, 12, 12, int(random.choice([1, 3, 8]))))
    known = [net.conv(x, int(random.choice([8, 16, 24, 40])), activation=Activation.RELU)]
    for _ in range(8):
        x = known[int(random.integers(len(known)))]
        same = [y for y in known if net.shape(y) == net.shape(x) and y != x]
        choice = int(random.integers(6))
        window = [(1, 1), (3, 3), (5, 5), (1, 3), (2, 2)][int(random.integers(5))]
        zero = [None, 0, 6, -128][int(random.integers(4))]
        if choice == 0 and same:
            known.append(net.add(x, same[0]))
        elif choice == 1 and min(net.shape(x)[1:3]) > 3:
            known.append(net.max_pool(x) if random.random() < 0.5 else net.average_pool(x))
        elif choice == 2:
            known.append(net.conv(x, 0, zero=zero))
        else:
            channels = int(random.choice([7, 8, 16, 29, 48]))
            known.append(net.conv(x, channels, window, zero=zero))
    used = {name for op in net.built.ops for name in op.inputs}
    return net.graph(*(name for name in known if name not in used))


def small_groups() -> Graph:
    """Groups of several channels, with as many outputs, fewer and more; one in 16x8 mode."""
    net = Net(16)
    x = net.conv(net.input((1, 13, 11, 4), (0.02, 0)), 24, (1, 1), zero=-128)
    x = net.conv(x, 24, groups=3, zero=-128)
    x = net.conv(x, 12, strides=(2, 2), groups=6, zero=7)
    x = net.conv(x, 32, groups=4, zero=-128)
    net.conv(x, 16, (5, 5), groups=8)
    return net.graph()


def dilated() -> Graph:
    """Depthwise kernels with gaps: on whole blocks and not, with bytes above 127, in 16x8 mode, in
    one row, padded on one side and not at all."""
    net = Net(31)
    x = net.conv(net.input((1, 9, 12, 6)), 16, zero=-128, activation=Activation.RELU)
    x = net.conv(x, dilations=(3, 3), zero=-128, activation=Activation.RELU)
    x = net.conv(x, dilations=(4, 5), pads=(4, 5, 4, 5), zero=7)
    x = net.conv(x, dilations=(2, 2), pads=(4, 0, 0, 4))
    x = net.conv(x, window=(1, 3), dilations=(1, 4))
    net.conv(x, window=(3, 3), dilations=(2, 2), pads=(0, 0, 0, 0))
    return net.graph()


def padded_channels() -> Graph:
    """Zeros behind the channels of a shortcut, as in face detectors."""
    net = Net(41)
    x = net.conv(net.input((1, 8, 6, 3)), 10, zero=-128)
    pads = PadAttrs(((0, 0), (0, 0), (0, 0), (0, 6)))
    wide = net.op("Pad", (x,), pads, (1, 8, 6, 16), net.quant(x))
    net.conv(net.add(net.conv(x, 16, (1, 1)), wide), 4)
    return net.graph()


def uint8_network() -> Graph:
    """QDQ with uint8 activations throughout, as onnxruntime's quantizer writes it by default."""
    net = Net(11, Numerics.QDQ)
    x = net.input((1, 8, 8, 4), (0.02, 117), DType.UINT8)
    for channels in (6, 8):
        x = net.conv(x, channels)
        quant = per_tensor(net.quant(x).scale, 120)
        net.built.tensors[x] = replace(net.built.tensor(x), dtype=DType.UINT8, quant=quant)
    return net.graph()


def sample(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Random values for every input of the graph."""
    random = np.random.default_rng(seed)
    values = {}
    for name in graph.inputs:
        tensor = graph.tensor(name)
        if tensor.dtype is DType.FLOAT32:
            values[name] = random.uniform(-2, 2, tensor.shape).astype(np.float32)
        else:
            low, high = tensor.dtype.limits
            values[name] = random.integers(low, high, tensor.shape, tensor.dtype.numpy, True)
    return values


def compiled(graph: Graph, generation: str = "4.0", optimization: int = 3) -> Program:
    return compile_graph(graph, MACHINES[generation], CompileOptions(optimization))


def scheduled(
    graph: Graph, machine: Machine, optimization: int = 3
) -> tuple[Lowered, list[StageGroup]]:
    """The stages of a network and the epochs they are grouped into."""
    lowered = lower_graph(run_passes(graph, machine), machine, optimization)
    return lowered, schedule(lowered, machine)


def operators(program: Program) -> list[tuple[str, ...]]:
    """What each epoch holds, in the vendor's words."""
    return [epoch.operators for epoch in program.epochs]
