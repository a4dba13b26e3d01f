"""Ops along axes and ops that move values, as LiteRT's kernels take them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.files.tflite.file_parts import FileTensor
from npuscope.files.tflite.schema import TENSOR_TYPES
from npuscope.files.tflite.write_graph import (
    ACTIVATIONS,
    GraphWriter,
    NotWritten,
    made_quant,
    plain,
)
from npuscope.graph.model import Op, Quant
from npuscope.ops.functions import ClipAttrs, EluAttrs, GeluAttrs, LeakyReluAttrs
from npuscope.ops.images import (
    BlockAttrs,
    Coordinates,
    DepthOrder,
    NearestRounding,
    ResizeAttrs,
    ResizeMode,
)
from npuscope.ops.kernels.resize import litert_nearest_of, nearest_of, places
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
from npuscope.ops.norms import L2NormAttrs, SoftmaxAttrs
from npuscope.ops.reduce import ArgAttrs, ReduceAttrs
from npuscope.ops.table import spec

# --- Along axes ---


def reduction(writer: GraphWriter, op: Op) -> None:
    attrs, row = op.attrs_as(ReduceAttrs), spec(op)
    word = next(iter(row.tflite))
    x = writer.tensor(op.inputs[0])
    target = writer.result(op.outputs[0], made_quant(writer, op))
    if op.kind == "ReduceProd" and x.quant is not None:
        x, target = writer.real(x), writer.result(op.outputs[0], None)
    axes = writer.numbers("axes", attrs.axes)
    writer.add(word, [x, axes], target, "ReducerOptions", KeepDims=attrs.keep_dims)


def total(writer: GraphWriter, op: Op) -> None:
    """LiteRT's SUM of int8 does not look at scales: the mean, times the number of values."""
    attrs, x, target = op.attrs_as(ReduceAttrs), writer.tensor(op.inputs[0]), writer.target(op)
    if x.quant is None or target.quant is None:
        reduction(writer, op)
        return
    count = math.prod(x.shape[axis] for axis in attrs.axes)
    quant = Quant((target.quant.scale / count,), target.quant.zero_points)
    mean = writer.aside("mean", target.shape, target.type, quant)
    axes = writer.numbers("axes", attrs.axes)
    writer.add("MEAN", [x, axes], mean, "ReducerOptions", KeepDims=attrs.keep_dims)
    _times(writer, mean, float(count), target)


def negative(writer: GraphWriter, op: Op) -> None:
    """LiteRT's NEG of int8 does not look at scales either."""
    x, target = writer.tensor(op.inputs[0]), writer.target(op)
    if x.quant is None:
        plain(writer, op)
    else:
        _times(writer, x, -1.0, target)


def _times(writer: GraphWriter, x: FileTensor, factor: float, target: FileTensor) -> None:
    number, quant = np.array([math.copysign(127, factor)], x.type.lower()), abs(factor) / 127
    constant = writer.constant("factor", number, Quant((quant,), (0,)))
    writer.add("MUL", [x, constant], target, "MulOptions")


def place(writer: GraphWriter, op: Op) -> None:
    attrs, target = op.attrs_as(ArgAttrs), writer.target(op)
    if attrs.last:
        raise NotWritten("TFLite takes the first of equal values only")
    if attrs.keep_dims:
        raise NotWritten("TFLite's operator drops the axis")
    word = next(iter(spec(op).tflite))
    table = "ArgMaxOptions" if op.kind == "ArgMax" else "ArgMinOptions"
    axis = writer.constant("axis", np.array(attrs.axis, np.int32))
    operands = [writer.tensor(op.inputs[0]), axis]
    writer.add(word, operands, target, table, OutputType=TENSOR_TYPES.index(target.type))


def softmax(writer: GraphWriter, op: Op) -> None:
    attrs, x = op.attrs_as(SoftmaxAttrs), writer.tensor(op.inputs[0])
    if op.kind == "LogSoftmax":
        x, target = writer.real(x), writer.result(op.outputs[0], None)
        word, table, fields = "LOG_SOFTMAX", "LogSoftmaxOptions", {}
    else:
        target = writer.result(op.outputs[0], made_quant(writer, op))
        word, table, fields = "SOFTMAX", "SoftmaxOptions", {"Beta": attrs.beta}
    last = len(x.shape) - 1
    if attrs.axis != last:  # swap it with the last one, twice
        order = [
            last if n == attrs.axis else attrs.axis if n == last else n for n in range(last + 1)
        ]
        shape = [x.shape[n] for n in order]
        swapped, result = (writer.aside("swapped", shape, t.type, t.quant) for t in (x, target))
        writer.add("TRANSPOSE", [x, writer.numbers("order", order)], swapped)
        writer.add("TRANSPOSE", [result, writer.numbers("order", order)], target)
        x, target = swapped, result
    writer.add(word, [x], target, table, **fields)


def l2_normalization(writer: GraphWriter, op: Op) -> None:
    if op.attrs_as(L2NormAttrs).axis != len(writer.target(op).shape) - 1:
        raise NotWritten("TFLite's operator works along the last axis only")
    plain(writer, op)


# --- Functions with parameters ---


def leaky_relu(writer: GraphWriter, op: Op) -> None:
    plain(writer, op, Alpha=op.attrs_as(LeakyReluAttrs).alpha)


def gelu(writer: GraphWriter, op: Op) -> None:
    plain(writer, op, Approximate=op.attrs_as(GeluAttrs).approximate)


def elu(writer: GraphWriter, op: Op) -> None:
    if op.attrs_as(EluAttrs).alpha != 1:
        raise NotWritten("TFLite's operator has no alpha")
    plain(writer, op)


def clip(writer: GraphWriter, op: Op) -> None:
    """RELU and RELU6, or bounds as constants: rounding first changes nothing."""
    attrs = op.attrs_as(ClipAttrs)
    words = {(0.0, np.inf): "RELU", (0.0, 6.0): "RELU6"}
    target = writer.target(op)
    word = words.get((attrs.low, attrs.high))
    if word is not None and target.type != "INT16":
        writer.add(word, [writer.tensor(op.inputs[0])], target)
        return
    value = writer.with_quant(writer.tensor(op.inputs[0]), target.quant)
    bounds = [("MAXIMUM", attrs.low), ("MINIMUM", attrs.high)]
    bounds = [(word, bound) for word, bound in bounds if np.isfinite(bound)]
    for number, (word, bound) in enumerate(bounds):
        last = number == len(bounds) - 1
        result = (
            target if last else writer.aside("clipped", target.shape, target.type, target.quant)
        )
        limit = writer.constant("bound", stored(target, bound).reshape(1), target.quant)
        writer.add(word, [value, limit], result)
        value = result
    if not bounds:
        writer.add("RESHAPE", [value, writer.numbers("shape", target.shape)], target)


def stored(like: FileTensor, value: float) -> np.ndarray:
    """A real number as the tensor would hold it."""
    if like.quant is None:
        return np.array(value, like.type.lower())
    dtype = np.dtype(like.type.lower())
    limits = np.iinfo(dtype)
    number = np.rint(value / like.quant.scale) + like.quant.zero_point
    return np.asarray(np.clip(number, limits.min, limits.max).astype(dtype))


# --- Moves: the scale of the operand stays ---


def _move(
    writer: GraphWriter, op: Op, word: str, *inputs: FileTensor, table: str = "", **fields: Any
) -> None:
    x = writer.tensor(op.inputs[0])
    writer.add(word, [x, *inputs], writer.result(op.outputs[0], x.quant), table, **fields)


def reshape(writer: GraphWriter, op: Op) -> None:
    shape = writer.target(op).shape
    sizes = np.array(shape, np.int32)
    _move(
        writer,
        op,
        "RESHAPE",
        writer.numbers("shape", shape),
        table="ReshapeOptions",
        NewShape=sizes,
    )


def transpose(writer: GraphWriter, op: Op) -> None:
    order = writer.numbers("order", op.attrs_as(TransposeAttrs).permutation)
    _move(writer, op, "TRANSPOSE", order)


def concat(writer: GraphWriter, op: Op) -> None:
    attrs, target = op.attrs_as(ConcatAttrs), writer.target(op)
    parts = [writer.with_quant(part, target.quant) for part in writer.operands(op)]
    activation = ACTIVATIONS[attrs.activation]
    options = {"Axis": attrs.axis, "FusedActivationFunction": activation}
    writer.add("CONCATENATION", parts, target, "ConcatenationOptions", **options)


def split(writer: GraphWriter, op: Op) -> None:
    attrs, x = op.attrs_as(SplitAttrs), writer.tensor(op.inputs[0])
    parts = [writer.result(name, x.quant) for name in op.outputs]
    axis = writer.constant("axis", np.array(attrs.axis, np.int32))
    count = {"NumSplits": len(parts)}
    if len({*attrs.sizes}) == 1:
        writer.add("SPLIT", [axis, x], parts, "SplitOptions", **count)
    else:
        sizes = writer.numbers("sizes", attrs.sizes)
        writer.add("SPLIT_V", [x, sizes, axis], parts, "SplitVOptions", **count)


def cut(writer: GraphWriter, op: Op) -> None:
    attrs = op.attrs_as(SliceAttrs)
    starts = writer.numbers("starts", attrs.starts)
    if {*attrs.steps} <= {1}:
        _move(writer, op, "SLICE", starts, writer.numbers("sizes", attrs.sizes))
        return
    rows = list(zip(attrs.starts, attrs.sizes, attrs.steps, strict=True))
    ends = [start + size * step for start, size, step in rows]
    mask = sum(1 << axis for axis, end in enumerate(ends) if end < 0)
    table, bounds = (
        "StridedSliceOptions",
        (writer.numbers("ends", ends), writer.numbers("steps", attrs.steps)),
    )
    _move(writer, op, "STRIDED_SLICE", starts, *bounds, table=table, EndMask=mask)


def pad(writer: GraphWriter, op: Op) -> None:
    attrs, x = op.attrs_as(PadAttrs), writer.tensor(op.inputs[0])
    if min(min(row) for row in attrs.pads) < 0:
        raise NotWritten("its pads are negative")
    rows = writer.constant("pads", np.array(attrs.pads, np.int32))
    if attrs.value:
        fill = writer.constant("fill", stored(x, attrs.value).reshape(1), x.quant)
        _move(writer, op, "PADV2", rows, fill)
    else:
        _move(writer, op, "PAD", rows)


_MIRRORS = {MirrorMode.REFLECT: 0, MirrorMode.SYMMETRIC: 1}


def mirror_pad(writer: GraphWriter, op: Op) -> None:
    attrs = op.attrs_as(MirrorPadAttrs)
    if attrs.mode not in _MIRRORS:
        raise NotWritten(f"TFLite has no pads of mode '{attrs.mode}'")
    rows = writer.constant("pads", np.array(attrs.pads, np.int32))
    _move(writer, op, "MIRROR_PAD", rows, table="MirrorPadOptions", Mode=_MIRRORS[attrs.mode])


def gather(writer: GraphWriter, op: Op) -> None:
    attrs, indices = op.attrs_as(GatherAttrs), writer.tensor(op.inputs[1])
    options = {"Axis": attrs.axis, "BatchDims": attrs.batch_axes}
    _move(writer, op, "GATHER", indices, table="GatherOptions", **options)


def tile(writer: GraphWriter, op: Op) -> None:
    _move(writer, op, "TILE", writer.numbers("repeats", op.attrs_as(TileAttrs).repeats))


def broadcast_to(writer: GraphWriter, op: Op) -> None:
    shape = writer.numbers("shape", op.attrs_as(BroadcastAttrs).shape)
    _move(writer, op, "BROADCAST_TO", shape)


# --- Images ---


def depth_to_space(writer: GraphWriter, op: Op) -> None:
    """TFLite composes channels as (down, right, channel); the other order gathers them first."""
    attrs, x = op.attrs_as(BlockAttrs), writer.tensor(op.inputs[0])
    if attrs.width not in (0, attrs.block):
        raise NotWritten("its blocks are not square")
    channels = x.shape[3] // attrs.block**2
    if attrs.order is DepthOrder.CRD and channels > 1:
        order = np.arange(x.shape[3]).reshape(channels, attrs.block**2).T.ravel()
        gathered = writer.aside("gathered", x.shape, x.type, x.quant)
        writer.add(
            "GATHER", [x, writer.numbers("channels", order)], gathered, "GatherOptions", Axis=3
        )
        x = gathered
    target = writer.result(op.outputs[0], x.quant)
    writer.add("DEPTH_TO_SPACE", [x], target, "DepthToSpaceOptions", BlockSize=attrs.block)


def space_to_depth(writer: GraphWriter, op: Op) -> None:
    attrs, channels = op.attrs_as(BlockAttrs), writer.tensor(op.inputs[0]).shape[3]
    if attrs.width not in (0, attrs.block) or (attrs.order is DepthOrder.CRD and channels > 1):
        raise NotWritten("its blocks have another order of channels than TFLite's")
    _move(writer, op, "SPACE_TO_DEPTH", table="SpaceToDepthOptions", BlockSize=attrs.block)


class _Places(Struct, frozen=True):
    """How TFLite may place pixels: its two flags, and what they mean."""

    align_corners: bool
    half_pixel_centers: bool
    coordinates: Coordinates
    rounding: NearestRounding = NearestRounding.FLOOR


_NEAREST = (
    _Places(False, False, Coordinates.ASYMMETRIC),
    _Places(False, True, Coordinates.TF_HALF_PIXEL_FOR_NN),
    _Places(True, False, Coordinates.ALIGN_CORNERS, NearestRounding.PREFER_CEIL),
)
_LINEAR = (
    _Places(False, True, Coordinates.HALF_PIXEL),
    _Places(False, False, Coordinates.ASYMMETRIC),
    _Places(True, False, Coordinates.ALIGN_CORNERS),
)


def resize(writer: GraphWriter, op: Op) -> None:
    """The first form of TFLite's that reads the same pixels; any other nearest ones by number."""
    attrs, x = op.attrs_as(ResizeAttrs), writer.tensor(op.inputs[0])
    nearest = attrs.mode is ResizeMode.NEAREST
    for form in _NEAREST if nearest else _LINEAR:
        ratios = attrs.sizes[0] / x.shape[1], attrs.sizes[1] / x.shape[2]
        other = ResizeAttrs(attrs.sizes, ratios, attrs.mode, form.coordinates, form.rounding)
        if all(_same_places(attrs, other, axis, x.shape[axis + 1]) for axis in (0, 1)):
            break
    else:
        if not nearest:
            scales = " and ".join(f"{scale:g}" for scale in attrs.scales)
            raise NotWritten(f"TFLite has no linear {attrs.coordinates} with scales {scales}")
        _gathered_pixels(writer, op, x)
        return
    target = writer.target(op).quant
    if target and x.quant and target.scale < x.quant.scale:  # the finer one first: less is lost
        x = writer.with_quant(x, target)
    word = "RESIZE_NEAREST_NEIGHBOR" if nearest else "RESIZE_BILINEAR"
    table = "ResizeNearestNeighborOptions" if nearest else "ResizeBilinearOptions"
    flags = {"AlignCorners": form.align_corners, "HalfPixelCenters": form.half_pixel_centers}
    sizes = writer.numbers("sizes", attrs.sizes)
    writer.add(word, [x, sizes], writer.result(op.outputs[0], x.quant), table, **flags)


def _gathered_pixels(writer: GraphWriter, op: Op, x: FileTensor) -> None:
    attrs, target = op.attrs_as(ResizeAttrs), writer.result(op.outputs[0], x.quant)
    rows, columns = (nearest_of(attrs, axis, x.shape[axis + 1]) for axis in (0, 1))
    shape = (x.shape[0], attrs.sizes[0], *x.shape[2:])
    between = writer.aside("rows", shape, x.type, x.quant)
    writer.add("GATHER", [x, writer.numbers("rows", rows)], between, "GatherOptions", Axis=1)
    places = writer.numbers("columns", columns)
    writer.add("GATHER", [between, places], target, "GatherOptions", Axis=2)


def _same_places(attrs: ResizeAttrs, other: ResizeAttrs, axis: int, size: int) -> bool:
    if attrs.mode is ResizeMode.NEAREST:
        mine, theirs = nearest_of(attrs, axis, size), litert_nearest_of(other, axis, size)
        return bool(np.array_equal(mine, theirs))
    mine, theirs = (np.clip(places(form, axis, size), 0, size - 1) for form in (attrs, other))
    return bool(np.allclose(mine, theirs, atol=1e-4))
