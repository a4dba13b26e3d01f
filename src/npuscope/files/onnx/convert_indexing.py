"""ONNX ops that read or write single places, and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from npuscope.errors import ModelError, NotComputed
from npuscope.files.onnx.constants import PLAIN_TYPES
from npuscope.files.onnx.layout import checked_axis, plain
from npuscope.files.onnx.task import NodeTask
from npuscope.graph.model import Attrs, DType
from npuscope.ops.indexing import (
    CumulativeAttrs,
    GatherNdAttrs,
    Joining,
    OneHotAttrs,
    ResponseAttrs,
    ScatterAttrs,
    TopAttrs,
    TriangleAttrs,
)

Convert = Callable[[NodeTask], None]


def _plain_op(
    task: NodeTask, kind: str, count: int, attrs: Attrs, dtype: DType | None = None
) -> None:
    """The op on inputs in the file's own order of axes."""
    values = [task.in_source_order(index) for index in range(count)]
    inputs = tuple(value.tensor for value in values)
    shape = task.reader.builder.infer(kind, inputs, attrs, task.node.origin)
    via = tuple(origin for value in values for origin in value.via)
    task.emit(kind, inputs, attrs, plain(len(shape)), via, dtype)


def _axis(task: NodeTask, default: int) -> int:
    return checked_axis(task.node.integer("axis", default), len(task.shape(task.value(0))))


def along(kind: str, count: int, record: Callable[..., Attrs], axes: Mapping[str, int]) -> Convert:
    """An op whose attributes are axes, in the record's order with their defaults."""

    def convert(task: NodeTask) -> None:
        rank = len(task.shape(task.value(0)))
        stated = [checked_axis(task.node.integer(name, n), rank) for name, n in axes.items()]
        _plain_op(task, kind, count, record(*stated))

    return convert


def gather_nd(task: NodeTask) -> None:
    _plain_op(task, "GatherND", 2, GatherNdAttrs(task.node.integer("batch_dims", 0)))


def scatter(kind: str) -> Convert:
    def convert(task: NodeTask) -> None:
        joining = Joining(task.node.text("reduction", "none"))
        axis = _axis(task, 0) if kind == "ScatterElements" else 0
        _plain_op(task, kind, 3, ScatterAttrs(axis, joining))

    return convert


def cumulative(task: NodeTask) -> None:
    axis = task.whole(1) or [0]
    rank = len(task.shape(task.value(0)))
    exclusive, back = (bool(task.node.integer(name, 0)) for name in ("exclusive", "reverse"))
    _plain_op(task, "CumSum", 1, CumulativeAttrs(checked_axis(axis[0], rank), exclusive, back))


def triangle(task: NodeTask) -> None:
    offset = task.whole(1) if task.node.input(1) else [0]
    upper = bool(task.node.integer("upper", 1))
    _plain_op(task, "Trilu", 1, TriangleAttrs(upper, offset[0] if offset else 0))


def one_hot(task: NodeTask) -> None:
    """Depth and the two values are constants, or nothing is known before it runs."""
    depth, values = task.needed(1), task.needed(2)
    if depth.data.size != 1 or values.data.size != 2:
        raise ModelError("one depth and two values are expected")
    rank = len(task.shape(task.value(0))) + 1
    axis = checked_axis(task.node.integer("axis", -1), rank)
    off, on = (float(value) for value in values.real().ravel())
    dtype = PLAIN_TYPES.get(values.type, DType.FLOAT32)
    attrs = OneHotAttrs(axis, int(depth.real().ravel()[0]), off, on)
    if task.tensor(task.value(0)).dtype not in (DType.INT32, DType.INT64):
        raise NotComputed("its indices must be int32 or int64 to be supported")
    _plain_op(task, "OneHot", 1, attrs, dtype)


def top(task: NodeTask) -> None:
    """Values and places are an op each."""
    count = task.node.integer("k", 0) if len(task.node.inputs) < 2 else task.needed(1).whole()[0]
    largest = bool(task.node.integer("largest", 1))
    axis = _axis(task, -1)
    x = task.in_source_order(0)
    for place, name in enumerate(task.node.outputs):
        if not name or name not in task.reader.read:
            continue
        attrs = TopAttrs(axis, count, largest, places=bool(place))
        dtype = DType.INT64 if place else None
        layout = plain(len(task.shape(x)))
        value = task.make("TopK", (x.tensor,), attrs, layout, x.via, dtype, name=name)
        task.finish_as(name, value)


def response(task: NodeTask) -> None:
    node = task.node
    x = task.channel_last(0)
    numbers = node.number("alpha", 1e-4), node.number("beta", 0.75), node.number("bias", 1.0)
    attrs = ResponseAttrs(node.integer("size", 1), *numbers)
    task.emit("LRN", (x.tensor,), attrs, x.layout, x.via)


def truth(kind: str) -> Convert:
    def convert(task: NodeTask) -> None:
        if kind == "IsInf" and not (
            task.node.integer("detect_negative", 1) and task.node.integer("detect_positive", 1)
        ):
            raise NotComputed("infinities of one sign are not supported")
        x = task.value(0)
        task.emit(kind, (x.tensor,), Attrs(), x.layout, x.via, DType.BOOL)

    return convert
