"""Cut, repeat and reorder: the values pass as they are, raw integers and floats alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.attrs_moves import (
    BlockAttrs,
    BroadcastAttrs,
    DepthOrder,
    GatherAttrs,
    MirrorMode,
    MirrorPadAttrs,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
)
from npuscope.graph.kernels.step import Array, Step, Steps
from npuscope.graph.model import Graph, Op

NUMPY_MODES = {
    MirrorMode.REFLECT: "reflect",
    MirrorMode.SYMMETRIC: "symmetric",
    MirrorMode.EDGE: "edge",
    MirrorMode.WRAP: "wrap",
}


def cut(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(SliceAttrs)
    rows = zip(attrs.starts, attrs.sizes, attrs.steps, strict=True)
    places = tuple(_span(*row) for row in rows)
    return lambda inputs: np.ascontiguousarray(inputs[0][places])


def _span(start: int, size: int, step: int) -> slice:
    stop = start + size * step
    return slice(start, None if stop < 0 else stop, step)


def split(graph: Graph, op: Op) -> Steps:
    attrs = op.attrs_as(SplitAttrs)
    borders = np.cumsum(attrs.sizes)[:-1].tolist()

    def step(inputs: Sequence[Array]) -> tuple[Array, ...]:
        parts = np.split(inputs[0], borders, axis=attrs.axis)
        return tuple(np.ascontiguousarray(part) for part in parts)

    return step


def mirror_pad(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(MirrorPadAttrs)
    mode = NUMPY_MODES[attrs.mode]
    return lambda inputs: np.pad(inputs[0], attrs.pads, mode)  # type: ignore[call-overload]


def gather(graph: Graph, op: Op) -> Step:
    """Negative indices count from the end, others outside are refused by numpy."""
    attrs = op.attrs_as(GatherAttrs)
    batch = attrs.batch_axes
    if not batch:
        return lambda inputs: np.take(inputs[0], inputs[1], axis=attrs.axis)

    def step(inputs: Sequence[Array]) -> Array:
        data, indices = inputs
        lead = data.shape[:batch]
        rows = [np.take(data[at], indices[at], axis=attrs.axis - batch) for at in np.ndindex(lead)]
        return np.asarray(np.stack(rows).reshape(*lead, *rows[0].shape))

    return step


def tile(graph: Graph, op: Op) -> Step:
    repeats = op.attrs_as(TileAttrs).repeats
    return lambda inputs: np.tile(inputs[0], repeats)


def broadcast_to(graph: Graph, op: Op) -> Step:
    shape = op.attrs_as(BroadcastAttrs).shape
    return lambda inputs: np.ascontiguousarray(np.broadcast_to(inputs[0], shape)).reshape(shape)


def depth_to_space(graph: Graph, op: Op) -> Step:
    attrs, shape = op.attrs_as(BlockAttrs), graph.output_tensor(op).shape
    block = attrs.block

    def step(inputs: Sequence[Array]) -> Array:
        n, height, width, channels = inputs[0].shape
        depth = channels // block**2
        if attrs.order == DepthOrder.DCR:
            parts = inputs[0].reshape(n, height, width, block, block, depth)
            return parts.transpose(0, 1, 3, 2, 4, 5).reshape(shape)
        parts = inputs[0].reshape(n, height, width, depth, block, block)
        return parts.transpose(0, 1, 4, 2, 5, 3).reshape(shape)

    return step


def space_to_depth(graph: Graph, op: Op) -> Step:
    attrs, shape = op.attrs_as(BlockAttrs), graph.output_tensor(op).shape
    block = attrs.block
    order = (0, 1, 3, 2, 4, 5) if attrs.order == DepthOrder.DCR else (0, 1, 3, 5, 2, 4)

    def step(inputs: Sequence[Array]) -> Array:
        n, height, width, channels = inputs[0].shape
        parts = inputs[0].reshape(n, height // block, block, width // block, block, channels)
        return parts.transpose(order).reshape(shape)

    return step
