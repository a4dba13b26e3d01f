"""Which part of every input a part of an output needs, and along which axes an op may be split.

One function a family of ops, from (graph, op, box of the output) to boxes of the inputs; None
stands for an input of which nothing is needed.
"""

from __future__ import annotations

from collections.abc import Callable

from npuscope.graph.model import Graph, Op
from npuscope.many_core.compiler.boxes import Box, Shape, conv_needs, full, pool_needs, with_axis
from npuscope.ops.layers import MatMulAttrs
from npuscope.ops.moves import ConcatAttrs, GatherAttrs, PadAttrs, SliceAttrs, TransposeAttrs
from npuscope.ops.norms import L2NormAttrs, LayerNormAttrs, SoftmaxAttrs
from npuscope.ops.reduce import ArgAttrs, ReduceAttrs
from npuscope.ops.table import OPS

Needs = tuple[Box | None, ...]


def needs(graph: Graph, op: Op, box: Box) -> Needs:
    """Boxes of the inputs for `box` of the output."""
    found = _NEEDS.get(op.kind, _parallel)(graph, op, box)
    return tuple(need if name else None for need, name in zip(found, op.inputs, strict=True))


def split_axes(graph: Graph, op: Op) -> tuple[int, ...]:
    """Axes of the output along which cores can work side by side."""
    rank = len(graph.output_tensor(op).shape)
    whole = _whole_axes(graph, op)
    return tuple(axis for axis in range(rank) if axis not in whole)


def _whole_axes(graph: Graph, op: Op) -> set[int]:
    """Axes that one core needs as a whole: what is normalised, summed up or reordered."""
    rank = len(graph.output_tensor(op).shape)
    if op.kind in ("Softmax", "LogSoftmax"):
        return {op.attrs_as(SoftmaxAttrs).axis}
    if op.kind == "L2Normalization":
        return {op.attrs_as(L2NormAttrs).axis}
    if op.kind == "LayerNorm":
        return set(range(op.attrs_as(LayerNormAttrs).axis, rank))
    if op.kind == "InstanceNorm":
        return set(range(1, rank - 1))
    if op.kind in _ONLY_BATCH:
        return set(range(1, rank))
    if op.kind in ("Resize", "TransposeConv"):
        return set(range(1, rank - 1))
    return set()


_ONLY_BATCH = ("GroupNorm", "DepthToSpace", "SpaceToDepth")


def _parallel(graph: Graph, op: Op, box: Box) -> Needs:
    """Element by element with broadcasting, all of the axes that must be whole."""
    whole = _whole_axes(graph, op)
    wide = full(graph.output_tensor(op).shape)
    grown = tuple(wide[a] if a in whole else bounds for a, bounds in enumerate(box))
    return tuple(
        _broadcast(grown, graph.output_tensor(op).shape, graph.tensors[name].shape)
        if name
        else None
        for name in op.inputs
    )


def _broadcast(box: Box, shape: Shape, operand: Shape) -> Box:
    """The part of an operand that numpy's rule pairs with `box` of a result of `shape`."""
    skipped = len(shape) - len(operand)
    if skipped < 0:
        return full(operand)
    pairs = zip(box[skipped:], shape[skipped:], operand, strict=True)
    return tuple(bounds if size == own else (0, own) for bounds, size, own in pairs)


def _everything(graph: Graph, op: Op, box: Box) -> Needs:
    """Reordered too much to say more."""
    return tuple(full(graph.tensors[name].shape) if name else None for name in op.inputs)


def _dense(graph: Graph, op: Op, box: Box) -> Needs:
    source = (*box[:-1], (0, graph.first_input(op).shape[-1]))
    weights = (box[-1], (0, graph.tensors[op.inputs[1]].shape[1]))
    return source, weights, *((box[-1],) for _ in op.inputs[2:])


def _transpose_conv(graph: Graph, op: Op, box: Box) -> Needs:
    source, weights = graph.first_input(op).shape, graph.tensors[op.inputs[1]].shape
    whole = (box[0], *full(source)[1:])
    return whole, with_axis(full(weights), 0, *box[-1]), *((box[-1],) for _ in op.inputs[2:])


def _matmul(graph: Graph, op: Op, box: Box) -> Needs:
    attrs = op.attrs_as(MatMulAttrs)
    shape = graph.output_tensor(op).shape
    a, b = (graph.tensors[name].shape for name in op.inputs)
    rows, columns = box[-2:]
    inner = (0, a[-2] if attrs.transpose_a else a[-1])
    left = (inner, rows) if attrs.transpose_a else (rows, inner)
    right = (columns, inner) if attrs.transpose_b else (inner, columns)
    lead = box[:-2]
    return (
        (*_broadcast(lead, shape[:-2], a[:-2]), *left),
        (*_broadcast(lead, shape[:-2], b[:-2]), *right),
    )


def _reduced(graph: Graph, op: Op, box: Box) -> Needs:
    axes, keep = _reduced_axes(op)
    source = graph.first_input(op).shape
    rest = iter(box)
    found: list[tuple[int, int]] = []
    for axis, size in enumerate(source):
        if axis not in axes:
            found.append(next(rest))
            continue
        if keep:
            next(rest)
        found.append((0, size))
    return (tuple(found),)


def _reduced_axes(op: Op) -> tuple[tuple[int, ...], bool]:
    if isinstance(op.attrs, ArgAttrs):
        return (op.attrs.axis,), op.attrs.keep_dims
    attrs = op.attrs_as(ReduceAttrs)
    return attrs.axes, attrs.keep_dims


def _transpose(graph: Graph, op: Op, box: Box) -> Needs:
    order = op.attrs_as(TransposeAttrs).permutation
    source = dict(zip(order, box, strict=True))
    return (tuple(source[axis] for axis in range(len(order))),)


def _concat(graph: Graph, op: Op, box: Box) -> Needs:
    axis = op.attrs_as(ConcatAttrs).axis
    found: list[Box | None] = []
    at = 0
    for name in op.inputs:
        size = graph.tensors[name].shape[axis]
        start, stop = max(box[axis][0] - at, 0), min(box[axis][1] - at, size)
        found.append(with_axis(box, axis, start, stop) if start < stop else None)
        at += size
    return tuple(found)


def _slice(graph: Graph, op: Op, box: Box) -> Needs:
    attrs = op.attrs_as(SliceAttrs)
    found = []
    for (start, stop), first, step in zip(box, attrs.starts, attrs.steps, strict=True):
        ends = (first + start * step, first + (stop - 1) * step)
        found.append((min(ends), max(ends) + 1))
    return (tuple(found),)


def _pad(graph: Graph, op: Op, box: Box) -> Needs:
    """A part that is padding only still names one element, so that boxes stay boxes."""
    found = []
    source = graph.first_input(op).shape
    pads = op.attrs_as(PadAttrs).pads
    for (start, stop), (before, _), size in zip(box, pads, source, strict=True):
        low = min(max(start - before, 0), size - 1)
        found.append((low, max(min(stop - before, size), low + 1)))
    return (tuple(found),)


def _gather(graph: Graph, op: Op, box: Box) -> Needs:
    """Axes before and behind the gathered one go with the data, the others with the indices."""
    attrs = op.attrs_as(GatherAttrs)
    data, indices = (graph.tensors[name].shape for name in op.inputs)
    inner = len(indices) - attrs.batch_axes
    behind = box[attrs.axis + inner :]
    source = (*box[: attrs.axis], (0, data[attrs.axis]), *behind)
    places = (*box[: attrs.batch_axes], *box[attrs.axis : attrs.axis + inner])
    return source, places


_REDUCTIONS = [row.kind for row in OPS.values() if row.attrs in (ReduceAttrs, ArgAttrs)]
_NEEDS: dict[str, Callable[[Graph, Op, Box], Needs]] = {
    "Conv2D": conv_needs,
    "TransposeConv": _transpose_conv,
    "FullyConnected": _dense,
    "MatMul": _matmul,
    "MaxPool": pool_needs,
    "AveragePool": pool_needs,
    **dict.fromkeys(_REDUCTIONS, _reduced),
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Pad": _pad,
    "Gather": _gather,
    **dict.fromkeys(("Reshape", "MirrorPad", "Tile"), _everything),
}
