"""The executor around the kernels: inputs, kept tensors, plans, errors."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from npuscope.errors import ModelError
from npuscope.graph.model import Attrs, DType, Graph, Numerics, Op, Quant, Tensor
from npuscope.ops import run as executor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.moves import ConcatAttrs
from npuscope.ops.reduce import ArgAttrs
from npuscope.ops.run import plan_of, run, trace

Q = Quant((0.5,), (0,))


def tensor(name: str, shape: tuple[int, ...] = (2, 3)) -> Tensor:
    return Tensor(name, shape, DType.INT8, Q)


def add(name: str, a: str, b: str, out: str) -> Op:
    return Op("Add", name, (a, b), (out,), BinaryAttrs())


def small_graph() -> Graph:
    """out = (x + x) + ((x + x) + x): one tensor is read twice, one op later than the next."""
    ops = [add("one", "x", "x", "a"), add("two", "a", "x", "b"), add("three", "a", "b", "out")]
    return Graph("small", map(tensor, ("x", "a", "b", "out")), ops, ("x",), ("out",))


X = np.array([[1, -2, 3], [4, 100, -100]], np.int8)


def test_run_gives_outputs_and_what_is_kept() -> None:
    graph = small_graph()
    assert run(graph, {"x": X})["out"].tolist() == [[5, -10, 15], [20, 127, -128]]
    kept = run(graph, {"x": X}, keep=["b"])
    assert set(kept) == {"b", "out"}
    assert kept["b"].tolist() == [[3, -6, 9], [12, 127, -128]]
    assert set(run(graph, {"x": X}, keep=["x"])) == {"x", "out"}


def test_a_scalar_is_an_array_that_the_next_graph_takes() -> None:
    places = Op("ArgMin", "places", ("x",), ("out",), ArgAttrs(0, False))
    tensors = tensor("x", (3,)), Tensor("out", (), DType.INT64)
    found = run(Graph("g", tensors, [places], ("x",), ("out",)), {"x": X[0]})["out"]
    assert isinstance(found, np.ndarray) and found == 1


@pytest.mark.parametrize(("kind", "value"), [("Add", 9), ("Sub", 3), ("Mul", 9), ("Div", 4)])
def test_numbers_without_axes_stay_numbers(kind: str, value: int) -> None:
    made = Op(kind, "made", ("x", "y"), ("out",), BinaryAttrs())
    graph = Graph(
        "g", [tensor(name, ()) for name in ("x", "y", "out")], [made], ("x", "y"), ("out",)
    )
    found = run(graph, {"x": np.array(6, np.int8), "y": np.array(3, np.int8)})["out"]
    assert (found.shape, found) == ((), value)


def test_trace_gives_every_tensor_in_order() -> None:
    assert list(trace(small_graph(), {"x": X})) == ["a", "b", "out"]


def test_tensors_die_with_their_last_reader() -> None:
    stages = plan_of(small_graph()).stages
    assert [stage.dying for stage in stages] == [(), ("x",), ("a", "b", "out")]


def test_inputs_are_not_changed() -> None:
    before = X.copy()
    trace(small_graph(), {"x": X})
    assert np.array_equal(X, before)


def test_the_plan_is_kept_until_the_graph_changes() -> None:
    graph = small_graph()
    first = plan_of(graph)
    assert plan_of(graph) is first
    graph.ops[2] = add("three", "a", "x", "out")
    graph.ops.pop(1)
    assert plan_of(graph) is not first
    assert run(graph, {"x": X})["out"].tolist() == [[3, -6, 9], [12, 127, -128]]


def test_plans_die_with_their_graphs() -> None:
    graph = small_graph()
    plan_of(graph)
    key = id(graph)
    del graph
    gc.collect()
    assert key not in executor._PLANS


BAD_INPUTS = [
    ({}, "no values were given for input 'x'"),
    ({"y": X}, "the graph has no input 'y', it takes 'x'"),
    ({"x": X.astype(np.int16)}, r"input 'x' is int16 \(2, 3\), expected int8 \(2, 3\)"),
    ({"x": X[:1]}, r"input 'x' is int8 \(1, 3\), expected int8 \(2, 3\)"),
    ({"x": X.tolist()}, "input 'x' is a list, expected a numpy array"),
]


@pytest.mark.parametrize(("inputs", "text"), BAD_INPUTS)
def test_wrong_inputs(inputs: dict, text: str) -> None:
    with pytest.raises(ModelError, match=text):
        run(small_graph(), inputs)


def test_keeping_an_unknown_tensor() -> None:
    with pytest.raises(ModelError, match="the graph has no tensor 'z' to keep"):
        run(small_graph(), {"x": X}, keep=["z"])


def test_unknown_kind() -> None:
    op = Op("Warp", "odd", ("x",), ("out",), Attrs())
    graph = Graph("g", (tensor("x"), tensor("out")), [op], ("x",), ("out",))
    with pytest.raises(ModelError, match=r"op 'odd' \(Warp\): .* no kernel for 'Warp'"):
        run(graph, {"x": X})


def test_quantized_op_without_a_scale() -> None:
    bare = Tensor("out", (2, 3), DType.INT8)
    graph = Graph("g", (tensor("x"), bare), [add("sum", "x", "x", "out")], ("x",), ("out",))
    with pytest.raises(ModelError, match="tensor 'out' has type int8 but no scale"):
        run(graph, {"x": X})


def test_concat_of_unequal_scales_rounds_to_the_output() -> None:
    other = Tensor("out", (2, 6), DType.INT8, Quant((0.25,), (0,)))
    op = Op("Concat", "join", ("x", "x"), ("out",), ConcatAttrs(1))
    graph = Graph("g", (tensor("x"), other), [op], ("x",), ("out",))
    quant = graph.tensors["x"].quant
    assert quant is not None
    real = (X.astype(np.float64) - quant.zero_point) * quant.scale
    wanted = np.clip(np.trunc(real / 0.25 + np.copysign(0.5, real)), -128, 127)
    found = run(graph, {"x": X})["out"]
    assert np.array_equal(found, np.concatenate([wanted, wanted], 1))


def test_weights_that_are_no_constant() -> None:
    tensors = (tensor("x", (1, 4, 4, 2)), tensor("w", (3, 1, 1, 2)), tensor("y", (1, 4, 4, 3)))
    op = Op("Conv2D", "conv", ("x", "w"), ("y",), ConvAttrs())
    graph = Graph("g", tensors, [op], ("x", "w"), ("y",))
    values = {t.name: np.zeros(t.shape, np.int8) for t in tensors[:2]}
    with pytest.raises(ModelError, match=r"op 'conv' \(Conv2D\): the weights 'w' are not constant"):
        run(graph, values)


def test_shapes_that_contradict_the_graph() -> None:
    shapes = {"x": (2, 3), "y": (4,), "out": (2, 3)}
    tensors = [tensor(name, shape) for name, shape in shapes.items()]
    graph = Graph("g", tensors, [add("sum", "x", "y", "out")], ("x", "y"), ("out",))
    with pytest.raises(ModelError, match=r"op 'sum' \(Add\): the op cannot run"):
        run(graph, {"x": X, "y": np.zeros(4, np.int8)})
    wrong = [tensor("x"), tensor("out", (3, 2))]
    graph = Graph("g", wrong, [add("sum", "x", "x", "out")], ("x",), ("out",))
    with pytest.raises(
        ModelError, match=r"gives int8 \(2, 3\), but the graph states int8 \(3, 2\)"
    ):
        run(graph, {"x": X})


@pytest.mark.parametrize("numerics", list(Numerics))
def test_float_ops_run_in_both_numerics(numerics: Numerics) -> None:
    tensors = [Tensor(name, (2, 3), DType.FLOAT32) for name in ("x", "out")]
    graph = Graph("g", tensors, [add("sum", "x", "x", "out")], ("x",), ("out",), numerics)
    values = X.astype(np.float32)
    assert np.array_equal(run(graph, {"x": values})["out"], 2 * values)
