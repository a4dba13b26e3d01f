"""Weights moved between layers: the same function, channels of like size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models_onnx import OnnxWriter
from npuscope.quantizing.onnx_work import OnnxWork
from quantizing.float_nets import SIZE, conv, pictures, weights

pytest.importorskip("onnxruntime")


def work(folder: Path, between: str, groups: int = 1) -> OnnxWork:
    """Two layers; the channels between them differ by a factor of 400."""
    w = OnnxWriter()
    first = weights(8, 3, 3, 3) * np.geomspace(0.05, 20, 8).reshape(8, 1, 1, 1).astype(np.float32)
    x = conv(w, w.input("image", (1, 3, SIZE, SIZE)), first)
    x = w.node(between, x)
    second = weights(8, 8 // groups, 3, 3, seed=5)
    shrink = np.geomspace(20, 0.05, 8).astype(np.float32)
    second *= shrink.reshape((8, 1, 1, 1) if groups > 1 else (1, 8, 1, 1))
    w.node("Identity", conv(w, x, second, group=groups), output="y")
    path = folder / "pair.onnx"
    path.write_bytes(w.finish({"y": None}))
    return OnnxWork(path, None, folder)


SAMPLES = [{"image": picture[None]} for picture in pictures(4)]


def spread(made: OnnxWork, equalised: bool) -> float:
    name = made.layers[0].outputs[0]
    values = next(made.run(made.networks[equalised].data, SAMPLES, [name]))[name]
    peaks = np.abs(values).max(axis=(0, 2, 3))
    return float(peaks.max() / peaks.min())


@pytest.mark.parametrize("groups", [1, 8])
def test_channels_come_together_and_the_function_stays(tmp_path: Path, groups: int) -> None:
    made = work(tmp_path, "Relu", groups)
    assert made.equalise(SAMPLES)
    assert spread(made, True) < spread(made, False) / 20
    before, after = (next(made.run(made.networks[e].data, SAMPLES, [])) for e in (False, True))
    (name,) = before
    assert np.abs(before[name] - after[name]).max() < 1e-3 * np.abs(before[name]).max()


def test_a_function_that_is_not_linear_in_size_is_left_alone(tmp_path: Path) -> None:
    assert not work(tmp_path, "Sigmoid").equalise(SAMPLES)
