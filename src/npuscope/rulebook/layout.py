"""Layout and size of maps: transposes, resizing, and moves that change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from npuscope.graph.model import Graph, Numerics, Op
from npuscope.machine.model import Machine
from npuscope.ops.images import Coordinates, NearestRounding, ResizeAttrs, ResizeMode
from npuscope.ops.kernels.resize import litert_nearest_of, nearest_of
from npuscope.ops.moves import TransposeAttrs
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.rulebook import fixes
from npuscope.rulebook.conditions import holds_for
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.queries import (
    hit,
    is_npu_tensor,
    live_ops,
    of_kind,
    operands,
    shape_text,
    source,
)
from npuscope.rulebook.registry import Refusal, foretells, lint, refusal, refuse
from npuscope.structs import replace

# Between channel-first and channel-last: what the stream engines can do.
_BY_ENGINES = ((0, 2, 3, 1), (0, 3, 1, 2))
_SWAPPED = (0, 1, 2, 4, 3)  # channels are last, in two axes: groups and channels of a group
# The order of the elements does not matter.
_BY_ELEMENT = having(Trait.FUNCTION, Trait.CONVERSION, Trait.ARITHMETIC) | {"Identity"}


@refuse(
    "NA-TRANSPOSE",
    "Transpose that the stream engines cannot do",
    ops=("Transpose",),
    confidence=Confidence.REPORTED,
    cause="Engines convert channel-first to channel-last data and back; other permutations run on "
    "the CPU.",
    fixes=(fixes.KEEP_LAYOUT, fixes.SHUFFLE_CONV, fixes.MERGE_AXES),
)
def transpose_moves_channels_only(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Only the change between channel-first and channel-last of one 8-bit image is a plain DMA."""
    tensor, permutation = graph.first_input(op), op.attrs_as(TransposeAttrs).permutation
    axes = [axis for axis in permutation if tensor.shape[axis] != 1]
    if axes == sorted(axes):
        return None  # moves nothing
    # The engines step through one image: rows, columns, channels, a byte each.
    plain = len(tensor.shape) == 4 and tensor.shape[0] == 1 and tensor.dtype.bits == 8
    if plain and permutation in _BY_ENGINES:
        return None
    return refusal(
        "permutation $permutation of $type $shape",
        permutation=permutation,
        type=tensor.dtype.value,
        shape=tensor.shape,
    )


@foretells(
    "NA-TRANSPOSE",
    "LINT-TRANSPOSE",
    title="Transpose inside the network",
    cause="Stream engines convert channel-first to channel-last data and back; other permutations, "
    "such as those between attention heads, run on the CPU.",
    fixes=(fixes.KEEP_LAYOUT.unbounded, fixes.SHUFFLE_CONV, fixes.MERGE_AXES),
    also=("NA-OP-SOFTWARE",),
)
def axes_are_permuted(graph: Graph, op: Op) -> Hit | None:
    """A Transpose inside the network that the stream engines cannot do."""
    permutation = op.attrs_as(TransposeAttrs).permutation
    # At inputs and outputs the application can choose the layout; with batch 1 and int8 the engines
    # do it.
    at_border = {*graph.inputs, *graph.outputs} & {op.inputs[0], op.outputs[0]}
    if at_border or permutation in _BY_ENGINES:
        return None
    text, limit = f"permutation {permutation}", "channel-first to channel-last or back"
    return replace(hit(op, text, limit), fixes=shuffle_fix(graph, op))


def shuffle_fix(graph: Graph, op: Op) -> Mapping[str, Mapping[str, Value]]:
    """Parameters of the fix for a Transpose that is the middle of a shuffle."""
    if op.kind != "Transpose" or op.attrs_as(TransposeAttrs).permutation != _SWAPPED:
        return {}
    first = graph.producers().get(op.inputs[0])
    readers = [other for other in graph.ops if op.outputs[0] in other.inputs]
    if first is None or len(readers) != 1:
        return {}
    if first.kind != "Reshape" or readers[0].kind != "Reshape":
        return {}
    before, after = graph.first_input(first).shape, graph.output_tensor(readers[0]).shape
    return {"shuffle-conv": {"channels": before[-1]}} if before == after else {}


@lint(
    "LINT-DUPLICATE",
    "The same op twice",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Two ops of one kind read the same tensors and compute the same result: exporters "
    "repeat Transposes and Reshapes for every reader.",
    fixes=(fixes.SHARE_RESULT,),
)
def op_is_there_twice(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """The same op is applied to the same inputs twice."""
    originals: dict[tuple[object, ...], Op] = {}
    for op in live_ops(graph):
        # Formats are compared too: two layers may read the same tensor and quantize differently.
        results = [graph.tensor(name) for name in op.outputs]
        formats = tuple((tensor.shape, tensor.dtype, tensor.quant) for tensor in results)
        first = originals.setdefault((op.kind, op.attrs, op.inputs, formats), op)
        # One op of the file may be read as several, some of them alike: nobody wrote it twice.
        if first.origin != op.origin:
            elements = graph.output_tensor(op).elements
            yield Hit((*source(first), *source(op)), f"{op.kind}, {elements} elements", 1)


@refuse(
    "NA-RESIZE-MODE",
    "Resize that is not nearest",
    ops=("Resize",),
    cause="Interpolation computes with pixel positions; the NPU has no unit for it.",
    fixes=(fixes.NEAREST_RESIZE, fixes.CUT_TAIL, fixes.FOLD_RESIZE),
    way="NPU+CPU",
)
def resize_repeats_pixels(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Only a nearest resize by the same whole factor in both directions repeats pixels; all
    others run on the CPU."""
    attrs = op.attrs_as(ResizeAttrs)
    if not is_npu_tensor(graph.first_input(op)):
        dtype = graph.first_input(op).dtype.value
        return refusal("$mode of $type", mode=attrs.mode.value, type=dtype)
    if resize_factor(graph, op) is None:
        return refusal("$mode to $size", mode=attrs.mode.value, size=attrs.sizes)
    return None


@foretells(
    "NA-RESIZE-MODE",
    "LINT-RESIZE-LINEAR",
    title="Bilinear resize",
    cause="The NPU has no unit that interpolates; the CPU takes about 30 cycles per element.",
    also=("NA-OP-SOFTWARE",),
)
def resize_interpolates(graph: Graph, op: Op) -> Hit | None:
    """A bilinear Resize: it runs on the CPU."""
    linear = op.attrs_as(ResizeAttrs).mode is ResizeMode.LINEAR
    return hit(op, _sizes(graph, op), "nearest") if linear and _grows(graph, op) else None


@refuse(
    "NA-RESIZE-HYBRID",
    "Nearest resize ends in a depth-to-space",
    ops=("Resize",),
    confidence=Confidence.REPORTED,
    cause="The upsampling is a convolution that repeats channels and a depth-to-space, which a "
    "library call on the CPU drives.",
    fixes=(fixes.REPEAT_BY_JOINING, fixes.FOLD_RESIZE),
)
def resize_ends_in_depth_to_space(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """No unit writes a pixel twice: pixels are copied into channels and moved into space by a
    library call."""
    # Always refused here: lowering decides what can run partly on the NPU.
    return refusal("depth-to-space at the end")


@foretells(
    "NA-RESIZE-HYBRID",
    "LINT-RESIZE-NEAREST",
    title="Nearest resize",
    cause="It becomes a convolution that repeats channels and a depth-to-space, which the CPU "
    "drives: about five cycles per output element.",
    also=("NA-OP-SOFTWARE",),
)
def resize_repeats(graph: Graph, op: Op) -> Hit | None:
    """A nearest Resize: a convolution that repeats channels, then a depth-to-space."""
    if op.attrs_as(ResizeAttrs).mode is not ResizeMode.NEAREST or not _grows(graph, op):
        return None
    return hit(op, _sizes(graph, op), None, elements=graph.output_tensor(op).elements)


@lint(
    "LINT-RESIZE-FORM",
    "Nearest resize in an unusual form",
    severity=Severity.INFO,
    confidence=Confidence.DOCUMENTED,
    cause="The vendor's operator table lists nearest resizing with asymmetric coordinates and "
    "floor. Half-pixel forms pick the same pixels for whole factors.",
    fixes=(fixes.PLAIN_NEAREST,),
    until="4.0",
)
def resize_has_another_form(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A nearest Resize that is not stated as asymmetric and floor, but picks the same pixels."""
    for op in of_kind(graph, "Resize"):
        attrs = op.attrs_as(ResizeAttrs)
        plain = attrs.coordinates is Coordinates.ASYMMETRIC
        plain = plain and attrs.rounding is NearestRounding.FLOOR
        if attrs.mode is ResizeMode.NEAREST and not plain and repeats_pixels(graph, op):
            form = f"{attrs.coordinates.value}, {attrs.rounding.value}"
            yield hit(op, form, "asymmetric, floor")


def resize_factor(graph: Graph, op: Op) -> int | None:
    """The whole factor of a nearest resize, the same both ways; else None."""
    attrs = op.attrs_as(ResizeAttrs)
    height, width = graph.first_input(op).shape[1:3]
    rows, columns = attrs.sizes
    factor = rows // height
    whole = rows == factor * height and columns == factor * width
    # A factor of 1 changes nothing; a smaller output would skip pixels, which is a stride.
    if attrs.mode is not ResizeMode.NEAREST or not whole or factor < 2:
        return None
    return factor if repeats_pixels(graph, op) else None


def repeats_pixels(graph: Graph, op: Op) -> bool:
    """Does a nearest resize pick what asymmetric coordinates and floor would?"""
    attrs = op.attrs_as(ResizeAttrs)
    # The two runtimes round float positions differently; the graph states which one applies.
    picks = litert_nearest_of if graph.numerics is Numerics.LITERT else nearest_of
    for axis, (size, count) in enumerate(
        zip(graph.first_input(op).shape[1:3], attrs.sizes, strict=True)
    ):
        if not np.array_equal(picks(attrs, axis, size), np.arange(count) * size // count):
            return False
    return True


def _grows(graph: Graph, op: Op) -> bool:
    """A resize of one pixel is a broadcast, which the compiler folds."""
    before, after = graph.first_input(op).shape, graph.output_tensor(op).shape
    return before[1:3] not in ((1, 1), after[1:3])


def _sizes(graph: Graph, op: Op) -> str:
    before, after = graph.first_input(op).shape, graph.output_tensor(op).shape
    return f"{shape_text(before[1:])} -> {shape_text(after[1:])}"


@lint(
    "LINT-CANCELLING-TRANSPOSES",
    "Transposes that undo each other",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Exporters leave pairs of Transposes around blocks that were converted one by one.",
    fixes=(fixes.REMOVE_TRANSPOSES,),
)
def transposes_cancel(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Two Transposes that undo each other, alone or around element-wise ops."""
    for op in of_kind(graph, "Transpose"):
        elements = graph.output_tensor(op).elements
        pair = _pair(graph, op)
        permutation = op.attrs_as(TransposeAttrs).permutation
        keeps_order = permutation == tuple(range(len(permutation)))
        if keeps_order:
            yield hit(op, f"{elements} elements stay in order", 0)
        elif pair is not None and _cancel(pair.first, op):
            ops = (*source(pair.first), *source(op))
            yield Hit(ops, f"{elements} elements moved twice", 0)


@lint(
    "LINT-DEAD-RESHAPE",
    "Reshapes that change nothing",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="A Reshape to the same shape, or one whose result is only reshaped again. They keep "
    "compilers from seeing that an op and its activation belong together.",
    fixes=(fixes.REMOVE_RESHAPES,),
)
def reshapes_do_nothing(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Reshape that keeps the shape, or whose result is only reshaped again."""
    for op in of_kind(graph, "Reshape"):
        before, after = graph.first_input(op).shape, graph.output_tensor(op).shape
        pair = _pair(graph, op)
        if before == after:
            yield hit(op, f"{shape_text(before)} stays", 0)
        elif pair is not None and (not pair.between or _source_shape(graph, pair) == after):
            path = [shape_text(s) for s in (_source_shape(graph, pair), before, after)]
            yield Hit((*source(pair.first), *source(op)), " -> ".join(path), 1)


def _source_shape(graph: Graph, pair: _Pair) -> tuple[int, ...]:
    return graph.first_input(pair.first).shape


class _Pair(Struct, frozen=True):
    """The move of the same kind in front of another, and how many ops are between them."""

    first: Op
    between: int


def _pair(graph: Graph, op: Op) -> _Pair | None:
    makers, readers = graph.producers(), graph.consumers()
    name, between = op.inputs[0], 0
    while name in makers and len(readers[name]) == 1 and name not in graph.outputs:
        maker = makers[name]
        if maker.kind == op.kind:
            return _Pair(maker, between)
        if not _treats_all_alike(graph, maker):
            return None
        name, between = operands(graph, maker)[0].name, between + 1
    return None


def _treats_all_alike(graph: Graph, op: Op) -> bool:
    if op.kind not in _BY_ELEMENT or len(operands(graph, op)) != 1:
        return False
    others = [t for t in graph.input_tensors(op) if t is not None and t.is_constant]
    return all(tensor.elements == 1 for tensor in others)


def _cancel(first: Op, second: Op) -> bool:
    one, other = (op.attrs_as(TransposeAttrs).permutation for op in (first, second))
    return [one[axis] for axis in other] == list(range(len(one)))


# --- When fixes are true ---

_OF_CHANNELS = (*_BY_ENGINES, (0, 2, 1))  # between channel-first and channel-last


@holds_for("keep-layout", "Transpose")
def moves_the_channels(graph: Graph, op: Op) -> bool:
    """Heads of attention and shuffled groups are permuted for their own sake."""
    return op.attrs_as(TransposeAttrs).permutation in _OF_CHANNELS


@holds_for("nearest-resize", "Resize")
def interpolates_by_a_factor(graph: Graph, op: Op) -> bool:
    """A whole factor above 1, the same both ways: then repeated pixels are smoothed by a kernel."""
    attrs, (height, width) = op.attrs_as(ResizeAttrs), graph.first_input(op).shape[1:3]
    factor = attrs.sizes[0] // height
    whole = factor > 1 and attrs.sizes == (factor * height, factor * width)
    whole = whole or (height, width) == (1, 1)  # a pixel that is only repeated
    return attrs.mode is ResizeMode.LINEAR and whole and is_npu_tensor(graph.first_input(op))


@holds_for("repeat-by-joining", "Resize")
def repeats_by_a_factor(graph: Graph, op: Op) -> bool:
    return resize_factor(graph, op) is not None
