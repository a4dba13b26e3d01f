"""The built-in network: a small MobileNet, int8, with seeded weights and a softmax tail."""

from __future__ import annotations

import numpy as np

from npuscope.graph.model import Activation, Attrs, DType, Graph, Op, Quant, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.layers import ConvAttrs, DenseAttrs
from npuscope.ops.norms import SoftmaxAttrs
from npuscope.ops.reduce import ReduceAttrs

CLASSES = 10
_IMAGE = (1, 96, 96, 3)
_RELU6_SCALE = 6.0 / 255  # the byte's range is the activation's range
# (expansion, output channels, stride) of the inverted residual blocks
_BLOCKS = ((1, 16, 1), (6, 24, 2), (6, 24, 1), (6, 32, 2), (6, 32, 1), (6, 64, 2))


def demo_graph(seed: int = 7) -> Graph:
    """The same network every time."""
    return _Builder(seed).build()


class _Builder:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []

    def build(self) -> Graph:
        image = self._tensor("image", _IMAGE, 1 / 127.5, 0)
        x = self._conv("stem", image, 16, 3, 2, relu=True)
        for number, (expansion, channels, stride) in enumerate(_BLOCKS):
            x = self._block(f"block{number}", x, expansion, channels, stride)
        x = self._conv("head", x, 256, 1, 1, relu=True)
        x = self._mean(x)
        x = self._dense(x)
        x = self._softmax(x)
        return Graph("demo", self.tensors, self.ops, ("image",), (x.name,))

    def _block(self, name: str, x: Tensor, expansion: int, channels: int, stride: int) -> Tensor:
        """Expand, filter each channel, project; add the input where shapes allow."""
        inner = x
        if expansion > 1:
            inner = self._conv(f"{name}/expand", x, x.shape[-1] * expansion, 1, 1, relu=True)
        inner = self._conv(f"{name}/depthwise", inner, 0, 3, stride, relu=True)
        out = self._conv(f"{name}/project", inner, channels, 1, 1, relu=False)
        return self._add(f"{name}/add", x, out) if out.shape == x.shape else out

    def _tensor(self, name: str, shape: tuple[int, ...], scale: float, zero: int) -> Tensor:
        quant = Quant((float(np.float32(scale)),), (zero,))
        tensor = Tensor(name, shape, DType.INT8, quant)
        self.tensors.append(tensor)
        return tensor

    def _constant(self, name: str, data: np.ndarray, scales: np.ndarray) -> Tensor:
        values = tuple(float(s) for s in scales.astype(np.float32))
        quant = Quant(values, (0,) * len(values), 0)
        tensor = Tensor(name, data.shape, DType(data.dtype.name), quant, data)
        self.tensors.append(tensor)
        return tensor

    def _conv(
        self, name: str, x: Tensor, channels: int, size: int, stride: int, relu: bool
    ) -> Tensor:
        """channels 0 means depthwise."""
        inputs = x.shape[-1]
        groups = inputs if channels == 0 else 1
        shape = (channels or inputs, size, size, inputs // groups)
        weights, bias = self._weights(name, shape, x)
        out_size = -(-x.shape[1] // stride)
        out = self._activation(name, (1, out_size, out_size, shape[0]), relu)
        total = max(0, (out_size - 1) * stride + size - x.shape[1])
        before, after = total // 2, total - total // 2
        attrs = ConvAttrs(
            (stride, stride),
            (before, before, after, after),
            groups=groups,
            activation=Activation.RELU6 if relu else Activation.NONE,
        )
        self._op("Conv2D", name, (x.name, weights.name, bias.name), out, attrs)
        return out

    def _weights(self, name: str, shape: tuple[int, ...], x: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised so that activations keep their spread from layer to layer."""
        real = self.random.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape)
        flat = np.abs(real).reshape(shape[0], -1)
        scales = flat.max(axis=1) / 127
        data = np.rint(real / scales.reshape(-1, *[1] * (len(shape) - 1))).astype(np.int8)
        weights = self._constant(f"{name}/weights", data, scales)
        assert x.quant is not None
        unit = scales * x.quant.scale
        offsets = np.rint(self.random.normal(0, 0.3, shape[0]) / unit).astype(np.int32)
        return weights, self._constant(f"{name}/bias", offsets, unit)

    def _activation(self, name: str, shape: tuple[int, ...], relu: bool) -> Tensor:
        if relu:
            return self._tensor(name, shape, _RELU6_SCALE, -128)
        return self._tensor(name, shape, 0.06, int(self.random.integers(-12, 12)))

    def _add(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        out = self._tensor(name, x.shape, 0.07, int(self.random.integers(-12, 12)))
        self._op("Add", name, (x.name, y.name), out, BinaryAttrs())
        return out

    def _mean(self, x: Tensor) -> Tensor:
        out = self._tensor("pool", (1, x.shape[-1]), 0.015, -128)
        self._op("Mean", "pool", (x.name,), out, ReduceAttrs((1, 2), False))
        return out

    def _dense(self, x: Tensor) -> Tensor:
        weights, bias = self._weights("classes", (CLASSES, x.shape[-1]), x)
        out = self._tensor("classes", (1, CLASSES), 0.08, 3)
        self._op("FullyConnected", "classes", (x.name, weights.name, bias.name), out, DenseAttrs())
        return out

    def _softmax(self, x: Tensor) -> Tensor:
        out = self._tensor("scores", x.shape, 1 / 256, -128)
        self._op("Softmax", "scores", (x.name,), out, SoftmaxAttrs(1))
        return out

    def _op(self, kind: str, name: str, inputs: tuple[str, ...], out: Tensor, attrs: Attrs) -> None:
        self.ops.append(Op(kind, name, inputs, (out.name,), attrs, (f"{kind}:{name}",)))
