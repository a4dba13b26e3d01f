"""Shape inference of the ops that cut, repeat, reorder and resize."""

from __future__ import annotations

from npuscope.errors import ModelError
from npuscope.graph.attrs_moves import (
    BlockAttrs,
    BroadcastAttrs,
    GatherAttrs,
    MirrorMode,
    MirrorPadAttrs,
    ResizeAttrs,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
)
from npuscope.graph.model import Graph, Op
from npuscope.graph.shapes import Shape, Shapes, broadcast, check_axis, input_shape, rank4


def cut(graph: Graph, op: Op) -> Shapes:
    """Slice: every element it names must exist."""
    attrs = op.attrs_as(SliceAttrs)
    source = input_shape(graph, op, 0)
    if not len(attrs.starts) == len(attrs.sizes) == len(attrs.steps) == len(source):
        raise ModelError(f"starts {attrs.starts} and steps {attrs.steps} for shape {source}")
    rows = zip(source, attrs.starts, attrs.sizes, attrs.steps, strict=True)
    if not all(_inside(*row) for row in rows):
        raise ModelError(
            f"starts {attrs.starts}, sizes {attrs.sizes}, steps {attrs.steps} "
            f"leave the shape {source}"
        )
    return (attrs.sizes,)


def _inside(dim: int, start: int, size: int, step: int) -> bool:
    last = start + (size - 1) * step
    return size >= 1 and step != 0 and 0 <= start < dim and 0 <= last < dim


def split(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(SplitAttrs)
    source = input_shape(graph, op, 0)
    check_axis(attrs.axis, source)
    if sum(attrs.sizes) != source[attrs.axis] or min(attrs.sizes, default=0) < 1:
        raise ModelError(f"sizes {attrs.sizes} do not add up to axis {attrs.axis} of {source}")
    before, after = source[: attrs.axis], source[attrs.axis + 1 :]
    return tuple((*before, size, *after) for size in attrs.sizes)


# A reflection needs the values beside the border, the others may use the border itself.
_REACH = {
    MirrorMode.REFLECT: lambda dim: dim - 1,
    MirrorMode.SYMMETRIC: lambda dim: dim,
    MirrorMode.WRAP: lambda dim: dim,
}


def mirror_pad(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(MirrorPadAttrs)
    source = input_shape(graph, op, 0)
    if len(attrs.pads) != len(source):
        raise ModelError(f"{len(attrs.pads)} pairs of pads for shape {source}")
    reach = _REACH.get(attrs.mode)
    for dim, pads in zip(source, attrs.pads, strict=True):
        if min(pads) < 0 or (reach is not None and max(pads) > reach(dim)):
            raise ModelError(f"pads {attrs.pads} do not fit shape {source} ({attrs.mode})")
    return (tuple(a + dim + b for dim, (a, b) in zip(source, attrs.pads, strict=True)),)


def resize(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(ResizeAttrs)
    n, _, _, channels = rank4(input_shape(graph, op, 0))
    if min(attrs.sizes) < 1 or not all(0 < scale < float("inf") for scale in attrs.scales):
        raise ModelError(f"sizes {attrs.sizes} and scales {attrs.scales} must be positive")
    return ((n, *attrs.sizes, channels),)


def depth_to_space(graph: Graph, op: Op) -> Shapes:
    block = op.attrs_as(BlockAttrs).block
    n, height, width, channels = rank4(input_shape(graph, op, 0))
    if block < 1 or channels % (block * block):
        raise ModelError(f"{channels} channels cannot be spread over blocks of {block}x{block}")
    return ((n, height * block, width * block, channels // (block * block)),)


def space_to_depth(graph: Graph, op: Op) -> Shapes:
    block = op.attrs_as(BlockAttrs).block
    n, height, width, channels = rank4(input_shape(graph, op, 0))
    if block < 1 or height % block or width % block:
        raise ModelError(f"{height}x{width} pixels do not divide into blocks of {block}x{block}")
    return ((n, height // block, width // block, channels * block * block),)


def gather(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(GatherAttrs)
    source, indices = input_shape(graph, op, 0), input_shape(graph, op, 1)
    check_axis(attrs.axis, source)
    batch = attrs.batch_axes
    if not 0 <= batch <= min(attrs.axis, len(indices)) or source[:batch] != indices[:batch]:
        raise ModelError(f"{batch} common axes of {source} and {indices}")
    return ((*source[: attrs.axis], *indices[batch:], *source[attrs.axis + 1 :]),)


def tile(graph: Graph, op: Op) -> Shapes:
    repeats = op.attrs_as(TileAttrs).repeats
    source = input_shape(graph, op, 0)
    if len(repeats) != len(source) or min(repeats, default=1) < 1:
        raise ModelError(f"repeats {repeats} for shape {source}")
    return (tuple(dim * count for dim, count in zip(source, repeats, strict=True)),)


def broadcast_to(graph: Graph, op: Op) -> Shapes:
    wanted: Shape = op.attrs_as(BroadcastAttrs).shape
    source = input_shape(graph, op, 0)
    if not wanted and not source:
        return ((),)
    if broadcast(source, wanted) != wanted:
        raise ModelError(f"shape {source} does not broadcast to {wanted}")
    return (wanted,)
