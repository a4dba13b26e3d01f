"""Layers: limits of the convolution units, and forms that compilers handle badly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from npuscope.geometry.pieces import ALWAYS_TOGETHER, extent, piece_count
from npuscope.geometry.tiling import base_tiling
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.layers import ConvAttrs, TransposeConvAttrs, is_depthwise
from npuscope.rulebook import fixes
from npuscope.rulebook.counts import dense_layer
from npuscope.rulebook.finding import Confidence, Hit, Severity
from npuscope.rulebook.queries import convolutions, hit, is_dense, of_kind
from npuscope.rulebook.registry import Refusal, foretells, lint, refusal, refuse
from npuscope.structs import replace

# An unsupported shape is reported before the number format: quantizing would not help.
_SHAPE_FIRST = -1
_STRIDES = (1, 2, 4)  # the preferred ones; 3 was seen in software
_HANGING_GROUPS = 256  # the only count that was reported to hang; the real threshold is not known
_PARTIAL_BYTES = 2  # sums between pieces have 16 bits


@refuse(
    "NA-CONV-GROUPS",
    "Grouped convolution that is not depthwise",
    ops=("Conv2D",),
    confidence=Confidence.REPORTED,
    cause="The units compute dense kernels, one kernel per channel, and small groups with one "
    "group per frame. Larger groups run on the CPU; in 2.x all but depthwise ones do.",
    fixes=(fixes.DENSE_GROUPS,),
    turn=_SHAPE_FIRST,
)
def groups_are_one_or_all(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Groups must be 1, or one input channel per output channel (depthwise), or hold few
    channels."""
    groups = cast(ConvAttrs, op.attrs).groups
    channels = graph.first_input(op).shape[-1]
    outputs = graph.output_tensor(op).shape[-1]
    if groups == 1 or (groups == channels == outputs):
        return None
    # A depthwise layer with several outputs per input was not seen on the NPU.
    largest = max(channels, outputs) // groups
    if groups < channels and largest <= machine.generation.group_channels:
        return None
    return refusal(
        "$groups groups of $inputs -> $outputs channels",
        groups=groups,
        inputs=channels,
        outputs=outputs,
    )


@foretells(
    "NA-CONV-GROUPS",
    "LINT-GROUPS",
    cause="Groups of many channels have no mapping and run on the CPU; in 2.x all but depthwise "
    "ones do.",
)
def groups_are_not_depthwise(graph: Graph, op: Op) -> Hit | None:
    """A grouped convolution that is neither dense nor depthwise, nor of small groups."""
    return hit(op, f"{op.attrs_as(ConvAttrs).groups} groups", "1, or one per channel")


@refuse(
    "NA-CONV-STRIDE",
    "Stride larger than the unit supports",
    ops=("Conv2D",),
    cause="The stride registers of the convolution unit have three bits.",
    fixes=(fixes.SMALLER_STRIDE,),
    turn=_SHAPE_FIRST,
)
def stride_fits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The stride is larger than the unit's registers hold."""
    strides, limit = cast(ConvAttrs, op.attrs).strides, machine.convacc.max_stride
    return refusal("stride $stride", limit, stride=strides) if max(strides) > limit else None


@lint(
    "LINT-STRIDE",
    "Unusual stride",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="Strides 1, 2 and 4 are preferred. Encoders with a stride of 3 were seen to run on the "
    "CPU: 23 ms for three layers.",
    fixes=(fixes.STRIDE_TWO,),
    until="4.0",
    twins=("NA-CONV-STRIDE",),
)
def strides_are_unusual(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A stride other than 1, 2 or 4."""
    for op, attrs, _ in convolutions(graph):
        if any(step not in _STRIDES for step in attrs.strides):
            yield hit(op, f"stride {attrs.strides[0]}x{attrs.strides[1]}", "1, 2 or 4")


@refuse(
    "NA-CONV-LINES",
    "Feature lines wider than the line buffer",
    ops=("Conv2D",),
    cause="A kernel higher than one row keeps whole lines in the unit; one channel of this line "
    "does not fit.",
    fixes=(fixes.FOLD_WIDTH,),
    turn=_SHAPE_FIRST,
)
def lines_fit_the_buffer(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """One channel of one line is wider than the line buffer."""
    width, rows = graph.first_input(op).shape[-2], graph.tensor(op.inputs[1]).shape[1]
    limit = machine.convacc.line_buffer_elements
    # A one-row kernel keeps no lines: it works on the stream as it comes.
    return refusal("width $width", limit, width=width) if rows > 1 and width > limit else None


@refuse(
    "NA-CONV-COLUMNS",
    "Depthwise kernel too wide for the unit",
    ops=("Conv2D",),
    confidence=Confidence.VERIFIED,
    cause="A unit takes six columns of a kernel at stride 1. The compilers of 2.x run the columns "
    "beyond them in float on the CPU: three pieces of a 7x7 kernel, each with a conversion "
    "before and after. Seen in one public build.",
    fixes=(fixes.NARROWER_KERNEL,),
    since="2.0",
    until="2.2",
    turn=_SHAPE_FIRST,
)
def depthwise_columns_fit(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The kernel of a depthwise layer has more columns than the unit takes; this compiler
    computes the others on the CPU."""
    attrs, columns = cast(ConvAttrs, op.attrs), graph.tensor(op.inputs[1]).shape[2]
    limit = machine.convacc.max_kernel_width
    plain = attrs.strides[1] == 1 and attrs.groups > 1 and attrs.dilations == (1, 1)
    if not (machine.generation.software_columns and plain) or columns <= limit:
        return None
    return refusal("$columns columns", limit, columns=columns)


@refuse(
    "NA-CONV-DILATED",
    "Dilated depthwise kernel",
    ops=("Conv2D",),
    confidence=Confidence.VERIFIED,
    cause="The units do not support dilation. Library calls move pixels that are one dilation "
    "apart into channels of their own (space-to-depth) and move the sums back (depth-to-space); "
    "in between, the kernel has no gaps. Seen in builds of two networks and three generations.",
    fixes=(fixes.POOL_INSTEAD,),
    turn=_SHAPE_FIRST,
)
def dilated_pixels_are_moved(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """No unit reads pixels with gaps between them: library calls move them into channels and
    back."""
    if not moves_pixels(graph, op, machine):
        return None
    down, across = cast(ConvAttrs, op.attrs).dilations
    return refusal("dilation ${down}x$across", "1x1", down=down, across=across)


def moves_pixels(graph: Graph, op: Op, machine: Machine) -> bool:
    """A dilated depthwise kernel that fits a unit without its gaps, padded by whole dilations, on
    a map that is at least a dilation large."""
    attrs = cast(ConvAttrs, op.attrs)
    if attrs.dilations == (1, 1) or attrs.strides != (1, 1):
        return False
    weights = graph.tensor(op.inputs[1]).shape
    (down, across), (height, width) = attrs.dilations, graph.first_input(op).shape[1:3]
    top, left, bottom, right = attrs.pads
    whole = not any((top % down, bottom % down, left % across, right % across))
    depthwise = attrs.groups > 1 and weights[3] == 1 and down <= height and across <= width
    one_piece = piece_count((weights[1], weights[2]), attrs.strides, machine) == 1
    return depthwise and whole and one_piece


@refuse(
    "NA-CONV-PRIME",
    "A prime count of input channels cannot be split",
    ops=("Conv2D", "FullyConnected"),
    confidence=Confidence.VERIFIED,
    cause="Input channels are summed in equal parts, one accumulation pass each. A prime count has "
    "parts of one channel only; of 257 that is more passes than the registers count, and the "
    "vendor's compilers do not cut the layer: the CPU computes it. The log calls it 'scale-offset "
    "format'. Seen for 1x1 kernels and dense layers of 2.1 and 2.2; at 3.0 and 4.0 the size of the "
    "weights shows it.",
    fixes=(fixes.PAD_CHANNELS, fixes.SPLIT_INPUTS, fixes.CHANGE_INPUTS),
    since="2.0",
    until="4.0",
    turn=_SHAPE_FIRST,
)
def passes_fit_the_registers(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The input channels have no equal parts that give few enough accumulation passes."""
    limit, cuts = machine.convacc.max_passes, machine.generation.splits_odd_channels
    if cuts or graph.first_input(op).shape[-1] <= limit or not is_dense(graph, op):
        return None
    layer = dense_layer(graph, op, machine)
    passes = base_tiling(layer.shape, layer.simd, machine).passes
    if passes <= limit:
        return None
    inputs = layer.shape.inputs
    return refusal("$inputs input channels in $passes passes", limit, inputs=inputs, passes=passes)


@refuse(
    "NA-CONV-ONE-INPUT",
    "One input channel at one position",
    ops=("Conv2D", "FullyConnected"),
    confidence=Confidence.VERIFIED,
    cause="A layer that reads a single value runs on the CPU. Seen for the second layer of all "
    "16 squeeze-and-excite blocks of a 3.0 build, and for a dense layer of a 2.2 build.",
    fixes=(fixes.MORE_INPUTS,),
    since="2.0",
    until="4.0",
    turn=_SHAPE_FIRST,
)
def more_than_one_value_is_read(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The layer reads one value: this compiler leaves it to the CPU."""
    one = graph.first_input(op).elements == 1
    return refusal("1 value", 2) if one and machine.generation.software_one_input else None


@lint(
    "LINT-DEPTHWISE-STRIDE",
    "Strided depthwise convolution that may hang",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="A depthwise convolution over one line with stride 2 and 256 groups never finished on a "
    "board with 4.0.1. Depthwise convolutions of images with as many groups do run.",
    fixes=(fixes.MOVE_STRIDE,),
    since="4.0",
    until="4.0",
)
def strided_depthwise_on_lines(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A depthwise convolution of stride 2 over one line, with 256 channels or more: reported to
    hang."""
    for op, attrs, weights in convolutions(graph):
        one_line = 1 in graph.first_input(op).shape[1:3]
        strided = max(attrs.strides) > 1 and max(weights[1:3]) > 1
        if is_depthwise(graph, op) and one_line and strided and attrs.groups >= _HANGING_GROUPS:
            yield hit(
                op, f"{attrs.groups} groups, stride {max(attrs.strides)}", _HANGING_GROUPS - 1
            )


@refuse(
    "NA-TRANSPOSED-CONV",
    "Transposed convolution",
    ops=("TransposeConv",),
    cause="It is expanded into a convolution and a depth-to-space, which the CPU drives.",
    fixes=(fixes.RESIZE_CONV,),
)
def transposed_conv_is_expanded(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Only a transposed convolution of one group, square strides and constant integer weights
    can be expanded into a plain one."""
    return refusal("weights $shape", shape=graph.tensor(op.inputs[1]).shape)


@foretells(
    "NA-TRANSPOSED-CONV",
    "LINT-TRANSPOSED-CONV",
    cause="It becomes a convolution and a depth-to-space; the CPU drives the latter. Grouped ones "
    "were reported to crash the compiler.",
    also=("NA-OP-SOFTWARE",),
)
def transposed_convolution(graph: Graph, op: Op) -> Hit | None:
    """A transposed convolution: expanded into a convolution and a depth-to-space."""
    grouped = op.attrs_as(TransposeConvAttrs).groups > 1
    note = " (grouped: reported to crash the compiler)" if grouped else ""
    return hit(op, f"{graph.output_tensor(op).elements} output elements{note}", 0)


@refuse(
    "NA-BIAS",
    "The bias is computed at run time",
    ops=LAYERS,
    confidence=Confidence.REPORTED,
    cause="Biases become coefficients of the arithmetic unit when the network is compiled; an "
    "activation cannot take their place.",
    fixes=(fixes.ADD_BEHIND,),
)
def bias_is_constant(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The bias must be constant."""
    if len(op.inputs) > 2 and op.inputs[2] and not graph.tensor(op.inputs[2]).is_constant:
        return refusal("bias is computed at run time")
    return None


@lint(
    "LINT-BIAS-COMPUTED",
    "A computed bias",
    severity=Severity.ERROR,
    stops=True,
    until="4.0",
    confidence=Confidence.REPORTED,
    cause="Graph optimizers fuse MatMul and Add into a Gemm whose C is an activation; the "
    "vendor's compiler stops with 'list index out of range'.",
    fixes=(fixes.ADD_BEHIND,),
    twins=("NA-BIAS",),
)
def bias_is_an_activation(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A layer's bias is computed at run time."""
    readers = graph.consumers()
    for op in of_kind(graph, *LAYERS):
        bias = op.inputs[2] if len(op.inputs) > 2 else ""
        if not bias or graph.tensor(bias).is_constant:
            bias = _added_by_the_same_source(op, readers[op.outputs[0]]) or ""
        if bias:
            yield hit(op, f"bias '{bias}' is computed", "constant")


def _added_by_the_same_source(op: Op, readers: list[Op]) -> str | None:
    """The ONNX reader makes a layer and an Add of a Gemm with a computed bias."""
    adds = [other for other in readers if other.kind == "Add" and other.origin == op.origin]
    if not op.origin or not adds:
        return None
    return next((name for name in adds[0].inputs if name != op.outputs[0]), None)


@lint(
    "LINT-LARGE-KERNEL",
    "A large kernel on a wide output",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Kernels are cut into pieces of 3 rows and 6 (strided 12) columns. Up to three share "
    "an epoch and need no buffer. More run in pairs: each pair keeps a 16-bit buffer of sums "
    "until the last epoch adds them up. With a 7x7 stem and a wide output these buffers go to "
    "external RAM: about 75 ms for 64 outputs of 112x112.",
    fixes=(fixes.SMALLER_KERNEL,),
    twins=("ADV-PARTIALS",),
)
def kernel_is_cut(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A kernel of more than three pieces leaves one 16-bit buffer of sums per pair of them; on a
    wide output they do not fit the internal RAM."""
    room = internal_ram_bytes(machine)
    for op, attrs, weights in convolutions(graph):
        pieces = _pieces(attrs, weights, machine)
        if pieces <= ALWAYS_TOGETHER or attrs.dilations != (1, 1):
            continue
        size = pieces * _PARTIAL_BYTES * graph.output_tensor(op).elements
        kernel = f"{weights[1]}x{weights[2]}"
        text = f"{kernel} in {pieces} pieces, {size:,} bytes of sums in {room:,} of RAM"
        partials = hit(op, text, pieces=pieces, kernel=kernel, bytes=size, room_bytes=room)
        yield replace(partials, severity=Severity.WARNING) if size > room else partials


@lint(
    "LINT-DILATED",
    "Dilated kernel",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="The pixels of a depthwise layer are moved into channels and back by library calls, at "
    "four cycles per element each way. No build with a dense dilated kernel was seen: it is "
    "assumed to be filled with zeros and cut like a large one, with one epoch per piece.",
    fixes=(fixes.POOL_INSTEAD,),
    twins=("NA-CONV-DILATED",),
)
def kernel_is_dilated(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A dilated kernel: no unit reads pixels with gaps between them."""
    for op, attrs, weights in convolutions(graph):
        pieces = _pieces(attrs, weights, machine)
        if attrs.dilations != (1, 1) and pieces > 1:
            yield hit(op, f"dilation {attrs.dilations[0]}x{attrs.dilations[1]}", 1, pieces=pieces)


@lint(
    "LINT-FULL-HEIGHT",
    "A column kernel over the whole height",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="An 8x1 kernel on 8 rows was rewritten into eight convolutions that hung on a board.",
    fixes=(fixes.TWO_KERNELS,),
    since="4.0",
    until="4.0",
)
def kernel_covers_the_height(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A kernel of one column covers the whole height: reported to hang after its rewrite."""
    limit = machine.convacc.max_kernel_height
    for op, attrs, weights in convolutions(graph):
        height = graph.first_input(op).shape[1]
        # A kernel that fits the rows of the unit is not rewritten.
        if weights[2] == 1 and weights[1] == height > limit and not any(attrs.pads):
            yield hit(op, f"{height}x1", limit)


def internal_ram_bytes(machine: Machine) -> int:
    return sum(p.size_bytes for p in machine.pools if p.writable and not p.cacheable)


def _pieces(attrs: ConvAttrs, weights: tuple[int, ...], machine: Machine) -> int:
    window = extent((weights[1], weights[2]), attrs.dilations)
    return piece_count(window, attrs.strides, machine)
