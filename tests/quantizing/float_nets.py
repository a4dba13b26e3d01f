"""Small float networks and data for the tests of quantize."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models_onnx import OnnxWriter

SIZE = 12


def weights(*shape: int, seed: int = 0, spread: float = 0.5) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, shape).astype(np.float32)


def conv(w: OnnxWriter, x: str, kernel: np.ndarray, **attributes: object) -> str:
    bias = w.constant(weights(kernel.shape[0], seed=7, spread=0.1))
    pads = [kernel.shape[-1] // 2] * (2 * (kernel.ndim - 2))
    return w.node("Conv", x, w.constant(kernel), bias, pads=pads, **attributes)


def norm(w: OnnxWriter, x: str, channels: int) -> str:
    numbers = (
        np.linspace(0.5, 2, channels),
        np.linspace(-0.5, 0.5, channels),
        np.zeros(channels),
        np.full(channels, 2.0),
    )
    return w.node("BatchNormalization", x, *(w.constant(v.astype(np.float32)) for v in numbers))


def small_net(folder: Path, opset: int = 13) -> Path:
    """An open batch, a BatchNormalization, a PReLU, a residual Add and a join, a Softmax."""
    w = OnnxWriter(opset)
    x = w.input("image", ("batch", 3, SIZE, SIZE))
    x = w.node("Relu", norm(w, conv(w, x, weights(8, 3, 3, 3)), 8))
    slope = w.constant(np.linspace(0.1, 0.4, 8, dtype=np.float32).reshape(8, 1, 1))
    y = w.node("PRelu", conv(w, x, weights(8, 8, 3, 3, seed=1, spread=0.2)), slope)
    x = w.node("Add", x, y)
    x = w.node("Concat", x, conv(w, x, weights(8, 8, 1, 1, seed=2)), axis=1)
    x = w.node("Flatten", w.node("GlobalAveragePool", x), axis=1)
    held = w.constant(weights(5, 16, seed=3)), w.constant(weights(5, seed=4))
    scores = w.node("Gemm", x, *held, transB=1)
    w.node("Softmax", scores, axis=1, output="scores")
    path = folder / "net.onnx"
    path.write_bytes(w.finish({"scores": ("batch", 5)}))
    return path


def pictures(count: int = 16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (count, 3, SIZE, SIZE)).astype(np.float32)


def picture_file(folder: Path, count: int = 16) -> Path:
    path = folder / "data.npz"
    np.savez(path, image=pictures(count))
    return path
