"""Joins, slices and pads: what stream engines do alone, and what needs the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.ops.moves import ConcatAttrs, PadAttrs, SliceAttrs, SplitAttrs
from npuscope.rulebook import fixes
from npuscope.rulebook.conditions import comes_in, holds_for, leads_out
from npuscope.rulebook.finding import Confidence, Hit, Severity
from npuscope.rulebook.queries import hit, is_npu_tensor, of_kind
from npuscope.rulebook.registry import (
    Refusal,
    Rule,
    RuleKind,
    declare,
    foretells,
    lint,
    refusal,
    refuse,
    wrong_type,
)


@refuse(
    "NA-CONCAT-FORMAT",
    "Concat of tensors that are not int8",
    ops=("Concat",),
    confidence=Confidence.REPORTED,
    cause="The copy is made by stream engines and arithmetic units: every part must be a computed "
    "8-bit tensor with one scale.",
    fixes=(fixes.QUANTIZE_OP,),
)
def parts_are_eight_bits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """All parts of a Concat must be computed 8-bit tensors with one scale."""
    for name in (*op.inputs, *op.outputs):
        tensor = graph.tensor(name)
        if tensor.is_constant or not is_npu_tensor(tensor):
            kind = "constant" if tensor.is_constant else tensor.dtype.value
            return refusal("'$tensor' is $kind", tensor=name, kind=kind)
    return None


@refuse(
    "NA-CONCAT-AXIS",
    "Concat along an axis other than the channels",
    ops=("Concat",),
    cause="Stream engines write channels side by side; parts joined along height, width or "
    "anchors are copied by the CPU. Since 3.0 they are not copied where the NPU computes every "
    "part for this Concat alone: each part is then written to its place.",
    fixes=(fixes.SEPARATE_OUTPUTS, fixes.CHANNEL_AXIS),
)
def parts_join_along_channels(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Stream engines join tensors along the channels only; other axes are copied by the CPU."""
    axis, rank = op.attrs_as(ConcatAttrs).axis, len(graph.output_tensor(op).shape)
    if axis == rank - 1:
        return None
    return refusal("axis $axis of $rank dimensions", f"axis {rank - 1}", axis=axis, rank=rank)


@refuse(
    "NA-CONCAT-PARTS",
    "Concat of parts with different channels",
    ops=("Concat",),
    confidence=Confidence.VERIFIED,
    cause="The 2.x compilers write equal parts side by side and join their channels in one copy. "
    "Unequal parts are joined by a library call that drives the copies: 16 of 16 in builds of "
    "three networks.",
    fixes=(fixes.EQUAL_PARTS,),
    since="2.0",
    until="2.2",
)
def parts_have_the_same_channels(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """This compiler joins parts of the same number of channels only; others are copied by a
    library call."""
    counts = [graph.tensor(name).shape[-1] for name in op.inputs]
    last = len(graph.output_tensor(op).shape) - 1
    along_channels = not 0 <= op.attrs_as(ConcatAttrs).axis < last
    if machine.generation.concat_in_place or len(set(counts)) == 1 or not along_channels:
        return None
    return refusal(
        "parts of $parts channels", f"{counts[0]} each", parts=", ".join(map(str, counts))
    )


@foretells(
    "NA-CONCAT-AXIS",
    "LINT-CONCAT-AXIS",
    cause="Parts joined along height, width or anchors are copied by the CPU, unless the NPU "
    "computes each of them for this Concat alone (since 3.0).",
    fixes=(fixes.SEPARATE_OUTPUTS.unbounded, fixes.CHANNEL_AXIS),
)
def parts_follow_each_other(graph: Graph, op: Op) -> Hit | None:
    """A Concat along an axis other than the channels."""
    if len(op.inputs) < 2:
        return None  # a Concat of one part is removed by the compiler
    axis, last = op.attrs_as(ConcatAttrs).axis, len(graph.output_tensor(op).shape) - 1
    return hit(op, f"axis {axis}", f"axis {last}", bytes=_bytes(graph, op))


@refuse(
    "NA-SLICE-FORMAT",
    "Slice of a tensor that is not int8",
    ops=("Slice",),
    cause="Stream engines copy bytes: the tensor must have 8 bits and one scale.",
    fixes=(fixes.QUANTIZE_OP,),
)
def slice_is_eight_bits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Stream engines slice 8-bit tensors with one scale."""
    tensor = graph.first_input(op)
    return None if is_npu_tensor(tensor) else wrong_type(tensor)


@refuse(
    "NA-SLICE-AXIS",
    "Slice along an axis other than the channels",
    ops=("Slice",),
    confidence=Confidence.REPORTED,
    cause="A slice of channels is a window of a stream engine; along other axes a library call "
    "drives the copies. In 2.x the lines of a tensor that is cut into all of them are read where "
    "they lie.",
    fixes=(fixes.CHANNEL_AXIS,),
    turn=1,  # reported after a step, which is the more serious reason
)
def slice_cuts_channels_only(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Stream engines cut tensors along the channels only; other axes are copied by the CPU."""
    cut = _cut_axes(graph, op)
    rank = len(graph.first_input(op).shape)
    if cut and machine.generation.rows_in_place and makes_up_rows(graph, op):
        return None
    return refusal("axis $axis of $rank dimensions", axis=cut[0], rank=rank) if cut else None


@foretells(
    "NA-SLICE-AXIS",
    "LINT-SLICE-AXIS",
    cause="A library call on the CPU drives the copies.",
    also=("NA-OP-SOFTWARE",),
)
def slice_of_rows(graph: Graph, op: Op) -> Hit | None:
    """A Slice along an axis other than the channels."""
    if _steps(op):
        return None  # the rule for steps reports it
    last = len(graph.output_tensor(op).shape) - 1
    return hit(op, f"axis {_cut_axes(graph, op)[0]}", f"axis {last}", bytes=_bytes(graph, op))


def makes_up_rows(graph: Graph, op: Op) -> bool:
    """The slices of its tensor are all its lines, one each, along the first axis that counts."""
    source = graph.first_input(op)
    cut = _cut_axes(graph, op)
    if len(cut) != 1 or any(size > 1 for size in source.shape[: cut[0]]):
        return False
    readers = [other for other in graph.ops if source.name in other.inputs]
    if source.name in graph.outputs or any(other.kind != "Slice" for other in readers):
        return False
    if any(_cut_axes(graph, other) != cut or _cuts_channels(graph, other) for other in readers):
        return False
    attrs = [other.attrs_as(SliceAttrs) for other in readers]
    starts = sorted(one.starts[cut[0]] for one in attrs)
    single = all(one.sizes[cut[0]] == 1 for one in attrs)
    return single and starts == list(range(source.shape[cut[0]]))


def _cuts_channels(graph: Graph, op: Op) -> bool:
    return op.attrs_as(SliceAttrs).sizes[-1] != graph.first_input(op).shape[-1]


def _cut_axes(graph: Graph, op: Op) -> list[int]:
    """Axes other than the channels that are not kept whole."""
    shape, sizes = graph.first_input(op).shape, op.attrs_as(SliceAttrs).sizes
    return [axis for axis, size in enumerate(sizes[:-1]) if size != shape[axis]]


@refuse(
    "NA-SLICE-STEP",
    "Slice with a step",
    ops=("Slice",),
    confidence=Confidence.REPORTED,
    cause="Stream engines read consecutive elements; the CPU picks every second one.",
    fixes=(fixes.STRIDE_INSTEAD,),
)
def slice_has_no_steps(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A slice with steps is copied by the CPU."""
    steps = op.attrs_as(SliceAttrs).steps
    return refusal("steps $steps", steps=steps) if any(step != 1 for step in steps) else None


@foretells(
    "NA-SLICE-STEP",
    "LINT-SLICE-STEP",
    cause="The CPU picks every second element, and the full tensor is kept until then.",
    also=("NA-OP-SOFTWARE",),
)
def slice_with_a_step(graph: Graph, op: Op) -> Hit | None:
    """A Slice that leaves elements out."""
    steps = _steps(op)
    return hit(op, f"step {steps[0]}", 1, bytes=_bytes(graph, op)) if steps else None


def _steps(op: Op) -> list[int]:
    attrs = op.attrs_as(SliceAttrs)
    pairs = zip(attrs.steps, attrs.sizes, strict=True)
    # One element needs no step, whatever the file says.
    return [step for step, size in pairs if step != 1 and size > 1]


# No check of its own: by the time an op is lowered a Split is Slices, or has no unit at all.
declare(
    __name__,
    Rule(
        "NA-SPLIT-AXIS",
        RuleKind.REFUSE,
        "Split along an axis other than the channels",
        Severity.WARNING,
        Confidence.DOCUMENTED,
        "Parts along the channels are windows of one buffer; along other axes they are copied "
        "outside the NPU.",
        (fixes.SEPARATE_CONVS, fixes.CHANNEL_AXIS),
    ),
)


@lint(
    "LINT-SPLIT-AXIS",
    "Split along an axis other than the channels",
    severity=Severity.WARNING,
    confidence=Confidence.DOCUMENTED,
    cause="The parts are copied outside the NPU: in software with 2.x, by a library call with 4.0.",
    fixes=(fixes.SEPARATE_CONVS,),
    twins=("NA-SPLIT-AXIS", "NA-OP-SOFTWARE"),
)
def split_of_rows(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Split along an axis other than the channels."""
    for op in of_kind(graph, "Split"):
        axis, last = op.attrs_as(SplitAttrs).axis, len(graph.first_input(op).shape) - 1
        if axis != last:
            yield hit(op, f"axis {axis}", f"axis {last}", bytes=_bytes(graph, op))


@refuse(
    "NA-PAD-CHANNEL",
    "Pad along the channels",
    ops=("Pad",),
    confidence=Confidence.REPORTED,
    cause="It is carried out as transpose, pad, transpose; the vendor's compiler leaves the "
    "transposes to the CPU.",
    fixes=(fixes.CONV_SHORTCUT, fixes.PAD_CONV),
)
def padding_is_spatial(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Padding along the channels, or of anything but an 8-bit map, is made by the CPU."""
    pads, tensor = op.attrs_as(PadAttrs).pads, graph.first_input(op)
    # The pad registers know rows and columns of a map, top, bottom, left and right.
    if not is_npu_tensor(tensor) or len(pads) != 4:
        return refusal("$type of $rank dimensions", type=tensor.dtype.value, rank=len(pads))
    batch, rows, columns, channels = pads
    if batch == channels == (0, 0):
        return None
    words = "pads ($batch, $rows, $columns, $channels)"
    return refusal(words, batch=batch, rows=rows, columns=columns, channels=channels)


@foretells(
    "NA-PAD-CHANNEL",
    "LINT-PAD-CHANNEL",
    cause="It is carried out as transpose, pad, transpose; eleven of them made 22 software epochs "
    "in one face detector.",
    also=("NA-OP-SOFTWARE",),
)
def channels_are_padded(graph: Graph, op: Op) -> Hit | None:
    """A Pad that adds channels."""
    # Pads of another rank or type are refused too, but not because of channels.
    if not any(op.attrs_as(PadAttrs).pads[-1]):
        return None
    before, after = (t.shape[-1] for t in (graph.first_input(op), graph.output_tensor(op)))
    return hit(op, f"{before} -> {after} channels", before)


@refuse(
    "NA-PAD-VALUE",
    "Pad with a value other than zero",
    ops=("Pad",),
    cause="The units pad with the zero point only.",
    fixes=(fixes.ZERO_PAD,),
)
def padding_is_a_byte(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A padding value of byte 0 means no padding to the unit: it would be skipped."""
    tensor, value = graph.first_input(op), op.attrs_as(PadAttrs).value
    if not is_npu_tensor(tensor) or tensor.quant is None or value == 0.0:
        return None
    # Zero is the zero point, which is always a byte; another value may lie outside, or be infinite.
    byte = tensor.quant.zero_point + np.rint(value / tensor.quant.scale)
    return refusal("value $value", value=value) if not -128 <= byte <= 127 else None


@refuse(
    "NA-GATHER",
    "Gather runs on the CPU",
    ops=("Gather",),
    confidence=Confidence.REPORTED,
    cause="Addresses that depend on data cannot be programmed into stream engines.",
    fixes=(fixes.HOST_LAYOUT, fixes.CONSTANT_SLICE),
)
def data_is_read_in_order(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Stream engines read memory in regular steps, not by a list of indices."""
    elements = graph.output_tensor(op).elements
    return refusal(f"{elements:,} elements", elements=elements)


@foretells(
    "NA-GATHER",
    "LINT-GATHER",
    title="Gather",
    cause="The CPU picks the elements; layout changes at the input or output are cheaper there.",
    fixes=(fixes.HOST_LAYOUT.unbounded, fixes.CONSTANT_SLICE),
    also=("NA-OP-SOFTWARE",),
)
def elements_are_gathered(graph: Graph, op: Op) -> Hit | None:
    """A Gather: the CPU picks the elements."""
    return hit(op, f"{graph.output_tensor(op).elements} elements", 0)


@refuse(
    "NA-DEPTH-SPACE",
    "Depth-to-space is driven by the CPU",
    ops=("DepthToSpace", "SpaceToDepth"),
    confidence=Confidence.REPORTED,
    cause="Pixels and channels are exchanged: a library call programs the copies one by one.",
    fixes=(fixes.FOLD_DEPTH_TO_SPACE,),
)
def pixels_stay_pixels(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Moving channels into space is a library call that drives the stream engines."""
    return refusal(
        "$before to $after",
        before=graph.first_input(op).shape,
        after=graph.output_tensor(op).shape,
    )


def _bytes(graph: Graph, op: Op) -> int:
    return sum(graph.tensor(name).size_bytes for name in op.outputs)


# --- When fixes are true ---


@holds_for("separate-outputs", "Concat")
def joins_outputs(graph: Graph, op: Op) -> bool:
    """What is joined for another op has to be joined."""
    return leads_out(graph, op)


@holds_for("host-layout", "Gather")
def picks_at_the_border(graph: Graph, op: Op) -> bool:
    """Constant indices into an input, or into what becomes an output."""
    constant = graph.tensor(op.inputs[1]).is_constant
    return constant and (comes_in(graph, op) or leads_out(graph, op))


@holds_for("constant-slice", "Gather")
def picks_neighbours(graph: Graph, op: Op) -> bool:
    data = graph.tensor(op.inputs[1]).data
    return data is not None and data.ndim < 2 and bool(np.all(np.diff(data.reshape(-1)) == 1))


@holds_for("stride-instead", "Slice")
def steps_over_pixels(graph: Graph, op: Op) -> bool:
    """A stride skips rows and columns of an image, not images, channels or anything else."""
    attrs, tensor = op.attrs_as(SliceAttrs), graph.first_input(op)
    pairs = zip(attrs.sizes, tensor.shape, strict=True)
    cut = {axis for axis, (size, whole) in enumerate(pairs) if size != whole}
    # A tensor that no layer reads may have its channels second, as the file has them.
    image = len(tensor.shape) == 4 and (cut <= {1, 2} or cut <= {2, 3})
    return image and min(attrs.steps) > 0


@holds_for("pad-conv", "Pad")
def pads_with_zeros(graph: Graph, op: Op) -> bool:
    return adds_channels(graph, op) and op.attrs_as(PadAttrs).value == 0.0


@holds_for("conv-shortcut", "Pad")
def adds_channels(graph: Graph, op: Op) -> bool:
    """Of an image: pads of other tensors are refused for what they are, not for channels."""
    pads = op.attrs_as(PadAttrs).pads
    return len(pads) == 4 and any(pads[3]) and is_npu_tensor(graph.first_input(op))
