"""Networks of benchmarks/triage_blind.py, which puts `tests` on the path first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from models import Net, dense_net, to_onnx, to_tflite
from models_tflite import RELU, SAME, TfliteWriter


def plain() -> bytes:
    """A CNN of four convolutions for ten classes."""
    net = Net((1, 20, 20, 3), seed=11)
    for out, stride in ((8, 2), (12, 1), (16, 2), (24, 2)):
        net.conv(out, stride=stride, activation="relu")
    net.mean()
    net.dense(10)
    net.softmax()
    data: bytes = to_tflite(net)
    return data


def separable() -> bytes:
    """Depthwise-separable blocks with two residuals, QDQ ONNX, float at the borders."""
    net = Net((1, 16, 16, 3), seed=12)
    last = net.conv(12, stride=2)
    for _ in range(2):
        net.conv(0, depthwise=True)
        last = net.add(last, net.conv(12, kernel=1, activation="none"))
    net.conv(0, stride=2, depthwise=True)
    net.conv(20, kernel=1)
    net.mean()
    net.dense(6)
    data: bytes = to_onnx(net)
    return data


class _Drawn:
    """Convolutions with kernels of any form, in a file written by hand."""

    def __init__(self, seed: int) -> None:
        self.random, self.writer = np.random.default_rng(seed), TfliteWriter()
        self.tensors: dict[int, tuple[tuple[int, ...], float]] = {}

    def input(self, shape: tuple[int, ...]) -> int:
        return self._tensor("input", shape, 1 / 64, -3)

    def conv(self, x: int, out: int, kernel: tuple[int, int], stride: int, last: str = "") -> int:
        (n, height, width, channels), scale = self.tensors[x]
        weights = self.random.integers(-127, 128, (out, *kernel, channels)).astype(np.int8)
        spread = self.random.uniform(0.5, 1.5, out) / (73 * weights[0].size ** 0.5)
        scales = tuple(np.float32(spread).astype(float).tolist())
        both = tuple(float(np.float32(scale) * np.float32(s)) for s in scales)
        bias = self.random.integers(-2000, 2000, out).astype(np.int32)
        down = stride if height > 1 else 1
        shape = (n, -(-height // down), -(-width // stride), out)
        y = self._tensor(last or f"t{x}", shape, 0.02, 3 if last else -128)
        inputs = [x, self.writer.constant("w", weights, scale=scales, axis=0)]
        inputs.append(self.writer.constant("b", bias, scale=both))
        options = {"strideH": down, "strideW": stride, "padding": SAME}
        if not last:
            options["fusedActivationFunction"] = RELU
        self.writer.op("CONV_2D", inputs, [y], (), **options)
        return y

    def _tensor(self, name: str, shape: tuple[int, ...], scale: float, zero_point: int) -> int:
        index: int = self.writer.tensor(name, shape, scale=scale, zero_point=zero_point)
        self.tensors[index] = shape, scale
        return index


def detector() -> bytes:
    """A trunk and two heads: boxes and scores of a grid of 6 x 6 cells."""
    drawn = _Drawn(13)
    x = first = drawn.input((1, 24, 24, 3))
    for out, stride in ((8, 2), (16, 2), (16, 1)):
        x = drawn.conv(x, out, (3, 3), stride)
    boxes, scores = drawn.conv(x, 8, (1, 1), 1, "boxes"), drawn.conv(x, 4, (3, 3), 1, "scores")
    data: bytes = drawn.writer.finish([first], [boxes, scores])
    return data


def autoencoder() -> bytes:
    """Dense layers only: 64 values through a neck of 8 and back."""
    data: bytes = to_tflite(dense_net(64, (32, 8, 32, 64), seed=14))
    return data


def sound() -> bytes:
    """Convolutions along time over 8 channels, the result is a track of 16 steps."""
    drawn = _Drawn(15)
    x = first = drawn.input((1, 1, 128, 8))
    for out, width, stride in ((16, 9, 2), (16, 5, 2), (24, 5, 2)):
        x = drawn.conv(x, out, (1, width), stride)
    data: bytes = drawn.writer.finish([first], [drawn.conv(x, 5, (1, 3), 1, "track")])
    return data


NETWORKS: dict[str, Callable[[], bytes]] = {
    "plain": plain,
    "separable": separable,
    "detector": detector,
    "autoencoder": autoencoder,
    "sound": sound,
}
