"""ONNX's MaxPool and AveragePool."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuscope.errors import NotComputed
from npuscope.files.onnx.convert_weights import Pair, Window, pair, window_of
from npuscope.files.onnx.layout import LayoutValue, Shape
from npuscope.files.onnx.task import NodeTask
from npuscope.graph.model import Attrs, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.moves import PadAttrs, SliceAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.ops.row import window_output


def _pool_attrs(task: NodeTask, shape: Shape, axes: int) -> tuple[PoolAttrs, Pair]:
    """The window, and its dilations."""
    node = task.node
    kernel = pair(node.integers("kernel_shape"), axes, 1)
    window = window_of(node, kernel, shape, axes)
    counts = bool(node.integer("count_include_pad", 0))
    pads = window.pads
    if node.integer("ceil_mode", 0):
        pads = _ceil_pads(kernel, window, shape)
        if counts and pads != window.pads:
            raise NotComputed("ceil_mode with count_include_pad is not supported")
    counts = counts and any(pads)
    return PoolAttrs(kernel, window.strides, pads, counts), window.dilations


def _ceil_pads(kernel: Pair, window: Window, shape: Shape) -> tuple[int, int, int, int]:
    """Ceil mode adds a last window that extends past the end: the same as more padding there."""
    pads = list(window.pads)
    for axis in (0, 1):
        reach = (kernel[axis] - 1) * window.dilations[axis] + 1
        free = shape[axis + 1] + pads[axis] + pads[axis + 2] - reach
        extra = -free % window.strides[axis]
        starts_inside = free + extra < shape[axis + 1] + pads[axis]
        pads[axis + 2] += extra if starts_inside else 0
    return pads[0], pads[1], pads[2], pads[3]


def pool(kind: str) -> Callable[[NodeTask], None]:
    def convert(task: NodeTask) -> None:
        if len([name for name in task.node.outputs if name]) > 1:
            raise NotComputed("the second output (indices) is not supported")
        x = task.windowed(0)
        attrs, dilations = _pool_attrs(task, task.tensor(x).shape, len(task.shape(x)) - 2)
        if dilations == (1, 1):
            task.emit(kind, (x.tensor,), attrs, x.layout, x.via)
        elif kind == "MaxPool":
            _dilated_max(task, x, attrs, dilations)
        else:
            raise NotComputed(f"an average with dilations {dilations} is not supported")

    return convert


def _dilated_max(task: NodeTask, x: LayoutValue, attrs: PoolAttrs, dilations: Pair) -> None:
    """The largest of slices, a kernel's place apart: along the rows, then along the columns."""
    top, left, bottom, right = attrs.pads
    if any(attrs.pads):
        pads = ((0, 0), (top, bottom), (left, right), (0, 0))
        x = task.make("Pad", (x.tensor,), PadAttrs(pads, _lowest(task.tensor(x))), x.layout, x.via)
    for axis in (0, 1):
        window, stride, dilation = attrs.window[axis], attrs.strides[axis], dilations[axis]
        sizes = list(task.tensor(x).shape)
        sizes[axis + 1] = window_output(sizes[axis + 1], window, stride, dilation, 0)
        steps = tuple(stride if place == axis + 1 else 1 for place in range(4))
        parts = []
        for place in range(window):
            starts = tuple(place * dilation if n == axis + 1 else 0 for n in range(4))
            cut = SliceAttrs(starts, tuple(sizes), steps)
            parts.append(task.make("Slice", (x.tensor,), cut, x.layout, x.via))
        x = parts[0]
        for part in parts[1:]:
            x = task.make("Max", (x.tensor, part.tensor), BinaryAttrs(), x.layout)
    task.emit("Identity", (x.tensor,), Attrs(), x.layout)


def _lowest(tensor: Tensor) -> float:
    """A value that no other is below."""
    if tensor.quant is None:
        return float(np.finfo(np.float32).min)
    return (tensor.dtype.limits[0] - tensor.quant.zero_point) * tensor.quant.scale
