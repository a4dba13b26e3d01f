"""Ops that move values, raw integers and floats alike: reshape, slice, repeat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.model import Graph, Op, Tensor
from npuscope.ops.images import (
    BlockAttrs,
    DepthOrder,
)
from npuscope.ops.kernels.between import quantized
from npuscope.ops.kernels.elementwise import litert_pad_value
from npuscope.ops.kernels.float_ops import activated
from npuscope.ops.kernels.requantize import clamp_limits, real_limits, round_half_away, saturate
from npuscope.ops.kernels.step import Array, Step, Steps, quant_of, tabulated
from npuscope.ops.moves import (
    BroadcastAttrs,
    ConcatAttrs,
    GatherAttrs,
    MirrorMode,
    MirrorPadAttrs,
    PadAttrs,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
    TransposeAttrs,
)

# --- Slice, repeat and reorder ---

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
    """Negative indices count from the end; numpy rejects others that are out of range."""
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
    rows, columns = attrs.sides

    def step(inputs: Sequence[Array]) -> Array:
        n, height, width, channels = inputs[0].shape
        depth = channels // (rows * columns)
        if attrs.order == DepthOrder.DCR:
            parts = inputs[0].reshape(n, height, width, rows, columns, depth)
            return parts.transpose(0, 1, 3, 2, 4, 5).reshape(shape)
        parts = inputs[0].reshape(n, height, width, depth, rows, columns)
        return parts.transpose(0, 1, 4, 2, 5, 3).reshape(shape)

    return step


def space_to_depth(graph: Graph, op: Op) -> Step:
    attrs, shape = op.attrs_as(BlockAttrs), graph.output_tensor(op).shape
    rows, columns = attrs.sides
    order = (0, 1, 3, 2, 4, 5) if attrs.order == DepthOrder.DCR else (0, 1, 3, 5, 2, 4)

    def step(inputs: Sequence[Array]) -> Array:
        n, height, width, channels = inputs[0].shape
        parts = inputs[0].reshape(n, height // rows, rows, width // columns, columns, channels)
        return parts.transpose(order).reshape(shape)

    return step


# --- Pad and join ---


def reshape(graph: Graph, op: Op) -> Step:
    shape = graph.output_tensor(op).shape
    return lambda inputs: inputs[0].reshape(shape)


def identity(graph: Graph, op: Op) -> Step:
    return lambda inputs: inputs[0]


def transpose(graph: Graph, op: Op) -> Step:
    order = op.attrs_as(TransposeAttrs).permutation
    return lambda inputs: np.ascontiguousarray(inputs[0].transpose(order))


def raw_pad(graph: Graph, op: Op) -> Step:
    output = graph.output_tensor(op)
    value = op.attrs_as(PadAttrs).value
    return _pad(graph, op, value if output.quant is None else litert_pad_value(value, output))


def raw_pad_to_even(graph: Graph, op: Op) -> Step:
    """onnxruntime rounds the fill value like any other."""
    output, value = graph.output_tensor(op), op.attrs_as(PadAttrs).value
    fill = np.asarray(value, np.float32)
    return _pad(graph, op, value if output.quant is None else float(quantized(fill, output)))


def real_pad(graph: Graph, op: Op) -> Step:
    return _pad(graph, op, op.attrs_as(PadAttrs).value)


def _pad(graph: Graph, op: Op, fill: float) -> Step:
    """Negative pads crop."""
    pads, shape = op.attrs_as(PadAttrs).pads, graph.output_tensor(op).shape
    source = graph.first_input(op).shape
    cut = tuple(
        slice(max(0, -a), dim - max(0, -b)) for dim, (a, b) in zip(source, pads, strict=True)
    )
    place = tuple(
        slice(max(0, a), dim - max(0, b)) for dim, (a, b) in zip(shape, pads, strict=True)
    )

    def step(inputs: Sequence[Array]) -> Array:
        result = np.full(shape, fill, inputs[0].dtype)
        result[place] = inputs[0][cut]
        return result

    return step


def raw_concat(graph: Graph, op: Op) -> Step:
    """Parts of another scale are rounded to the output's, in float32 as LiteRT does it."""
    output, attrs = graph.output_tensor(op), op.attrs_as(ConcatAttrs)
    if output.quant is None:
        return real_concat(graph, op)
    limits = clamp_limits(output, *real_limits(attrs.activation))

    def join(inputs: Sequence[Array]) -> Array:
        return np.concatenate(inputs, axis=attrs.axis).clip(*limits)

    sources = [graph.tensors[name] for name in op.inputs]
    if all((t.quant, t.dtype) == (output.quant, output.dtype) for t in sources):
        return join
    parts = [_to_scale_of(source, output) for source in sources]
    return lambda inputs: join([part([x]) for part, x in zip(parts, inputs, strict=True)])


def _to_scale_of(source: Tensor, output: Tensor) -> Step:
    if source.quant == output.quant:
        return lambda inputs: inputs[0]
    inverse = np.float32(1) / np.float32(quant_of(output).scale)
    ratio = np.float32(quant_of(source).scale) * inverse
    offset = np.float32(-quant_of(source).zero_point) * ratio

    def step(inputs: Sequence[Array]) -> Array:
        value = round_half_away(inputs[0].astype(np.float32) * ratio + offset)
        return saturate(value + quant_of(output).zero_point, output.dtype)

    return tabulated(step, source)


def real_concat(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(ConcatAttrs)
    return lambda inputs: activated(np.concatenate(inputs, axis=attrs.axis), attrs.activation)
