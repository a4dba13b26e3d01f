"""Ops that compute along axes: reductions, softmax, normalizations."""

from __future__ import annotations

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.attrs import (
    ArgAttrs,
    BatchNormAttrs,
    GroupNormAttrs,
    InstanceNormAttrs,
    L2NormAttrs,
    LayerNormAttrs,
    ReduceAttrs,
    SoftmaxAttrs,
)
from npuscope.graph.model import DType
from npuscope.graph.onnx.constants import Const
from npuscope.graph.onnx.convert_values import Convert
from npuscope.graph.onnx.fold_shape import axes_of
from npuscope.graph.onnx.layout import checked_axis, dropped
from npuscope.graph.onnx.task import Task

_ALONG_AXIS_OPSET = 13  # before it, Softmax saw all axes from `axis` on as one


def reduction(kind: str) -> Convert:
    def convert(task: Task) -> None:
        x = task.value(0)
        source = _axes(task, len(task.shape(x)))
        if not source:
            task.pass_on(x)
            return
        keep = bool(task.node.integer("keepdims", 1))
        stored = tuple(sorted(x.layout.index(axis) for axis in source))
        layout = x.layout if keep else dropped(x.layout, source)
        task.emit(kind, (x.tensor,), ReduceAttrs(stored, keep), layout, x.via)

    return convert


def _axes(task: Task, rank: int) -> tuple[int, ...]:
    if task.node.input(1) and task.constant(1) is None:
        raise ModelError("the axes must be constants")
    axes = axes_of(task.node, [None, task.constant(1)])
    if not axes:
        return () if task.node.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({checked_axis(axis, rank) for axis in axes}))


def global_pool(kind: str) -> Convert:
    """GlobalAveragePool and GlobalMaxPool reduce all axes between batch and channels."""

    def convert(task: Task) -> None:
        x = task.channel_last(0)
        axes = tuple(range(1, len(x.layout) - 1))
        task.emit(kind, (x.tensor,), ReduceAttrs(axes, True), x.layout, x.via)

    return convert


def place(kind: str) -> Convert:
    """ArgMax and ArgMin; the order of values is the order of their integers."""

    def convert(task: Task) -> None:
        x = task.raw_value(0)
        axis = checked_axis(task.node.integer("axis", 0), len(task.shape(x)))
        keep = bool(task.node.integer("keepdims", 1))
        last = bool(task.node.integer("select_last_index", 0))
        attrs = ArgAttrs(x.layout.index(axis), keep, last)
        layout = x.layout if keep else dropped(x.layout, (axis,))
        task.emit(kind, (x.tensor,), attrs, layout, x.via, DType.INT64)

    return convert


def softmax(kind: str) -> Convert:
    def convert(task: Task) -> None:
        x = task.value(0)
        shape = task.shape(x)
        old = task.opset < _ALONG_AXIS_OPSET
        axis = checked_axis(task.node.integer("axis", 1 if old else -1), len(shape))
        if old and any(size != 1 for size in shape[axis + 1 :]):
            raise ModelError(
                f"{kind} of opset {task.opset} over several axes of {shape} is not supported",
                hint="export with opset 13 or later",
            )
        attrs = SoftmaxAttrs(x.layout.index(axis))
        task.emit(kind, (x.tensor,), attrs, x.layout, x.via)

    return convert


def batch_norm(task: Task) -> None:
    if task.node.integer("training_mode", 0):
        raise ModelError("BatchNormalization in training mode is not supported")
    x = task.channel_last(0)
    parameters = tuple(task.real_parameter(index).name for index in (1, 2, 3, 4))
    attrs = BatchNormAttrs(task.node.number("epsilon", 1e-5))
    task.emit("BatchNorm", (x.tensor, *parameters), attrs, x.layout, x.via)


def layer_norm(task: Task) -> None:
    if any(task.node.outputs[1:]):
        raise ModelError("only the first output is supported, mean and deviation are not")
    x = task.in_source_order(0)
    axis = checked_axis(task.node.integer("axis", -1), len(task.shape(x)))
    given = [index for index in (1, 2) if task.node.input(index)]
    parameters = tuple(task.real_parameter(index).name for index in given)
    attrs = LayerNormAttrs(axis, task.node.number("epsilon", 1e-5))
    task.emit("LayerNorm", (x.tensor, *parameters), attrs, x.layout, x.via)


def instance_norm(task: Task) -> None:
    x = task.channel_last(0)
    parameters = tuple(task.real_parameter(index).name for index in (1, 2))
    attrs = InstanceNormAttrs(task.node.number("epsilon", 1e-5))
    task.emit("InstanceNorm", (x.tensor, *parameters), attrs, x.layout, x.via)


def group_norm(task: Task) -> None:
    """Scale and bias are per group up to opset 20, per channel from then on."""
    x = task.channel_last(0)
    groups, channels = task.node.integer("num_groups", 1), (0, *task.tensor(x).shape)[-1]
    parameters = tuple(_per_channel(task, index, channels) for index in (1, 2))
    attrs = GroupNormAttrs(groups, task.node.number("epsilon", 1e-5))
    task.emit("GroupNorm", (x.tensor, *parameters), attrs, x.layout, x.via)


def _per_channel(task: Task, index: int, channels: int) -> str:
    values = task.needed(index).real().ravel()
    if not values.size or channels % values.size:
        raise ModelError(f"{values.size} parameters for {channels} channels")
    repeated = np.repeat(values, channels // values.size)
    const = Const(repeated, "float32", name=task.node.input(index))
    return task.store(const, (task.node.input(index), ("per channel", channels))).name


def lp_normalization(task: Task) -> None:
    if task.node.integer("p", 2) != 2:
        raise ModelError("only p = 2 is supported", hint="use LpNormalization with p = 2")
    x = task.value(0)
    axis = checked_axis(task.node.integer("axis", -1), len(task.shape(x)))
    attrs = L2NormAttrs(x.layout.index(axis))
    task.emit("L2Normalization", (x.tensor,), attrs, x.layout, x.via)
