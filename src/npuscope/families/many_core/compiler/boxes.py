"""Boxes: parts of a tensor as (start, stop) per axis, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import prod

from npuscope.graph.model import Graph, Op
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.reduce import PoolAttrs

Shape = tuple[int, ...]
Box = tuple[tuple[int, int], ...]


def full(shape: Shape) -> Box:
    return tuple((0, size) for size in shape)


def shape_of(box: Box) -> Shape:
    return tuple(stop - start for start, stop in box)


def elements(box: Box) -> int:
    return prod(shape_of(box))


def common(a: Box, b: Box) -> Box | None:
    """What both have; None where that is nothing."""
    both = tuple((max(p, q), min(r, s)) for (p, r), (q, s) in zip(a, b, strict=True))
    return both if all(start < stop for start, stop in both) else None


def around(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds them all."""
    axes = zip(*boxes, strict=True)
    return tuple((min(s for s, _ in axis), max(e for _, e in axis)) for axis in axes)


def with_axis(box: Box, axis: int, start: int, stop: int) -> Box:
    return (*box[:axis], (start, stop), *box[axis + 1 :])


def cut(box: Box, axis: int, parts: int, granule: int = 1) -> tuple[Box, ...]:
    """At most `parts` boxes side by side along `axis`, in whole granules, the first ones larger."""
    start, stop = box[axis]
    granules = -(-(stop - start) // granule)
    parts = min(parts, granules)
    share, more = divmod(granules, parts)
    bounds = [start + granule * (share * i + min(i, more)) for i in range(parts)] + [stop]
    return tuple(with_axis(box, axis, low, high) for low, high in pairwise(bounds))


def reshaped(box: Box, old: Shape, new: Shape) -> Box | None:
    """The same elements in a tensor of another shape; None where they are not a box there."""
    result: list[tuple[int, int]] = []
    for old_axes, new_axes in matching_axes(old, new):
        part = _regroup([box[a] for a in old_axes], [old[a] for a in old_axes], new_axes, new)
        if part is None:
            return None
        result += part
    return tuple(result)


def matching_axes(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]]:
    """Neighbouring axes of both shapes that hold equally many elements."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        old_axes, new_axes = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(old_axes), j + len(new_axes)
        while prod(old[a] for a in old_axes) != prod(new[a] for a in new_axes):
            if prod(old[a] for a in old_axes) < prod(new[a] for a in new_axes):
                old_axes.append(i)
                i += 1
            else:
                new_axes.append(j)
                j += 1
        groups.append((old_axes, new_axes))
    return groups


def _regroup(
    box: list[tuple[int, int]], old: list[int], axes: list[int], new: Shape
) -> list[tuple[int, int]] | None:
    """A run of elements, in row-major order, as a box of the axes in `new`."""
    sizes = [new[axis] for axis in axes]
    if all(bounds == (0, size) for bounds, size in zip(box, old, strict=True)):
        return [(0, size) for size in sizes]
    run = _run(box, old)
    return None if run is None else _box_of_run(run, sizes)


def _run(box: list[tuple[int, int]], sizes: list[int]) -> tuple[int, int] | None:
    """First and last element + 1 of a box that is one run; None where it is several."""
    axis = next(i for i, pair in enumerate(zip(box, sizes, strict=True)) if pair[0] != (0, pair[1]))
    if any(size != 1 for size in sizes[:axis]):
        return None
    if any(b != (0, s) for b, s in zip(box[axis + 1 :], sizes[axis + 1 :], strict=True)):
        return None
    inner = prod(sizes[axis + 1 :])
    return box[axis][0] * inner, box[axis][1] * inner


def _box_of_run(run: tuple[int, int], sizes: list[int]) -> list[tuple[int, int]] | None:
    axis = next((i for i, size in enumerate(sizes) if size != 1), None)
    if axis is None:
        return None
    inner = prod(sizes[axis + 1 :])
    if run[0] % inner or run[1] % inner:
        return None
    whole = [(0, size) for size in sizes]
    whole[axis] = (run[0] // inner, run[1] // inner)
    return whole


# --- Rows and columns, with halo, that windows over an image need ---

Bounds = tuple[int, int]


def conv_needs(graph: Graph, op: Op, box: Box) -> tuple[Box | None, ...]:
    attrs = op.attrs_as(ConvAttrs)
    _, height, width, channels = graph.first_input(op).shape
    out, tall, wide, per_group = graph.tensors[op.inputs[1]].shape
    rows = reach(box[1], height, tall, attrs.strides[0], attrs.dilations[0], attrs.pads[0])
    columns = reach(box[2], width, wide, attrs.strides[1], attrs.dilations[1], attrs.pads[1])
    # Input channels of the groups that these output channels belong to.
    (low, high), each = box[3], out // attrs.groups
    deep = low // each * per_group, min(-(-high // each) * per_group, channels)
    weights = with_axis(full(graph.tensors[op.inputs[1]].shape), 0, *box[3])
    return (box[0], rows, columns, deep), weights, *((box[3],) for _ in op.inputs[2:])


def pool_needs(graph: Graph, op: Op, box: Box) -> tuple[Box | None, ...]:
    attrs = op.attrs_as(PoolAttrs)
    _, height, width, _ = graph.first_input(op).shape
    rows = reach(box[1], height, attrs.window[0], attrs.strides[0], 1, attrs.pads[0])
    columns = reach(box[2], width, attrs.window[1], attrs.strides[1], 1, attrs.pads[1])
    return ((box[0], rows, columns, box[3]),)


def reach(bounds: Bounds, size: int, window: int, stride: int, dilation: int, pad: int) -> Bounds:
    """Input places under the windows of the wanted outputs, without the padding."""
    low = min(max(bounds[0] * stride - pad, 0), size - 1)
    high = (bounds[1] - 1) * stride - pad + (window - 1) * dilation + 1
    return low, max(min(high, size), low + 1)
