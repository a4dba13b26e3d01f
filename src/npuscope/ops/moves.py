"""Ops that move values: reshape, slice, repeat, reorder, pad, join."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from enum import StrEnum

from npuscope.errors import ModelError
from npuscope.graph.model import Activation, Attrs, Graph, Op
from npuscope.ops.row import (
    WHOLE,
    Kernel,
    Onnx,
    Row,
    Shape,
    Shapes,
    Tflite,
    broadcast,
    check_axis,
    input_shape,
    same_shape,
    wrong_type,
)
from npuscope.ops.traits import Trait


class PadAttrs(Attrs, frozen=True):
    """`pads` is ((before, after), ...) per axis; the fill value is real, not quantized."""

    pads: tuple[tuple[int, int], ...]
    value: float = 0.0


class TransposeAttrs(Attrs, frozen=True):
    permutation: tuple[int, ...]


class ConcatAttrs(Attrs, frozen=True):
    axis: int
    activation: Activation = Activation.NONE


class SliceAttrs(Attrs, frozen=True):
    """Per axis: the elements start, start + step, ... of which there are `sizes`.

    Bounds are resolved: 0 <= start, and the last element lies inside; a step may be negative.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


class SplitAttrs(Attrs, frozen=True):
    """One output per size, side by side along `axis`."""

    axis: int
    sizes: tuple[int, ...]


class MirrorMode(StrEnum):
    """Where a non-constant padding takes its values from."""

    REFLECT = "reflect"  # c b | a b c | b a
    SYMMETRIC = "symmetric"  # b a | a b c | c b
    EDGE = "edge"  # a a | a b c | c c
    WRAP = "wrap"  # b c | a b c | a b


class MirrorPadAttrs(Attrs, frozen=True):
    """`pads` is ((before, after), ...) per axis; filled with values of the tensor itself."""

    pads: tuple[tuple[int, int], ...]
    mode: MirrorMode = MirrorMode.REFLECT


class GatherAttrs(Attrs, frozen=True):
    """Inputs: data, indices. The first `batch_axes` axes of both are walked together."""

    axis: int
    batch_axes: int = 0


class TileAttrs(Attrs, frozen=True):
    repeats: tuple[int, ...]


class BroadcastAttrs(Attrs, frozen=True):
    """BroadcastTo a shape, by numpy's rule."""

    shape: tuple[int, ...]


def reads_places(graph: Graph, op: Op) -> str:
    """Gather."""
    return wrong_type(graph, op.inputs[1], WHOLE, "index")


def reshape_shape(graph: Graph, op: Op) -> Shapes:
    """The target shape is that of the output tensor; only the element count is checked."""
    source, target = graph.first_input(op), graph.output_tensor(op)
    if source.elements != target.elements:
        raise ModelError(f"{source.shape} cannot be reshaped to {target.shape}")
    return (target.shape,)


def pad_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(PadAttrs)
    source = input_shape(graph, op, 0)
    if len(attrs.pads) != len(source):
        raise ModelError(f"{len(attrs.pads)} pairs of pads for shape {source}")
    result = tuple(a + dim + b for dim, (a, b) in zip(source, attrs.pads, strict=True))
    if result and min(result) < 1:
        raise ModelError(f"pads {attrs.pads} remove all of shape {source}")
    return (result,)


def transpose_shape(graph: Graph, op: Op) -> Shapes:
    permutation = op.attrs_as(TransposeAttrs).permutation
    source = input_shape(graph, op, 0)
    if sorted(permutation) != list(range(len(source))):
        raise ModelError(f"permutation {permutation} does not fit shape {source}")
    return (tuple(source[axis] for axis in permutation),)


def concat_shape(graph: Graph, op: Op) -> Shapes:
    axis = op.attrs_as(ConcatAttrs).axis
    shapes = [input_shape(graph, op, index) for index in range(len(op.inputs))]
    check_axis(axis, shapes[0])
    rests = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    if len(rests) != 1 or len({len(shape) for shape in shapes}) != 1:
        raise ModelError(f"shapes {shapes} differ in an axis other than {axis}")
    first = shapes[0]
    return ((*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :]),)


def slice_shape(graph: Graph, op: Op) -> Shapes:
    """Slice: every element it names must exist."""
    attrs = op.attrs_as(SliceAttrs)
    source = input_shape(graph, op, 0)
    if not len(attrs.starts) == len(attrs.sizes) == len(attrs.steps) == len(source):
        raise ModelError(f"starts {attrs.starts} and steps {attrs.steps} for shape {source}")
    rows = zip(source, attrs.starts, attrs.sizes, attrs.steps, strict=True)
    if not all(_inside(*row) for row in rows):
        raise ModelError(
            f"starts {attrs.starts}, sizes {attrs.sizes}, steps {attrs.steps} reach outside "
            f"shape {source}"
        )
    return (attrs.sizes,)


def _inside(dim: int, start: int, size: int, step: int) -> bool:
    last = start + (size - 1) * step
    return size >= 1 and step != 0 and 0 <= start < dim and 0 <= last < dim


def split_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(SplitAttrs)
    source = input_shape(graph, op, 0)
    check_axis(attrs.axis, source)
    if sum(attrs.sizes) != source[attrs.axis] or min(attrs.sizes, default=0) < 1:
        raise ModelError(f"sizes {attrs.sizes} do not add up to axis {attrs.axis} of {source}")
    before, after = source[: attrs.axis], source[attrs.axis + 1 :]
    return tuple((*before, size, *after) for size in attrs.sizes)


# A reflection needs the values next to the border; the other modes may use the border itself.
_REACH = {
    MirrorMode.REFLECT: lambda dim: dim - 1,
    MirrorMode.SYMMETRIC: lambda dim: dim,
    MirrorMode.WRAP: lambda dim: dim,
}


def mirror_pad_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(MirrorPadAttrs)
    source = input_shape(graph, op, 0)
    if len(attrs.pads) != len(source):
        raise ModelError(f"{len(attrs.pads)} pairs of pads for shape {source}")
    reach = _REACH.get(attrs.mode)
    for dim, pads in zip(source, attrs.pads, strict=True):
        if min(pads) < 0 or (reach is not None and max(pads) > reach(dim)):
            raise ModelError(f"pads {attrs.pads} do not fit shape {source} ({attrs.mode})")
    return (tuple(a + dim + b for dim, (a, b) in zip(source, attrs.pads, strict=True)),)


def gather_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(GatherAttrs)
    source, indices = input_shape(graph, op, 0), input_shape(graph, op, 1)
    check_axis(attrs.axis, source)
    batch = attrs.batch_axes
    if not 0 <= batch <= min(attrs.axis, len(indices)) or source[:batch] != indices[:batch]:
        raise ModelError(f"{batch} batch axes, which {source} and {indices} do not share")
    return ((*source[: attrs.axis], *indices[batch:], *source[attrs.axis + 1 :]),)


def tile_shape(graph: Graph, op: Op) -> Shapes:
    repeats = op.attrs_as(TileAttrs).repeats
    source = input_shape(graph, op, 0)
    if len(repeats) != len(source) or min(repeats, default=1) < 1:
        raise ModelError(f"repeats {repeats} for shape {source}")
    return (tuple(dim * count for dim, count in zip(source, repeats, strict=True)),)


def broadcast_to_shape(graph: Graph, op: Op) -> Shapes:
    target: Shape = op.attrs_as(BroadcastAttrs).shape
    source = input_shape(graph, op, 0)
    if not target and not source:
        return ((),)
    if broadcast(source, target) != target:
        raise ModelError(f"shape {source} does not broadcast to {target}")
    return (target,)


_MOVES = {Trait.MOVES, Trait.INTEGER_FORM}


def _move(
    kind: str,
    attrs: type[Attrs],
    shape: Callable[[Graph, Op], Shapes],
    kernel: Kernel,
    tflite: Mapping[str, Tflite],
    onnx: Mapping[str, Onnx],
    traits: Set[Trait] = frozenset(),
) -> Row:
    traits = {*_MOVES, *traits}
    return Row(kind, attrs, (1, 1), shape, kernel, tflite=tflite, onnx=onnx, traits=traits)


ROWS = (
    _move(
        "Reshape",
        Attrs,
        reshape_shape,
        Kernel("moves", "moves:reshape"),
        {
            "RESHAPE": Tflite(
                "convert_moves:reshape", options=("ReshapeOptions", "NewShape"), shape_inputs=1
            ),
            "SQUEEZE": Tflite("convert_moves:reshape", options=("SqueezeOptions", "SqueezeDims")),
            "EXPAND_DIMS": Tflite("convert_moves:reshape", shape_inputs=1),
        },
        {
            "Reshape": Onnx("convert_moves:reshape"),
            "Flatten": Onnx("convert_moves:flatten"),
            "Squeeze": Onnx("convert_moves:squeeze"),
            "Unsqueeze": Onnx("convert_moves:unsqueeze"),
        },
        {Trait.VIEW},
    ),
    _move(
        "Transpose",
        TransposeAttrs,
        transpose_shape,
        Kernel("moves", "moves:transpose"),
        {"TRANSPOSE": Tflite("convert_moves:transpose")},
        {"Transpose": Onnx("convert_moves:transpose")},
    ),
    Row(
        "Concat",
        ConcatAttrs,
        inputs=(1, None),
        shape=concat_shape,
        kernel=Kernel("moves", "moves:real_concat", "moves:raw_concat"),
        traits={*_MOVES, Trait.PARTS},
        tflite={
            "CONCATENATION": Tflite(
                "convert_moves:concat",
                options=("ConcatenationOptions", "Axis", "FusedActivationFunction"),
            ),
            "PACK": Tflite("convert_moves:pack", options=("PackOptions", "Axis")),
        },
        onnx={"Concat": Onnx("convert_moves:concat", any_order=True)},
    ),
    _move(
        "Split",
        SplitAttrs,
        split_shape,
        Kernel("several", "moves:split"),
        {
            "SPLIT": Tflite("convert_moves:split", options=("SplitOptions", "NumSplits")),
            "SPLIT_V": Tflite("convert_moves:split_v"),
            "UNPACK": Tflite("convert_moves:unpack", options=("UnpackOptions", "Axis")),
        },
        {"Split": Onnx("convert_moves:split", any_order=True)},
        {Trait.PARTS},
    ),
    _move(
        "Slice",
        SliceAttrs,
        slice_shape,
        Kernel("moves", "moves:cut"),
        {
            "SLICE": Tflite("convert_moves:cut"),
            "STRIDED_SLICE": Tflite(
                "convert_moves:strided_slice",
                options=(
                    "StridedSliceOptions",
                    *("BeginMask", "EndMask", "EllipsisMask"),
                    *("NewAxisMask", "ShrinkAxisMask", "Offset"),
                ),
            ),
        },
        {"Slice": Onnx("convert_moves:cut", any_order=True)},
        {Trait.PARTS},
    ),
    _move(
        "Pad",
        PadAttrs,
        pad_shape,
        Kernel("moves", "moves:real_pad", "moves:raw_pad", "moves:raw_pad_to_even"),
        {"PAD": Tflite("convert_moves:pad"), "PADV2": Tflite("convert_moves:pad")},
        {"Pad": Onnx("convert_moves:pad", any_order=True)},
        {Trait.KEEPS_CHANNELS},
    ),
    _move(
        "MirrorPad",
        MirrorPadAttrs,
        mirror_pad_shape,
        Kernel("moves", "moves:mirror_pad"),
        {"MIRROR_PAD": Tflite("convert_moves:mirror_pad", options=("MirrorPadOptions", "Mode"))},
        {},
        {Trait.KEEPS_CHANNELS},
    ),
    Row(
        "Gather",
        GatherAttrs,
        inputs=(2, 2),
        shape=gather_shape,
        types=reads_places,
        kernel=Kernel("moves", "moves:gather"),
        traits={*_MOVES, Trait.INDEXED},
        data_inputs=1,
        tflite={
            "GATHER": Tflite("convert_moves:gather", options=("GatherOptions", "Axis", "BatchDims"))
        },
        onnx={"Gather": Onnx("convert_moves:gather")},
    ),
    _move(
        "Tile",
        TileAttrs,
        tile_shape,
        Kernel("moves", "moves:tile"),
        {"TILE": Tflite("convert_moves:tile")},
        {"Tile": Onnx("convert_moves:tile", any_order=True)},
    ),
    _move(
        "BroadcastTo",
        BroadcastAttrs,
        broadcast_to_shape,
        Kernel("moves", "moves:broadcast_to"),
        {"BROADCAST_TO": Tflite("convert_moves:broadcast_to")},
        {"Expand": Onnx("convert_moves:expand")},
    ),
    _move(
        "Identity",
        Attrs,
        same_shape,
        Kernel("moves", "moves:identity"),
        {},
        {"Identity": Onnx("convert_moves:identity", any_order=True)},
        {Trait.VIEW, Trait.KEEPS_CHANNELS},
    ),
)
