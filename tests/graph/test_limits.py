"""Small files that ask for large work are refused before memory is taken, each in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models import OnnxWriter, save
from npuscope.errors import ModelError, NpuscopeError
from npuscope.files.load import load_model
from npuscope.files.onnx.constants import Const
from npuscope.graph.limits import MAX_RUN_BYTES, MAX_RUN_MACS, Computed
from npuscope.graph.model import Attrs, DType, Graph, Op, Quant, Tensor
from npuscope.ops.run import check_work
from npuscope.ops.table import total_macs
from npuscope.ops.verify import verify

Build = Callable[[OnnxWriter], str]
HINT = "let the exporter compute it, or pass it as an input"


def error_of(folder: Path, build: Build) -> NpuscopeError:
    """Of a model that multiplies its input with the sum of a computed constant."""
    writer = OnnxWriter()
    x = writer.input("x", (1, 4))
    y = writer.node("Mul", x, writer.node("ReduceSum", build(writer), keepdims=0), name="last")
    path = save(folder, "m.onnx", writer.finish({y: None}))
    with pytest.raises(NpuscopeError) as caught:
        load_model(path)
    caught.value.where = caught.value.where.removeprefix(f"{path}: ")
    return caught.value


def doubled(w: OnnxWriter) -> str:
    value = w.constant(np.ones(8, np.float32))
    for number in range(27):
        value = w.node("Concat", value, value, axis=0, name=f"twice{number}")
    return value


def expanded(w: OnnxWriter) -> str:
    return w.node("Expand", w.constant(np.ones((1, 1), np.float32)), w.constant([9000, 9000]))


def tiled(w: OnnxWriter) -> str:
    return w.node("Tile", w.constant(np.ones((1, 1), np.float32)), w.constant([9000, 9000]))


def filled(w: OnnxWriter) -> str:
    return w.node("ConstantOfShape", w.constant([9000, 9000]))


def counted(w: OnnxWriter) -> str:
    numbers = (np.array(value, np.int64) for value in (0, 10**15, 1))
    return w.node("Range", *(w.constant(number) for number in numbers))


def gathered(w: OnnxWriter) -> str:
    table, places = np.ones((2, 9000), np.float32), np.zeros(9000, np.int64)
    return w.node("Gather", w.constant(table), w.constant(places))


def crossed(w: OnnxWriter) -> str:
    row = np.ones((1, 9000), np.float32)
    return w.node("Add", w.constant(row), w.constant(row.T.copy()))


def clipped(w: OnnxWriter) -> str:
    row = np.ones((1, 9000), np.float32)
    return w.node("Clip", w.constant(row), w.constant(row.T.copy()))


@pytest.mark.parametrize(
    ("build", "where", "shape", "size"),
    [
        (doubled, "Concat:twice21", (33554432,), 268435392),
        (expanded, "Expand:", (9000, 9000), 324000000),
        (tiled, "Tile:", (1, 1, 9000, 9000), 324000000),
        (filled, "ConstantOfShape:", (9000, 9000), 324000000),
        (counted, "Range:", (10**15 + 1,), 8 * (10**15 + 1)),
        (gathered, "Gather:", (9000, 9000), 324000000),
        (crossed, "Add:", (9000, 9000), 324000000),
        (clipped, "Clip:", (9000, 9000), 324000000),
    ],
)
def test_computed_constants(
    build: Build, where: str, shape: tuple[int, ...], size: int, tmp_path: Path
) -> None:
    error = error_of(tmp_path, build)
    assert error.message == (
        f"computing a constant of shape {shape} would bring computed constants to {size:,} bytes; "
        "the limit is 134,217,728"
    )
    assert error.where.startswith(where)
    assert error.hint == HINT


def test_large_weights_allow_large_computed_constants() -> None:
    """Weights that a file stores turned around or in float are its own size again."""
    computed = Computed(given_bytes=100 << 20)
    computed.check((400 << 20,), 1)
    computed.take(300 << 20)
    with pytest.raises(ModelError, match="the limit is 419,430,400"):
        computed.check((101 << 20,), 1)


def test_views_of_constants_take_nothing(tmp_path: Path) -> None:
    """A long chain of reshapes of one large constant."""
    writer = OnnxWriter()
    value = writer.constant(np.ones((1024, 1024), np.float32))
    for number in range(200):
        shape = writer.constant([1024, 1024] if number % 2 else [1 << 20])
        value = writer.node("Reshape", value, shape)
    y = writer.node("Mul", writer.input("x", (1024, 1024)), value)
    assert len(load_model(save(tmp_path, "m.onnx", writer.finish({y: None}))).ops) == 1


def test_lists_have_an_end() -> None:
    with pytest.raises(ModelError) as caught:
        Const(np.zeros(5000, np.int64), "int64").whole()
    error = caught.value
    assert error.message == "found 5000 axes, sizes or pads; the limit is 4096"
    assert error.hint == "check which tensor the op takes them from"


def net(shape: tuple[int, ...], *ops: Op) -> Graph:
    quant = Quant((0.1,), (0,))
    names = dict.fromkeys(name for op in ops for name in (*op.inputs, *op.outputs))
    tensors = [Tensor(name, shape, DType.INT8, quant) for name in names]
    return Graph("net", tensors, ops, ops[0].inputs[:1], ops[-1].outputs)


def test_memory_of_an_inference_is_estimated() -> None:
    side = 10_000
    graph = net((1, side, side, 10), Op("Abs", "big", ("x",), ("y",), Attrs()))
    with pytest.raises(ModelError) as caught:
        check_work(graph)
    needed = 10 * 10 * side * side
    assert needed > MAX_RUN_BYTES
    assert caught.value.message == (
        f"running the network needs about {needed:,} bytes of memory; the limit is "
        f"{MAX_RUN_BYTES:,}"
    )
    assert caught.value.where == "op 'big' (Abs)"
    check_work(net((1, 1000, 1000, 10), Op("Abs", "small", ("x",), ("y",), Attrs())))


def test_tensors_that_die_make_room() -> None:
    """A chain needs two tensors at a time, a run that keeps all of them needs every one."""
    ops = [Op("Abs", f"r{n}", (f"t{n}",), (f"t{n + 1}",), Attrs()) for n in range(1000)]
    graph = net((1, 1000, 1000, 4), *ops)
    check_work(graph)
    with pytest.raises(ModelError, match="bytes of memory"):
        check_work(graph, keeps_all=True)


def test_work_of_an_inference_is_estimated(tmp_path: Path) -> None:
    """Maps of 16 MB, but 83 thousand million products a layer."""
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 64, 500, 500)), 0.02)
    kernel = writer.dequantized_constant(np.ones((64, 64, 9, 9), np.int8), 0.1)
    for number in range(14):
        y = writer.node("Conv", x, kernel, pads=[4] * 4, name=f"conv{number}", output=f"y{number}")
        x = writer.qdq(y, 0.02)
    graph = load_model(save(tmp_path, "m.onnx", writer.finish({x: None})))
    with pytest.raises(ModelError) as caught:
        check_work(graph)
    assert caught.value.message == (
        f"running the network needs {total_macs(graph):,} multiply-accumulates; the limit is "
        f"{MAX_RUN_MACS:,}"
    )
    assert caught.value.hint == (
        "estimate and explain work without running it; give a smaller input to run it"
    )


def test_numbers_of_attributes(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 4, 5, 5)), 0.02)
    fill = writer.constant(np.array(np.nan, np.float32))
    y = writer.node("Pad", x, writer.constant([0, 0, 1, 1, 0, 0, 1, 1]), fill, name="edge")
    path = save(tmp_path, "m.onnx", writer.finish({writer.qdq(y, 0.02): None}))
    with pytest.raises(ModelError, match=r"'value' is nan \(rule 'attribute values'\)"):
        load_model(path)


def test_scale_of_zero() -> None:
    graph = net((1, 4), Op("Abs", "r", ("x",), ("y",), Attrs()))
    graph.tensors["y"] = Tensor("y", (1, 4), DType.INT8, Quant((0.0,), (0,)))
    with pytest.raises(ModelError) as caught:
        verify(graph, ModelError)
    wanted = "a scale is 0: all its values would be the same (rule 'quantization')"
    assert caught.value.message == wanted
    assert caught.value.where == "tensor 'y'"
