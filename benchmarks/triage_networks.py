"""Small networks for the judge of `triage`, built in code: a run takes a few milliseconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from models import Net, conv_net, dense_net, mobilenet_like, to_onnx, to_tflite


def _residual(seed: int, size: int, channels: int) -> Net:
    net = Net((1, size, size, channels), seed=seed)
    stem = net.conv(8)
    second = net.conv(8, activation="none")
    net.add(stem, second, "relu")
    net.conv(16, stride=2)
    net.conv(6, kernel=1, activation="none")
    return net


def _wide(seed: int) -> Net:
    net = Net((1, 10, 30, 3), seed=seed)
    net.conv(12, kernel=3, stride=2)
    net.conv(0, depthwise=True)
    net.conv(24, kernel=1, activation="none")
    return net


def _classes(seed: int, count: int) -> Net:
    net = Net((1, 18, 18, 3), seed=seed)
    net.conv(16, stride=2)
    net.conv(32, stride=2, activation="relu")
    net.mean()
    net.dense(count)
    return net


def _grey(seed: int) -> Net:
    net = Net((1, 24, 16, 1), seed=seed)
    net.conv(10, kernel=5, stride=2)
    net.conv(0, depthwise=True)
    net.conv(12, kernel=1)
    net.mean()
    net.dense(7)
    net.softmax()
    return net


def _narrow(seed: int) -> Net:
    """Along one axis, as sound is."""
    net = Net((1, 1, 96, 6), seed=seed)
    net.conv(16, kernel=3, stride=2)
    net.conv(16, kernel=3, stride=2)
    net.conv(5, kernel=1, activation="none")
    return net


def _deep(seed: int) -> Net:
    net = Net((1, 14, 14, 3), seed=seed)
    last = net.conv(8)
    for _ in range(6):
        net.conv(8, activation="relu")
        last = net.add(last, net.conv(8, activation="none"), "relu")
    net.conv(4, kernel=1, activation="none")
    return net


NETWORKS: dict[str, Callable[[], bytes]] = {
    "mobile12.tflite": lambda: to_tflite(mobilenet_like(seed=1)),
    "mobile22.tflite": lambda: to_tflite(mobilenet_like(seed=2, size=22, width=12, classes=10)),
    "mobile20.onnx": lambda: to_onnx(mobilenet_like(seed=3, size=20, classes=20)),
    "residual20.tflite": lambda: to_tflite(_residual(4, 20, 3)),
    "residual13.onnx": lambda: to_onnx(_residual(5, 13, 3)),
    "wide.tflite": lambda: to_tflite(_wide(6)),
    "classes40.tflite": lambda: to_tflite(_classes(7, 40)),
    "classes2.tflite": lambda: to_tflite(_classes(8, 2)),
    "one_conv.tflite": lambda: to_tflite(conv_net(size=18, out=8, seed=9)),
    "depthwise.tflite": lambda: to_tflite(conv_net(size=14, depthwise=True, seed=10)),
    "dense.tflite": lambda: to_tflite(dense_net(64, (48, 24, 10), seed=11)),
    "grey.tflite": lambda: to_tflite(_grey(12)),
    "narrow.tflite": lambda: to_tflite(_narrow(13)),
    "deep.tflite": lambda: to_tflite(_deep(14)),
    "deep.onnx": lambda: to_onnx(_deep(15)),
    "wide.onnx": lambda: to_onnx(_wide(16)),
}
