"""Rows and columns, with their halo, that windows over an image need."""

from __future__ import annotations

from npuscope.graph.model import Graph, Op
from npuscope.manycore.compiler.boxes import Box, full, with_axis
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.reduce import PoolAttrs

Bounds = tuple[int, int]


def conv_needs(graph: Graph, op: Op, box: Box) -> tuple[Box | None, ...]:
    attrs = op.attrs_as(ConvAttrs)
    _, height, width, channels = graph.first_input(op).shape
    out, tall, wide, per_group = graph.tensors[op.inputs[1]].shape
    rows = reach(box[1], height, tall, attrs.strides[0], attrs.dilations[0], attrs.pads[0])
    columns = reach(box[2], width, wide, attrs.strides[1], attrs.dilations[1], attrs.pads[1])
    deep = _input_channels(box[3], out, channels, attrs.groups, per_group)
    weights = with_axis(full(graph.tensors[op.inputs[1]].shape), 0, *box[3])
    return (box[0], rows, columns, deep), weights, *((box[3],) for _ in op.inputs[2:])


def _input_channels(wanted: Bounds, out: int, channels: int, groups: int, per_group: int) -> Bounds:
    """Input channels of the groups that the wanted output channels lie in."""
    each = out // groups
    return wanted[0] // each * per_group, min(-(-wanted[1] // each) * per_group, channels)


def pool_needs(graph: Graph, op: Op, box: Box) -> tuple[Box | None, ...]:
    attrs = op.attrs_as(PoolAttrs)
    _, height, width, _ = graph.first_input(op).shape
    rows = reach(box[1], height, attrs.window[0], attrs.strides[0], 1, attrs.pads[0])
    columns = reach(box[2], width, attrs.window[1], attrs.strides[1], 1, attrs.pads[1])
    return ((box[0], rows, columns, box[3]),)


def reach(wanted: Bounds, size: int, window: int, stride: int, dilation: int, pad: int) -> Bounds:
    """Input places under the windows of the wanted outputs, without the padding."""
    low = min(max(wanted[0] * stride - pad, 0), size - 1)
    high = (wanted[1] - 1) * stride - pad + (window - 1) * dilation + 1
    return low, max(min(high, size), low + 1)
