"""The table of ops: what rows name exists; shapes and multiply-accumulates."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature

import pytest

from npuscope.errors import InternalError, ModelError
from npuscope.files.onnx.reader import converter as onnx_converter
from npuscope.files.tflite.reader import OPERATORS
from npuscope.files.tflite.reader import converter as tflite_converter
from npuscope.graph import DType, Graph, Op, Tensor
from npuscope.graph.model import Attrs
from npuscope.ops import (
    elementwise,
    functions,
    images,
    indexing,
    layers,
    moves,
    norms,
    recurrent,
    reduce,
    unknown,
)
from npuscope.ops.kernels.table import makers
from npuscope.ops.layers import ConvAttrs, DenseAttrs, MatMulAttrs, is_depthwise
from npuscope.ops.moves import ConcatAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.ops.row import broadcast
from npuscope.ops.table import ONNX, OPS, TFLITE, macs, spec, total_macs
from npuscope.ops.unknown import UNKNOWN

Shape = tuple[int, ...]


def graph_of(kind: str, attrs: Attrs, inputs: list[Shape], output: Shape = ()) -> Graph:
    tensors = [Tensor(f"i{n}", shape, DType.INT8) for n, shape in enumerate(inputs)]
    names = tuple(tensor.name for tensor in tensors)
    op = Op(kind, "op", names, ("y",), attrs)
    return Graph("g", [*tensors, Tensor("y", output, DType.INT8)], [op], names[:1], ["y"])


def shape_of(kind: str, attrs: Attrs, *inputs: Shape) -> Shape:
    graph = graph_of(kind, attrs, list(inputs))
    return OPS[kind].shape(graph, graph.ops[0])[0]


def test_conv_shapes() -> None:
    attrs = ConvAttrs((2, 1), (1, 0, 1, 2), (1, 3))
    assert shape_of("Conv2D", attrs, (2, 9, 11, 4), (7, 3, 2, 4)) == (2, 5, 10, 7)


@pytest.mark.parametrize(
    ("attrs", "x", "w", "text"),
    [
        (ConvAttrs(), (1, 5, 5, 3), (4, 3, 3, 2), "3 input and 4 output channels do not fit"),
        (ConvAttrs(groups=3), (1, 5, 5, 3), (4, 3, 3, 1), "do not fit 3 groups of 1"),
        (ConvAttrs(), (1, 2, 5, 3), (4, 3, 3, 3), "a window of 3 does not fit into 2 elements"),
        (ConvAttrs((0, 1)), (1, 5, 5, 3), (4, 3, 3, 3), "stride 0"),
        (ConvAttrs(), (5, 5, 3), (4, 3, 3, 3), "expected 4 axes"),
    ],
)
def test_conv_that_does_not_fit(attrs: ConvAttrs, x: Shape, w: Shape, text: str) -> None:
    with pytest.raises(ModelError, match=text):
        shape_of("Conv2D", attrs, x, w)


def test_other_shapes() -> None:
    assert shape_of("FullyConnected", DenseAttrs(), (2, 3, 8), (5, 8)) == (2, 3, 5)
    assert shape_of("MatMul", MatMulAttrs(transpose_b=True), (2, 1, 3, 8), (4, 5, 8)) == (
        2,
        4,
        3,
        5,
    )
    assert shape_of("Concat", ConcatAttrs(1), (1, 2, 3), (1, 5, 3)) == (1, 7, 3)
    assert shape_of("MaxPool", PoolAttrs((3, 2), (2, 2)), (1, 9, 8, 5)) == (1, 4, 4, 5)


def test_broadcast() -> None:
    assert broadcast((4, 1, 3), (5, 1), ()) == (4, 5, 3)
    with pytest.raises(ModelError, match="do not broadcast"):
        broadcast((4, 2), (3,))


def test_macs() -> None:
    depthwise = graph_of("Conv2D", ConvAttrs(groups=6), [(1, 4, 4, 6), (6, 3, 3, 1)], (1, 2, 2, 6))
    assert macs(depthwise, depthwise.ops[0]) == 4 * 6 * 9
    assert is_depthwise(depthwise, depthwise.ops[0])
    product = graph_of("MatMul", MatMulAttrs(), [(3, 8), (8, 5)], (3, 5))
    assert total_macs(product) == 3 * 5 * 8
    assert not is_depthwise(product, product.ops[0])


@pytest.mark.parametrize(
    "kind", [k for k in OPS if OPS[k].kernel.form != "several" and k != UNKNOWN]
)
def test_kernels_that_a_row_names_exist(kind: str) -> None:
    row, made = OPS[kind].kernel, makers(kind)
    for name, maker in ((row.real, made.real), (row.litert, made.litert), (row.qdq, made.qdq)):
        assert callable(maker) if name else maker is None or callable(maker)
    assert any((made.real, made.litert, made.qdq))


@pytest.mark.parametrize("operator", OPERATORS)
def test_converters_of_tflite_exist(operator: str) -> None:
    import tflite

    assert len(signature(tflite_converter(operator)).parameters) == 2
    assert hasattr(tflite.BuiltinOperator, operator)
    table, *fields = OPERATORS[operator].options or ("Model",)
    assert all(hasattr(getattr(tflite, table), field) for field in fields)


@pytest.mark.parametrize("kind", ONNX)
def test_converters_of_onnx_exist(kind: str) -> None:
    assert len(signature(onnx_converter(kind)).parameters) == 1


def test_a_name_in_a_file_means_one_op() -> None:
    assert len(TFLITE) == sum(len(row.tflite) for row in OPS.values())
    assert len(ONNX) == sum(len(row.onnx) for row in OPS.values())
    themes = (elementwise, functions, images, indexing, layers, moves, norms, reduce)
    themes += (recurrent, unknown)
    assert len(OPS) == sum(len(theme.ROWS) for theme in themes)


def test_rows_load_no_kernel_and_no_converter() -> None:
    code = "import sys, npuscope.ops.table; print(*[m for m in sys.modules if 'npuscope' in m])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert "npuscope.ops.moves" in loaded
    assert "npuscope.ops.kernels" not in loaded and "npuscope.files" not in loaded


def test_unknown_kind() -> None:
    with pytest.raises(InternalError, match="op 'a' has the unknown kind 'Foo'"):
        spec(Op("Foo", "a", (), (), Attrs()))
