"""Outside runtimes are opened in one way: integer products are exact, whatever the CPU."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuscope.profiling.runtimes import onnxruntime_session, with_like_signs

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
ROOT = Path(__file__).parents[2]
PARTS = ("src", "tests", "benchmarks", "tools", "docs", "firmware")
OPENERS = {"InferenceSession", "Interpreter", "InterpreterWithCustomOps"}
KINDS = ("QLinearConv", "QLinearMatMul", "QGemm", "ConvInteger", "MatMulInteger")
SIGNS = [(x, w) for x in ("uint8", "int8") for w in ("uint8", "int8")]
# onnxruntime has no kernel for int8 times uint8 in these.
REFUSED = [(kind, "int8", "uint8") for kind in ("QLinearConv", "QLinearMatMul", "QGemm")]
RUN = [
    (kind, x, w, zero_points)
    for kind in KINDS
    for x, w in SIGNS
    for zero_points in ((True, False) if kind.endswith("Integer") else (True,))
    if (kind, x, w) not in REFUSED
]
TERMS = 64


def extremes(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Values whose products two by two do not fit in 16 bits."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(0).choice([limits.min, limits.max], shape).astype(dtype)


def middle(dtype: str) -> np.ndarray:
    return np.array(np.iinfo(dtype).max // 2 - 3, dtype)


def model(kind: str, x: str, w: str, zero_points: bool = True) -> bytes:
    """Nine rows of `TERMS` values times eight columns of weights."""
    is_conv, is_integer = "Conv" in kind, kind.endswith("Integer")
    shape, weights = ([1, TERMS, 3, 3], (8, TERMS, 1, 1)) if is_conv else ([9, TERMS], (TERMS, 8))
    values = {
        "w": extremes(w, weights),
        "w_zero": middle(w),
        "x_zero": middle(x),
        "one": np.float32(1),
        "y_scale": np.float32(TERMS * 256),
    }
    places = {
        "QGemm": ["x", "one", "x_zero", "w", "one", "w_zero", "", "y_scale", "x_zero"],
        "ConvInteger": ["x", "w", "x_zero", "w_zero"][: 4 if zero_points else 2],
    }
    places["MatMulInteger"] = places["ConvInteger"]
    qlinear = ["x", "one", "x_zero", "w", "one", "w_zero", "y_scale", "x_zero"]
    domain = "com.microsoft" if kind == "QGemm" else ""
    node = helper.make_node(kind, places.get(kind, qlinear), ["y"], domain=domain)
    types = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("x", types[x], shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32 if is_integer else types[x], None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def wanted(kind: str, x: np.ndarray, w: str, zero_points: bool) -> np.ndarray:
    x_zero, w_zero = (int(middle(t)) if zero_points else 0 for t in (str(x.dtype), w))
    if "Conv" in kind:
        weights = extremes(w, (8, TERMS)).astype(int) - w_zero
        sums = np.einsum("bchw,oc->bohw", x.astype(int) - x_zero, weights)
    else:
        sums = (x.astype(int) - x_zero) @ (extremes(w, (TERMS, 8)).astype(int) - w_zero)
    if kind.endswith("Integer"):
        return sums
    limits = np.iinfo(x.dtype)
    return np.clip(np.rint(sums / (TERMS * 256)) + x_zero, limits.min, limits.max)


def signs(data: bytes | str) -> list[set[int]]:
    """Types of both sides of every product in a model of one product."""
    assert isinstance(data, bytes)
    graph = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(data)).graph
    types = {value.name: value.type.tensor_type.elem_type for value in graph.value_info}
    types |= {value.name: value.type.tensor_type.elem_type for value in graph.input}
    types |= {value.name: value.data_type for value in graph.initializer}
    products = [node for node in graph.node if node.op_type in KINDS]
    return [{types["x"], types[n.input[3 if len(n.input) > 4 else 1]]} for n in products]


def opens_a_runtime(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    if not any(word in text for word in OPENERS):
        return False
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.name for node in nodes if isinstance(node, ast.alias)}
    return bool(names & OPENERS)


def test_runtimes_are_opened_in_one_place() -> None:
    files = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    found = [path.relative_to(ROOT).as_posix() for path in files if opens_a_runtime(path)]
    assert found == ["src/npuscope/profiling/runtimes.py"]


@pytest.mark.parametrize(("x", "w"), SIGNS)
@pytest.mark.parametrize("kind", KINDS)
def test_signs_are_alike(kind: str, x: str, w: str) -> None:
    data = model(kind, x, w)
    like = with_like_signs(data)
    assert (like is data) == (x == w)
    assert [len(pair) for pair in signs(data)] == [1 if x == w else 2]
    assert [len(pair) for pair in signs(like)] == [1]


def test_weights_in_another_file_are_found(tmp_path: Path) -> None:
    kind, (x, w) = "QLinearMatMul", ("uint8", "int8")
    path = tmp_path / "net.onnx"
    proto = onnx.load_from_string(model(kind, x, w))
    onnx.save(proto, path, save_as_external_data=True, size_threshold=0, location="net.bin")
    values = extremes(x, (9, TERMS))
    (found,) = onnxruntime_session(str(path)).run(None, {"x": values})
    np.testing.assert_array_equal(found, wanted(kind, values, w, True))


@pytest.mark.parametrize(("kind", "x", "w", "zero_points"), RUN)
def test_products_are_exact(kind: str, x: str, w: str, zero_points: bool) -> None:
    values = extremes(x, (1, TERMS, 3, 3) if "Conv" in kind else (9, TERMS))
    (found,) = onnxruntime_session(model(kind, x, w, zero_points)).run(None, {"x": values})
    expected = wanted(kind, values, w, zero_points)
    assert expected.std() > 1
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("kind", "x", "w"), REFUSED)
def test_what_onnxruntime_refuses_is_refused(kind: str, x: str, w: str) -> None:
    with pytest.raises(Exception, match=r"NOT_IMPLEMENTED|INVALID_GRAPH|FAIL"):
        onnxruntime_session(model(kind, x, w))


def test_a_model_of_floats_is_opened_as_it_is() -> None:
    node = helper.make_node("MatMul", ["x", "x"], ["y"])
    square = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])
    data = helper.make_model(helper.make_graph([node], "g", [square], [made]), ir_version=8)
    text = data.SerializeToString()
    assert with_like_signs(text) is text
