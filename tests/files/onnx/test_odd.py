"""Patterns that users met trouble with elsewhere: each loads and computes what onnxruntime does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from models import OnnxWriter, save
from npuscope.files.load import load_model
from npuscope.ops.run import run
from npuscope.profiling.runtimes import onnxruntime_session

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

CASES: dict[str, Callable[[OnnxWriter, np.random.Generator], str]] = {}


def case(build: Callable[[OnnxWriter, np.random.Generator], str]) -> None:
    CASES[build.__name__] = build


@case
def guarded_tokens(w: OnnxWriter, rng: np.random.Generator) -> str:
    """int64 input, limits of int64, a table of rows."""
    x = w.input("x", (1, 9), TensorProto.INT64)
    x = w.node("Min", w.node("Max", x, w.constant(np.int64(0))), w.constant(np.int64(6)))
    y = w.node("Gather", w.constant(rng.normal(size=(7, 5))), x, axis=0)
    return w.node("Add", y, w.constant(rng.normal(size=(9, 5))))


@case
def a_table_behind_dequantize(w: OnnxWriter, rng: np.random.Generator) -> str:
    x = w.node("Clip", w.input("x", (4,), TensorProto.INT64), w.constant(np.int64(0)))
    table = w.dequantized_constant(rng.integers(-128, 128, (128, 6)).astype(np.int8), 0.03)
    return w.qdq(w.node("Gather", table, x), 0.03)


@case
def six_axes(w: OnnxWriter, rng: np.random.Generator) -> str:
    x = w.input("x", (1, 2, 3, 4, 5, 3))
    y = w.node("Transpose", x, perm=[0, 2, 1, 5, 3, 4])
    y = w.node("Reshape", y, w.constant([6, 3, 4, 5]))
    return w.node("Conv", y, w.constant(rng.normal(size=(4, 3, 3, 3))))


@case
def one_axis(w: OnnxWriter, rng: np.random.Generator) -> str:
    y = w.node("Reshape", w.input("x", (12,)), w.constant([1, 3, 4]))
    return w.node("Squeeze", w.node("ReduceSum", y, w.constant([2]), keepdims=0), w.constant([0]))


@case
def an_empty_optional_input(w: OnnxWriter, rng: np.random.Generator) -> str:
    return w.node("Pad", w.input("x", (1, 3, 4, 5)), w.constant([0, 0, 1, 0, 0, 0, 0, 2]), "")


@case
def limits_behind_dequantize(w: OnnxWriter, rng: np.random.Generator) -> str:
    low = w.dequantized_constant(np.array(-3, np.int8), 0.1)
    high = w.dequantized_constant(np.array(5, np.int8), 0.1)
    return w.node("Clip", w.input("x", (1, 30)), low, high)


@case
def zeros_of_a_computed_shape(w: OnnxWriter, rng: np.random.Generator) -> str:
    """ConstantOfShape, Range and Expand on sizes that Shape gives."""
    x = w.input("x", (2, 3, 5))
    shape = w.node("Shape", x)
    zeros = w.node("ConstantOfShape", shape)
    last = w.node("Gather", shape, w.constant(np.array(2)), axis=0)
    steps = w.node("Range", w.constant(np.int64(0)), last, w.constant(np.int64(1)))
    steps = w.node("Expand", w.node("Cast", steps, to=TensorProto.FLOAT), shape)
    return w.node("Concat", x, w.node("Mul", steps, x), w.node("Add", zeros, steps), axis=1)


@case
def halves_of_a_traced_chunk(w: OnnxWriter, rng: np.random.Generator) -> str:
    """Shape, Gather, Div, Mul give the bounds of a gated linear unit."""
    x = w.input("x", (1, 6, 5))
    count = w.node("Gather", w.node("Shape", x), w.constant(np.array(1)), axis=0)
    half = w.node("Div", w.node("Add", count, w.constant(np.int64(1))), w.constant(np.int64(2)))
    ends = [w.node("Mul", half, w.constant(np.int64(k))) for k in (1, 2)]
    ends = [w.node("Unsqueeze", end, w.constant([0])) for end in ends]
    axis = w.constant([1])
    a = w.node("Slice", x, w.constant([0]), ends[0], axis)
    b = w.node("Slice", x, ends[0], ends[1], axis)
    return w.node("Mul", a, w.node("Sigmoid", b))


@case
def root_mean_square_norm(w: OnnxWriter, rng: np.random.Generator) -> str:
    x = w.input("x", (1, 4, 8))
    mean = w.node("ReduceMean", w.node("Pow", x, w.constant(np.float32(2))), axes=[-1])
    root = w.node("Sqrt", w.node("Add", mean, w.constant(np.float32(1e-6))))
    return w.node("Mul", w.node("Div", x, root), w.constant(rng.normal(size=8)))


@case
def rotated_positions(w: OnnxWriter, rng: np.random.Generator) -> str:
    """Sine and cosine of a constant table, the halves of x swapped."""
    x = w.input("x", (1, 2, 5, 8))
    angles = w.constant(rng.normal(size=(5, 8)))
    sine, cosine = w.node("Sin", angles), w.node("Cos", angles)
    axis = w.constant([3])
    left = w.node("Slice", x, w.constant([0]), w.constant([4]), axis)
    right = w.node("Slice", x, w.constant([4]), w.constant([2**63 - 1]), axis)
    turned = w.node("Concat", w.node("Neg", right), left, axis=-1)
    return w.node("Add", w.node("Mul", x, cosine), w.node("Mul", turned, sine))


@case
def layer_norm_in_pieces(w: OnnxWriter, rng: np.random.Generator) -> str:
    x = w.input("x", (1, 4, 8))
    below = w.node("Sub", x, w.node("ReduceMean", x, axes=[2]))
    spread = w.node("ReduceMean", w.node("Mul", below, below), axes=[2])
    inverse = w.node("Reciprocal", w.node("Sqrt", w.node("Add", spread, w.constant(1e-5))))
    return w.node("Mul", below, inverse)


@case
def gate_of_a_recurrent_unit(w: OnnxWriter, rng: np.random.Generator) -> str:
    """(1 - z) * n + z * h with a number on the left."""
    x = w.input("x", (1, 16))
    z = w.node("Sigmoid", w.node("MatMul", x, w.constant(rng.normal(size=(16, 16)))))
    n = w.node("Tanh", w.node("Gemm", x, w.constant(rng.normal(size=(16, 16))), x))
    return w.node("Add", w.node("Mul", w.node("Sub", w.constant(1.0), z), n), w.node("Mul", z, x))


@case
def blocks_by_einsum(w: OnnxWriter, rng: np.random.Generator) -> str:
    return w.node(
        "Einsum",
        w.input("x", (2, 3, 4)),
        w.constant(rng.normal(size=(3, 4, 5))),
        equation="bgi,gio->bgo",
    )


@case
def heads_of_attention(w: OnnxWriter, rng: np.random.Generator) -> str:
    """Reshape to rank 5, a Split of three, products of two activations."""
    x = w.node("MatMul", w.input("x", (1, 6, 8)), w.constant(rng.normal(size=(8, 24))))
    x = w.node("Transpose", w.node("Reshape", x, w.constant([1, 6, 3, 2, 4])), perm=[2, 0, 3, 1, 4])
    parts = w.nodes_with("Split", [x, w.constant([1, 1, 1])], 3, axis=0)
    q, k, v = (w.node("Squeeze", part, w.constant([0])) for part in parts)
    scores = w.node("MatMul", q, w.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = w.node("Softmax", w.node("Mul", scores, w.constant(0.5)), axis=-1)
    y = w.node("Transpose", w.node("MatMul", scores, v), perm=[0, 2, 1, 3])
    return w.node("Reshape", y, w.constant([0, 0, -1]))


@case
def a_mask_of_truth(w: OnnxWriter, rng: np.random.Generator) -> str:
    x = w.input("x", (2, 7))
    mask = w.node("Not", w.node("Equal", w.node("Sign", x), w.constant(np.float32(1))))
    return w.node("Where", mask, w.constant(np.float32(-1e9)), x)


@case
def bytes_that_are_moved_before_they_get_a_scale(w: OnnxWriter, rng: np.random.Generator) -> str:
    x = w.node("Reshape", w.input("x", (1, 12), TensorProto.INT8), w.constant([1, 3, 2, 2]))
    x = w.node("DequantizeLinear", x, w.constant(np.float32(0.1)), w.constant(np.int8(3)))
    weights = w.dequantized_constant(rng.integers(-128, 128, (4, 3, 1, 1)).astype(np.int8), 0.02)
    return w.qdq(w.node("Conv", x, weights), 0.2)


@case
def bytes_that_are_read_whole_and_in_part(w: OnnxWriter, rng: np.random.Generator) -> str:
    x, scale = w.input("x", (1, 4), TensorProto.INT8), w.constant(np.float32(0.1))
    part = w.node("Gather", x, w.constant(np.array([2])), axis=1)
    whole, part = (w.node("DequantizeLinear", value, scale) for value in (x, part))
    return w.qdq(w.node("Add", whole, part), 0.2)


@case
def a_row_of_a_constant_table(w: OnnxWriter, rng: np.random.Generator) -> str:
    """The row is known while reading, with the table's scale."""
    table = w.dequantized_constant(rng.integers(-128, 128, (5, 4)).astype(np.int8), 0.03)
    row = w.node("Gather", table, w.constant(np.array([1])), axis=0)
    x = w.node(
        "DequantizeLinear", w.input("x", (1, 4), TensorProto.INT8), w.constant(np.float32(0.1))
    )
    return w.qdq(w.node("Add", x, row), 0.1)


@case
def broadcast_in_front(w: OnnxWriter, rng: np.random.Generator) -> str:
    """A constant with more axes than the activation."""
    return w.node("Mul", w.input("x", (5,)), w.constant(rng.normal(size=(1, 1, 1))))


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, tmp_path: Path) -> None:
    w = OnnxWriter(13)
    y = CASES[name](w, np.random.default_rng(3))
    w.node("Identity", y, output="y")
    data = w.finish({"y": None})
    graph = load_model(save(tmp_path, "m.onnx", data))
    source = graph.tensors["x"]
    values = np.random.default_rng(4).normal(size=source.shape) * (
        1 if source.dtype.is_float else 9
    )
    values = values.astype(source.dtype.numpy)
    session = onnxruntime_session(data)
    (wanted,) = session.run(None, {"x": values})
    found, quant = run(graph, {"x": values})["y"], graph.tensors["y"].quant
    if quant is not None:
        found = (found.astype(np.float32) - quant.zero_point) * np.float32(quant.scale)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
