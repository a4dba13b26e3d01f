"""Ops that compute on values one by one or along an axis."""

from __future__ import annotations

from collections.abc import Callable

from npuscope.errors import ModelError
from npuscope.graph.attrs import (
    Attrs,
    BatchNormAttrs,
    BinaryAttrs,
    ClipAttrs,
    ReduceAttrs,
    SoftmaxAttrs,
)
from npuscope.graph.onnx.constants import Const
from npuscope.graph.onnx.fold import axes_of
from npuscope.graph.onnx.layout import ADDED, Layout, checked_axis, dropped, plain
from npuscope.graph.onnx.nodes import Node
from npuscope.graph.onnx.task import Task

_INF = float("inf")
_FLOAT32_MAX = 3.4e38  # exporters write "no limit" as the largest float32
_SOFTMAX_ALONG_AXIS_OPSET = 13


def unary(kind: str, attrs: Attrs) -> Callable[[Task], None]:
    def convert(task: Task) -> None:
        x = task.value(0)
        task.emit(kind, (x.tensor,), attrs, x.layout, x.via)

    return convert


def clip(task: Task) -> None:
    limits = clip_range(task.node, task.reader.constants)
    if limits is None:
        raise ModelError("the limits must be constants")
    unary("Clip", ClipAttrs(*limits))(task)


def clip_range(node: Node, constants: dict[str, Const]) -> tuple[float, float] | None:
    """(low, high) of a Relu or Clip, None when a limit is computed."""
    if node.kind == "Relu":
        return 0.0, _INF
    limits = [-_INF, _INF]
    for index in (1, 2):
        if not node.input(index):
            continue
        const = constants.get(node.input(index))
        if const is None or const.data.size != 1:
            return None
        value = float(const.real().ravel()[0])
        if abs(value) < _FLOAT32_MAX:
            limits[index - 1] = value
    return limits[0], limits[1]


def binary(kind: str) -> Callable[[Task], None]:
    def convert(task: Task) -> None:
        layout = _common_layout(task)
        inputs = task.operand(0, layout), task.operand(1, layout)
        via = [task.value(i).via for i in (0, 1) if task.constant(i) is None]
        attrs = BinaryAttrs(task.activation)
        task.emit(kind, inputs, attrs, layout, tuple(origin for one in via for origin in one))

    return convert


def _common_layout(task: Task) -> Layout:
    """The storage both operands broadcast in: that of the operand with most axes.

    A rearranged one wins over one in source order, so a channel-last chain stays one.
    """
    layouts: list[Layout] = []
    ranks: list[int] = []
    for index in (0, 1):
        const = task.constant(index)
        if const is not None:
            ranks.append(const.data.ndim)
            continue
        value = task.value(index)
        layouts.append(value.layout)
        ranks.append(len(task.shape(value)))
    rank = max(ranks)
    full = [layout for layout in layouts if sum(axis != ADDED for axis in layout) == rank]
    rearranged = [layout for layout in full if layout != plain(rank)]
    return (rearranged or full or [plain(rank)])[0]


def mean(task: Task) -> None:
    x = task.value(0)
    rank = len(task.shape(x))
    axes = axes_of(task.node, [None, task.constant(1)])
    if task.node.input(1) and task.constant(1) is None:
        raise ModelError("the axes must be constants")
    if not axes:
        if task.node.integer("noop_with_empty_axes", 0):
            task.finish(x)
            return
        axes = tuple(range(rank))
    source = tuple(sorted({checked_axis(axis, rank) for axis in axes}))
    keep = bool(task.node.integer("keepdims", 1))
    stored = tuple(sorted(x.layout.index(axis) for axis in source))
    layout = x.layout if keep else dropped(x.layout, source)
    task.emit("Mean", (x.tensor,), ReduceAttrs(stored, keep), layout, x.via)


def softmax(task: Task) -> None:
    """Before opset 13 it runs over all axes from `axis` on, seen as one."""
    x = task.value(0)
    shape = task.shape(x)
    old = task.opset < _SOFTMAX_ALONG_AXIS_OPSET
    axis = checked_axis(task.node.integer("axis", 1 if old else -1), len(shape))
    if old and any(size != 1 for size in shape[axis + 1 :]):
        raise ModelError(
            f"Softmax of opset {task.opset} over several axes of {shape} is not supported",
            hint="export with opset 13 or later",
        )
    attrs = SoftmaxAttrs(x.layout.index(axis))
    task.emit("Softmax", (x.tensor,), attrs, x.layout, x.via)


def batch_norm(task: Task) -> None:
    if task.node.integer("training_mode", 0):
        raise ModelError("BatchNormalization in training mode is not supported")
    rank = len(task.shape(task.value(0)))
    x = task.channel_last(0) if rank > 2 else task.arranged(0, plain(rank))
    parameters = tuple(task.real_parameter(index).name for index in (1, 2, 3, 4))
    attrs = BatchNormAttrs(task.node.number("epsilon", 1e-5), task.activation)
    task.emit("BatchNorm", (x.tensor, *parameters), attrs, x.layout, x.via)
