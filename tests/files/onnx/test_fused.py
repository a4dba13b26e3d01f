"""Fused ops of onnxruntime against onnxruntime itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import OnnxWriter, save
from npuscope.files.load import load_model
from npuscope.ops.run import run
from npuscope.profiling.runtimes import onnxruntime_session

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(3)


def real(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


# kind, shape of x, constants, attributes
FUSED: list[tuple[str, tuple[int, ...], list[np.ndarray], dict[str, Any]]] = [
    ("FusedConv", (1, 3, 5, 7), [real(4, 3, 3, 3), real(4)], {"activation": "Relu"}),
    (
        "FusedConv",
        (1, 2, 5, 7),
        [real(4, 2, 3, 3)],
        {"activation": "LeakyRelu", "activation_params": [0.3]},
    ),
    (
        "FusedConv",
        (1, 2, 5, 7),
        [real(4, 2, 3, 3)],
        {"activation": "Clip", "activation_params": [-0.5, 0.7]},
    ),
    ("FusedGemm", (3, 5), [real(5, 4), real(4)], {"activation": "Tanh"}),
    ("FusedMatMul", (2, 3, 5), [real(4, 5)], {"transB": 1, "alpha": 0.25}),
    ("BiasGelu", (2, 3, 5), [real(5)], {}),
    ("FastGelu", (2, 3, 5), [real(5)], {}),
    ("QuickGelu", (2, 3, 5), [], {}),
    ("SkipLayerNormalization", (2, 3, 5), [real(2, 3, 5), real(5), real(5), real(5)], {}),
    ("SkipSimplifiedLayerNormalization", (2, 3, 5), [real(2, 3, 5), real(5)], {}),
    ("Attention", (2, 3, 8), [real(8, 24), real(24)], {"num_heads": 2}),
]


@pytest.mark.parametrize(("kind", "shape", "constants", "attrs"), FUSED)
def test_fused(
    kind: str,
    shape: tuple[int, ...],
    constants: list[np.ndarray],
    attrs: dict[str, Any],
    tmp_path: Path,
) -> None:
    w = OnnxWriter()
    names = [w.constant(value) for value in constants]
    w.node(f"com.microsoft.{kind}", w.input("x", shape), *names, name="n", output="y", **attrs)
    path = save(tmp_path, "m.onnx", w.finish({"y": None}))
    x = real(*shape)
    wanted = onnxruntime_session(str(path)).run(None, {"x": x})[0]
    graph = load_model(path)
    assert not [op for op in graph.ops if op.kind == "Unknown"]
    found = run(graph, {"x": x})["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
