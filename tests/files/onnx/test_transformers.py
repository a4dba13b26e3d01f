"""Patterns of stock transformer exports, in small: read whole, and equal to onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from models import OnnxWriter, save
from npuscope.cli.main import main
from npuscope.files.load import load_model
from npuscope.ops.run import run
from npuscope.ops.unknown import unknown_names
from npuscope.profiling.agreement import random_sample
from npuscope.profiling.runtimes import onnxruntime_session

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(5)
TOKENS, UNITS, HEADS = 6, 8, 2


def real(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def whole(w: OnnxWriter, *values: int) -> str:
    return w.constant(np.array(values, np.int64))


def shape_of_a_constant(w: OnnxWriter, x: str) -> str:
    """BERT: positions are cut out of a table, by the shape of another constant."""
    table = w.constant(np.arange(32, dtype=np.int64).reshape(1, 32))
    size = w.node("Gather", w.node("Shape", table), whole(w, 1), axis=0)
    kept = w.node("Slice", table, whole(w, 0), size, whole(w, 1))
    first = w.node("Slice", kept, whole(w, 0), whole(w, TOKENS), whole(w, 1))
    return w.node("Add", x, w.node("Gather", w.constant(real(32, UNITS)), first, axis=0))


def mask(w: OnnxWriter, x: str) -> str:
    """Where with a mask, then NaN of rows without any place replaced by 0."""
    scores = w.node("MatMul", x, w.node("Transpose", x, perm=[0, 2, 1]))
    allowed = np.tril(np.ones((TOKENS, TOKENS), bool))
    allowed[0] = False
    away = w.node("Where", w.constant(allowed), scores, w.constant(np.float32(-np.inf)))
    weights = w.node("Softmax", away, axis=-1)
    clean = w.node("Where", w.node("IsNaN", weights), w.constant(np.float32(0)), weights)
    return w.node("MatMul", clean, x)


def elements(w: OnnxWriter, x: str) -> str:
    places = w.constant(np.array([[[0] * UNITS, [2] * UNITS]], np.int64))
    return w.node("GatherElements", x, places, axis=1)


def rows(w: OnnxWriter, x: str) -> str:
    return w.node("GatherND", x, w.constant(np.array([[0, 5], [0, -1]], np.int64)))


def product(w: OnnxWriter, x: str) -> str:
    return w.node("Einsum", x, w.constant(real(UNITS, 5)), equation="bti,io->bto")


def norm(w: OnnxWriter, x: str) -> str:
    normal = w.node("LayerNormalization", x, w.constant(real(UNITS)), w.constant(real(UNITS)))
    return w.node("Gelu", normal)


def heads(w: OnnxWriter, x: str) -> str:
    """Sizes of the heads are computed from the shape of the input."""
    shape = w.node("Shape", x)
    sizes = [w.node("Gather", shape, whole(w, axis), axis=0) for axis in (0, 1)]
    target = w.node("Concat", *sizes, whole(w, HEADS, -1), axis=0)
    split = w.node("Transpose", w.node("Reshape", x, target), perm=[0, 2, 1, 3])
    return w.node("Softmax", split, axis=-1)


PATTERNS: list[Callable[[OnnxWriter, str], str]] = [
    *(shape_of_a_constant, mask, elements, rows, product, norm, heads)
]


def written(pattern: Callable[[OnnxWriter, str], str], tokens: int | str = TOKENS) -> bytes:
    w = OnnxWriter(20)
    w.node("Identity", pattern(w, w.input("x", (1, tokens, UNITS))), output="y")
    return w.finish({"y": None})


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(pattern: Callable[[OnnxWriter, str], str], tmp_path: Path) -> None:
    path = save(tmp_path, "m.onnx", written(pattern))
    x = real(1, TOKENS, UNITS)
    wanted = onnxruntime_session(str(path)).run(None, {"x": x})[0]
    graph = load_model(path)
    assert unknown_names(graph) == ()
    np.testing.assert_allclose(run(graph, {"x": x})["y"], wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("option", ["tokens=6", "tokens,6"])
def test_a_symbol_has_a_size_on_the_command_line(option: str, tmp_path: Path) -> None:
    path = str(save(tmp_path, "m.onnx", written(heads, "tokens")))
    words = ["manycore", "compile", "-model", path, "-aic-binary-dir", str(tmp_path / "q")]
    assert main([*words, "-onnx-define-symbol", option]) == 0
    assert load_model(path, {"tokens": (6,)}).tensor("y").shape == (1, HEADS, 6, UNITS // HEADS)


def test_token_networks_are_sampled_inside_of_their_tables(tmp_path: Path) -> None:
    """Validation draws indices that the table has, not any integer."""
    w = OnnxWriter(20)
    ids = w.input("ids", (1, TOKENS), TensorProto.INT64)
    rows_of_table = w.node("Gather", w.constant(real(5, UNITS)), ids, axis=0)
    w.node("Identity", rows_of_table, output="y")
    graph = load_model(save(tmp_path, "m.onnx", w.finish({"y": None})))
    found = random_sample(graph, np.random.default_rng(0))["ids"]
    assert found.min() >= 0 and found.max() < 5
