"""Ops that move data or change shapes only."""

from __future__ import annotations

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.attrs import ConcatAttrs
from npuscope.graph.onnx.arrange import Value
from npuscope.graph.onnx.constants import QuantType
from npuscope.graph.onnx.fold_shape import axes_of, resolve_shape, squeezed, unsqueezed
from npuscope.graph.onnx.layout import ADDED, Shape, checked_axis, relabel
from npuscope.graph.onnx.task import Task

_MOST_ORIGINS = 16  # of Transposes in a row; bounds the work on a hostile file


def _to_shape(task: Task, target: Shape) -> None:
    x = task.value(0)
    task.finish(task.arranger.reshape(x, target, task.node.origin, task.node.output))


def reshape(task: Task) -> None:
    asked = task.whole(1)
    if asked is None:
        raise ModelError("the target shape is missing")
    source = task.shape(task.value(0))
    keep_zeros = task.node.integer("allowzero", 0) == 1
    _to_shape(task, resolve_shape(source, asked, keep_zeros))


def flatten(task: Task) -> None:
    source = task.shape(task.value(0))
    axis = task.node.integer("axis", 1)
    if not -len(source) <= axis <= len(source):
        raise ModelError(f"axis {axis} of a tensor with {len(source)} axes")
    cut = axis + len(source) if axis < 0 else axis
    rows = int(np.prod(source[:cut], dtype=object))
    _to_shape(task, (rows, int(np.prod(source[cut:], dtype=object))))


def squeeze(task: Task) -> None:
    _to_shape(task, squeezed(task.shape(task.value(0)), _axes(task)))


def unsqueeze(task: Task) -> None:
    _to_shape(task, unsqueezed(task.shape(task.value(0)), _axes(task) or ()))


def _axes(task: Task) -> tuple[int, ...] | None:
    if task.node.input(1) and task.constant(1) is None:
        raise ModelError("the axes must be constants")
    return axes_of(task.node, [None, task.constant(1)])


def transpose(task: Task) -> None:
    """Nothing moves here: the axes get new numbers, and the next op that minds turns them."""
    x = task.value(0)
    rank = len(task.shape(x))
    order = task.node.integers("perm") or tuple(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise ModelError(f"permutation {order} of a tensor with {rank} axes")
    layout = relabel(x.layout, order)
    task.finish(Value(x.tensor, layout, (*x.via, task.node.origin)[-_MOST_ORIGINS:]))


def identity(task: Task) -> None:
    """Behind a DequantizeLinear it stays what that is: integers until somebody needs floats."""
    name = task.node.input(0)
    if name not in task.reader.integers:
        task.finish(task.value(0))
        return
    task.reader.integers[task.node.output] = task.reader.integers[name]
    task.reader.shapes[task.node.output] = task.shape(task.reader.integers[name])


def concat(task: Task) -> None:
    values = [task.value(index) for index in range(len(task.node.inputs))]
    if not values:
        raise ModelError("there is nothing to join")
    rearranged = [v.layout for v in values if v.layout != tuple(range(len(v.layout)))]
    layout = (rearranged or [values[0].layout])[0]
    rank = sum(axis != ADDED for axis in layout)
    axis = checked_axis(task.node.integer("axis", 0), rank)
    if any(len(task.shape(value)) != rank for value in values):
        raise ModelError("the parts have different numbers of axes")
    values = [task.arranger.arrange(value, layout, task.node.origin) for value in values]
    names = tuple(_same_type(task, values))
    attrs = ConcatAttrs(layout.index(axis))
    task.emit("Concat", names, attrs, layout, tuple(o for value in values for o in value.via))


def _same_type(task: Task, values: list[Value]) -> list[str]:
    """Integer parts must share one quantization: the others are requantized first."""
    if not task.moved:
        return [value.tensor for value in values]
    first = task.tensor(values[0])
    wanted = task.following_type()
    if wanted is None and first.quant is not None:
        wanted = QuantType(first.dtype, first.quant)
    if wanted is None:
        raise ModelError("an integer part has no scale")
    stem = f"{task.node.output}_part"
    return [task.reader.quantize(value, wanted, stem, task.node.origin).tensor for value in values]
