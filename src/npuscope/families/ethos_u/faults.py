"""Where ethos-u-vela 5.2.0 compiles an operator to something else: its results are wrong, and
nothing says so. Found by executing what it makes of random networks; docs/ethos_u.md has the
figures.

Graphs are those that Vela reads (`build.as_vela_reads`): an ONNX network of unsigned bytes is
written as a signed one, and its divisions may be left to the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from npuscope.graph.model import Activation, DType, Graph, Op
from npuscope.ops.images import Coordinates, ResizeAttrs, ResizeMode
from npuscope.ops.layers import ConvAttrs, TransposeConvAttrs, is_depthwise
from npuscope.ops.moves import MirrorPadAttrs, SliceAttrs, SplitAttrs, TransposeAttrs
from npuscope.ops.reduce import ArgAttrs, PoolAttrs, ReduceAttrs
from npuscope.ops.table import having
from npuscope.ops.traits import Trait

_ALL, _OLD, _U85 = ("ethos-u",), ("ethos-u55", "ethos-u65"), ("ethos-u85",)
_EXTREMES = having(Trait.PICKS) & having(Trait.REDUCES)


class VelaFault(Struct, frozen=True):
    """`name` says in a few words what the stream does instead."""

    name: str
    machines: tuple[str, ...]  # beginnings of their names
    applies: Callable[[Graph, Op], bool]


def faults_of(graph: Graph, op: Op, machine: str) -> Iterator[VelaFault]:
    """Vela leaves operators on real numbers to the CPU, which computes them as they are meant."""
    values = [graph.tensors[name] for name in (*op.inputs, *op.outputs) if name]
    real = any(tensor.dtype is DType.FLOAT32 for tensor in values)
    for fault in FAULTS if op.inputs and not real else ():
        if machine.startswith(fault.machines) and fault.applies(graph, op):
            yield fault


def _maker(graph: Graph, op: Op) -> Op | None:
    return next((one for one in graph.ops if op.inputs[0] in one.outputs), None)


# --- Reductions ---


def _sums_axes(graph: Graph, op: Op) -> bool:
    """Axes of 1 after the first one are summed by leaving them out."""
    if op.kind != "ReduceSum":
        return False
    shape = graph.tensors[op.inputs[0]].shape
    return any(shape[axis] > 1 for axis in op.attrs_as(ReduceAttrs).axes[1:])


def _rows_move(graph: Graph, op: Op) -> bool:
    """A kept axis before a reduced one, and the output has lost its place."""
    attrs = op.attrs
    if op.kind not in _EXTREMES or not isinstance(attrs, ReduceAttrs):
        return False
    shape = graph.tensors[op.inputs[0]].shape
    kept = [n for axis, n in enumerate(shape) if axis < max(attrs.axes) and axis not in attrs.axes]
    return not attrs.keep_dims and any(n > 1 for n in kept)


def _reduces_part_or_rows(graph: Graph, op: Op) -> bool:
    """Along the first or last axis of a part; sums of channels whose rows become channels."""
    attrs, shape = op.attrs, graph.tensors[op.inputs[0]].shape
    is_sum = op.kind == "ReduceSum"
    if not isinstance(attrs, ReduceAttrs) or not (is_sum or op.kind in _EXTREMES):
        return False
    last = len(shape) - 1 in attrs.axes
    if is_sum and last and not attrs.keep_dims and graph.output_tensor(op).shape[-1:] > (1,):
        return True
    first = 0 in attrs.axes and not is_sum
    return (first or last) and _part_maker(graph, op) is not None


def _pads_a_reduction(graph: Graph, op: Op) -> bool:
    maker = _maker(graph, op)
    return op.kind == "Pad" and maker is not None and maker.kind in _EXTREMES


# --- Parts of other tensors ---


def _part_maker(graph: Graph, op: Op) -> Op | None:
    """What cuts the input out of a larger image."""
    maker = _maker(graph, op)
    cuts = maker is not None and isinstance(maker.attrs, SliceAttrs | SplitAttrs)
    return maker if cuts else None


def _finds_in_a_part(graph: Graph, op: Op) -> bool:
    """Along the width of a part, which may have lost an axis of 1."""
    maker = _maker(graph, op)
    if maker is not None and maker.kind == "Reshape":
        maker = _maker(graph, maker)
    cut = maker is not None and isinstance(maker.attrs, SliceAttrs | SplitAttrs)
    rank = len(graph.tensors[op.inputs[0]].shape)
    return cut and isinstance(op.attrs, ArgAttrs) and op.attrs.axis == rank - 2


def _multiplies_depth(graph: Graph, op: Op) -> bool:
    grouped = isinstance(op.attrs, ConvAttrs) and is_depthwise(graph, op)
    return grouped and graph.output_tensor(op).shape[3] > graph.tensors[op.inputs[0]].shape[3]


def _multiplies_a_part(graph: Graph, op: Op) -> bool:
    pads = op.attrs.pads if isinstance(op.attrs, ConvAttrs) else ()
    return any(pads) and _multiplies_depth(graph, op) and _part_maker(graph, op) is not None


def _transposes_a_part(graph: Graph, op: Op) -> bool:
    return isinstance(op.attrs, TransposeConvAttrs) and _part_maker(graph, op) is not None


def _begins_inside(graph: Graph, op: Op) -> bool:
    """A part that does not begin in the first row and column of the image."""
    maker = _part_maker(graph, op)
    if maker is None or not isinstance(op.attrs, TransposeConvAttrs):
        return False
    if isinstance(maker.attrs, SplitAttrs):
        return maker.attrs.axis in (1, 2) and op.inputs[0] != maker.outputs[0]
    return any(maker.attrs_as(SliceAttrs).starts[1:3])


def _pads_every_second(graph: Graph, op: Op) -> bool:
    """A window with padding over an image of which some rows or columns are left out."""
    maker = _part_maker(graph, op)
    if maker is None or not isinstance(maker.attrs, SliceAttrs):
        return False
    pads = op.attrs.pads if isinstance(op.attrs, ConvAttrs | PoolAttrs) else ()
    return any(pads) and max(maker.attrs.steps[1:3], default=1) > 1


# --- Others ---


def _is_uint8(graph: Graph, op: Op) -> bool:
    return graph.tensors[op.inputs[0]].dtype is DType.UINT8


def _transposes_bytes(graph: Graph, op: Op) -> bool:
    """Not where the values keep their order in memory."""
    if not isinstance(op.attrs, TransposeAttrs) or not _is_uint8(graph, op):
        return False
    shape = graph.tensors[op.inputs[0]].shape
    moved = [axis for axis in op.attrs.permutation if shape[axis] > 1]
    return moved != sorted(moved)


def _multiplies_and_clips(graph: Graph, op: Op) -> bool:
    clips = getattr(op.attrs, "activation", Activation.NONE) is not Activation.NONE
    return clips and _is_uint8(graph, op) and _multiplies_depth(graph, op)


def _mirrors_memory(graph: Graph, op: Op) -> bool:
    """Along channels, or along the batch."""
    if not isinstance(op.attrs, MirrorPadAttrs):
        return False
    pads = op.attrs.pads
    return any(pads[-1]) or (len(pads) == 4 and any(pads[0]))


def _moves_by_centres(graph: Graph, op: Op) -> bool:
    """A nearest resize that takes other pixels by their centres than by their corners: not by a
    whole factor."""
    attrs = op.attrs
    if not isinstance(attrs, ResizeAttrs) or attrs.mode is not ResizeMode.NEAREST:
        return False
    if attrs.coordinates is not Coordinates.ASYMMETRIC:
        return False
    sizes = zip(graph.tensors[op.inputs[0]].shape, graph.output_tensor(op).shape, strict=True)
    return any(centres(n, m) != [i * n // m for i in range(m)] for n, m in sizes if n != m)


def centres(size: int, target: int) -> list[int]:
    """Places that a nearest resize of an axis reads where it goes by the centres of pixels."""
    return [(2 * place + 1) * size // (2 * target) for place in range(target)]


def _selects_reshaped(graph: Graph, op: Op) -> bool:
    """An operand that others read in another shape: the stream takes it in that shape."""
    if op.kind != "Where":
        return False
    reshaped = {one.inputs[0] for one in graph.ops if one.kind == "Reshape"}
    return not reshaped.isdisjoint(op.inputs)


def _selects_by_output(graph: Graph, op: Op) -> bool:
    return op.kind == "Where" and op.inputs[0] in graph.outputs


def stride_gaps(graph: Graph, op: Op) -> tuple[int, int]:
    """How much narrower than its stride the kernel of a transposed convolution is, by axis; only
    where the output has as many strides as the input has pixels (padding SAME)."""
    attrs = op.attrs
    if not isinstance(attrs, TransposeConvAttrs):
        return 0, 0
    sizes = zip(graph.tensors[op.inputs[0]].shape[1:3], attrs.strides, strict=True)
    if graph.output_tensor(op).shape[1:3] != tuple(size * stride for size, stride in sizes):
        return 0, 0
    _, height, width, _ = graph.tensors[op.inputs[1]].shape
    return max(attrs.strides[0] - height, 0), max(attrs.strides[1] - width, 0)


def _centres_in_a_stride(graph: Graph, op: Op) -> bool:
    return max(stride_gaps(graph, op)) > 1  # half of a gap of 1 is no pixel


FAULTS = (
    VelaFault("divides stored values", _U85, lambda graph, op: op.kind == "Div"),
    VelaFault("sums one axis", _ALL, _sums_axes),
    VelaFault("reduces the first row", _ALL, _rows_move),
    VelaFault("reduces other values", _U85, _reduces_part_or_rows),
    VelaFault("writes a reduction before its place", _OLD, _pads_a_reduction),
    VelaFault("pads with memory", _ALL, _mirrors_memory),
    VelaFault("resizes by centres", _U85, _moves_by_centres),
    VelaFault("clips bytes as signed", _OLD, _transposes_bytes),
    VelaFault("pads after the image", _ALL, _multiplies_a_part),
    VelaFault("pads after the image", _OLD, _transposes_a_part),
    VelaFault("skips a row or column", _ALL, _pads_every_second),
    VelaFault("reads the whole's beginning", _U85, _begins_inside),
    VelaFault("looks along the other axis", _U85, _finds_in_a_part),
    VelaFault("clips bytes as signed", _OLD, _multiplies_and_clips),
    VelaFault("selects in another shape", _U85, _selects_reshaped),
    VelaFault("selects by one bit", _U85, _selects_by_output),
    VelaFault("centres in a stride", _U85, _centres_in_a_stride),
)
