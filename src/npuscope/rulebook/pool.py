"""Pools and reductions: windows, strides, padding and axes of the pooling unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from npuscope.geometry.divisors import largest_prime_factor
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.ops.reduce import PoolAttrs, ReduceAttrs
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.rulebook import fixes
from npuscope.rulebook.conditions import holds_for, maker_of, only_reader
from npuscope.rulebook.finding import Confidence, Hit, Severity
from npuscope.rulebook.queries import hit, is_float, of_kind
from npuscope.rulebook.registry import Refusal, foretells, lint, refusal, refuse

_BLOCK_FACTOR = 3  # pools of whole blocks are built from windows of two and three
_LARGEST_FACTOR = 7  # global pools of 7x7 map on every generation; 50x11 was seen in software


def covers_the_map(graph: Graph, op: Op) -> bool:
    """True for a window that covers the whole map: a global pool."""
    attrs = cast(PoolAttrs, op.attrs)
    return attrs.window == graph.first_input(op).shape[1:3] and not any(attrs.pads)


@refuse(
    "NA-POOL-WINDOW",
    "Pooling window larger than the unit supports",
    ops=("MaxPool", "AveragePool"),
    cause="The pooling unit has windows up to 3x3; a larger one maps only when it covers the "
    "whole map.",
    fixes=(fixes.SMALL_POOLS,),
)
def window_fits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The window is larger than the unit supports and does not cover the whole map."""
    window, limit = cast(PoolAttrs, op.attrs).window, machine.pool.max_window
    # Of the two only the average has a form over the whole map.
    if op.kind == "AveragePool" and covers_the_map(graph, op):
        return None
    return refusal("window $window", limit, window=window) if max(window) > limit else None


@refuse(
    "NA-POOL-LINES",
    "Lines wider than the line buffer of the pooling unit",
    ops=("MaxPool", "AveragePool", "Mean"),
    cause="The pooling unit keeps lines of the map; one channel of this line does not fit.",
    fixes=(fixes.FOLD_POOL_WIDTH,),
)
def lines_fit_the_buffer(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """One channel of one line is wider than the line buffer."""
    shape, limit = graph.first_input(op).shape, machine.pool.line_buffer_elements
    if len(shape) != 4 or shape[2] <= limit:
        return None
    return refusal("width $width", limit, width=shape[2])


@lint(
    "LINT-POOL-WINDOW",
    "Pooling window that cannot be tiled",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="The unit's window has up to 3x3 elements; larger ones are built from it where they "
    "can be. A global pool of 50x11 was seen to run on the CPU.",
    fixes=(fixes.SMALL_POOLS,),
    twins=("NA-POOL-WINDOW",),
)
def window_is_large(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A pooling window that is neither small nor a map that small windows can tile."""
    for op in of_kind(graph, "MaxPool", "AveragePool"):
        window = op.attrs_as(PoolAttrs).window
        if max(window) > machine.pool.max_window and not _can_be_tiled(graph, op):
            yield hit(op, f"{window[0]}x{window[1]}", machine.pool.max_window)


def _can_be_tiled(graph: Graph, op: Op) -> bool:
    """By small windows one after the other: overlapping maxima, whole blocks, whole maps."""
    attrs = op.attrs_as(PoolAttrs)
    factor = max(map(largest_prime_factor, attrs.window))
    if attrs.window == graph.first_input(op).shape[1:3]:
        return factor <= _LARGEST_FACTOR
    if attrs.strides == (1, 1):
        return op.kind == "MaxPool"
    return attrs.strides == attrs.window and factor <= _BLOCK_FACTOR


@refuse(
    "NA-POOL-STRIDE",
    "Pooling stride larger than the unit supports",
    ops=("MaxPool", "AveragePool"),
    cause="The stride registers of the pooling unit hold at most 15.",
    fixes=(fixes.SMALL_POOL_STRIDES,),
)
def stride_fits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The stride is larger than the unit supports."""
    strides, limit = cast(PoolAttrs, op.attrs).strides, machine.pool.max_stride
    # With a single result the stride is never used.
    if op.kind == "AveragePool" and covers_the_map(graph, op):
        return None
    return refusal("stride $stride", limit, stride=strides) if max(strides) > limit else None


@refuse(
    "NA-POOL-PAD",
    "Padding that the pooling unit cannot do",
    ops=("MaxPool", "AveragePool"),
    confidence=Confidence.REPORTED,
    cause="The pad registers hold at most 7, and an average must not count padded values.",
    fixes=(fixes.EXPLICIT_PAD, fixes.UNPADDED_POOL),
)
def padding_fits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The padding is larger than the unit supports, or an average would count it."""
    pads, limit = cast(PoolAttrs, op.attrs).pads, machine.pool.max_padding
    # An average must not count padded values, which the unit would.
    if op.kind == "AveragePool" and any(pads):
        return refusal("padded average")
    return refusal("padding $padding", limit, padding=pads) if max(pads) > limit else None


@foretells(
    "NA-POOL-PAD",
    "LINT-POOL-PAD",
    title="Padded average pool",
    ops=("AveragePool",),  # a padded maximum maps, up to the limit
    cause="Padded values must not count in an average; a Pad is carried out by a library call.",
)
def average_is_padded(graph: Graph, op: Op) -> Hit | None:
    """An average pool with padding."""
    return hit(op, f"padding {op.attrs_as(PoolAttrs).pads}", 0)


@refuse(
    "NA-MEAN-AXES",
    "A mean that is not a global pool",
    ops=("Mean",),
    confidence=Confidence.REPORTED,
    cause="The pooling unit averages whole maps: both spatial axes of a 4-D tensor together.",
    fixes=(fixes.MEAN_BOTH_AXES, fixes.CUT_TAIL, fixes.REPLACE_BLOCK),
)
def mean_is_a_global_pool(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A mean runs on the POOL unit only over both spatial axes of a 4-D tensor."""
    tensor, axes = graph.first_input(op), cast(ReduceAttrs, op.attrs).axes
    if len(tensor.shape) == 4 and axes == (1, 2):
        return None
    return refusal("axes $axes of $rank dimensions", axes=axes, rank=len(tensor.shape))


@foretells(
    "NA-MEAN-AXES",
    "LINT-MEAN-AXIS",
    cause="Only a mean over height and width together becomes a pool; over one axis the data is "
    "transposed first.",
)
def mean_is_no_global_pool(graph: Graph, op: Op) -> Hit | None:
    """A mean over axes other than height and width together."""
    tensor, axes = graph.first_input(op), op.attrs_as(ReduceAttrs).axes
    if is_float(tensor):
        return None  # off the NPU whatever its axes
    return hit(op, f"axes {axes} of {len(tensor.shape)}", "height and width of 4-D")


_NOT_A_MEAN = tuple(sorted(having(Trait.REDUCES) - {"Mean"}))


@refuse(
    "NA-REDUCE-KIND",
    "A reduction other than mean",
    ops=_NOT_A_MEAN,
    confidence=Confidence.REPORTED,
    cause="Only a mean (or a maximum) over whole maps becomes a pool; sums, products and minima "
    "run on the CPU.",
    fixes=(fixes.MEAN_TIMES_N, fixes.CUT_TAIL, fixes.REPLACE_BLOCK),
)
def reduction_is_a_mean(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Of all reductions only a mean over both spatial axes is a global pool."""
    return refusal("$op of $shape", op=op.kind, shape=graph.first_input(op).shape)


# --- When fixes are true ---


@holds_for("explicit-pad", "MaxPool", "AveragePool")
def padding_counts(graph: Graph, op: Op) -> bool:
    """Where padding does not count, every border has its own divisor; a maximum would need the
    lowest value instead of zero."""
    return op.kind == "AveragePool" and op.attrs_as(PoolAttrs).count_pads


@holds_for("mean-times-n", *_NOT_A_MEAN)
def sums_whole_maps(graph: Graph, op: Op) -> bool:
    """A mean times a count is a sum: it is no maximum, no minimum, no product and no norm."""
    return op.kind == "ReduceSum" and _axes(graph, op) == {1, 2}


@holds_for("mean-both-axes", "Mean")
def is_half_of_a_mean(graph: Graph, op: Op) -> bool:
    """Two means in a row, which are one mean over height and width together."""
    before, behind = maker_of(graph, op.inputs[0]), only_reader(graph, op)
    if before is not None and before.kind == "Mean" and only_reader(graph, before) is op:
        return _together(graph, before, op)
    return behind is not None and behind.kind == "Mean" and _together(graph, op, behind)


def _together(graph: Graph, first: Op, second: Op) -> bool:
    own = _axes(graph, first)
    same_rank = len(graph.output_tensor(first).shape) == 4
    axes = [axis for axis in range(4) if same_rank or axis not in own]
    also = {axes[axis] for axis in second.attrs_as(ReduceAttrs).axes if axis < len(axes)}
    # Axes of channel-first tensors that a Transpose brought here are looked at by the edit.
    return len(graph.first_input(first).shape) == 4 and len(own | also) == 2 and 0 not in own | also


def _axes(graph: Graph, op: Op) -> set[int]:
    """Of an image; empty for other ranks."""
    axes = op.attrs_as(ReduceAttrs).axes
    return set(axes) if len(graph.first_input(op).shape) == 4 else set()
