"""Ops that work on each channel apart, and their constants by channel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from npuscope.edits.document import Document
from npuscope.edits.records import Constant, Op, Value

_ACTIVATIONS = (
    *("Relu", "Relu6", "ReluN1To1", "Clip", "LeakyRelu", "Elu", "Sigmoid", "HardSigmoid"),
    *("HardSwish", "Tanh", "Identity"),
)
_OTHERS = (
    *("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize", "ResizeNearest"),
    *("ResizeLinear", "ReduceMean", "Quantize", "Dequantize", "Pad", "QLinearSigmoid"),
    *("QLinearLeakyRelu", "QLinearAveragePool", "QLinearGlobalAveragePool"),
)
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
_BINARY = ("Add", "Sub", "Mul", "PRelu", "Max", "Min")
_INTEGER = ("QLinearAdd", "QLinearMul")  # constants of theirs have scales beside them
# Data inputs; what is not named here are scales, bounds and the like.
_DATA: dict[str, tuple[int, ...]] = {
    **dict.fromkeys((*_ACTIVATIONS, *_OTHERS, *_VIEWS), (0,)),
    **dict.fromkeys(_BINARY, (0, 1)),
    **dict.fromkeys(_INTEGER, (0, 3)),
}
POINTWISE = (*_ACTIVATIONS, *_BINARY)


def is_channelwise(document: Document, op: Op, axis: int) -> bool:
    """Channels along `axis` do not meet in this op, and its other inputs can follow them."""
    kind, inputs = document.kind(op), document.inputs(op)
    if kind not in _DATA:
        return False
    if kind in ("Quantize", "Dequantize"):
        return document.has_one_scale(op)
    if kind == "Resize":
        return len(inputs) < 4 or document.constant(inputs[3]) is not None
    if kind == "Pad":
        return document.pads_beside(op, axis)
    if kind == "ReduceMean":
        return _keeps(document, op, axis)
    if kind in _VIEWS:
        return _keeps_place(document, op)
    if kind in ("QLinearGlobalAveragePool", "QLinearAveragePool"):
        return not document.attribute(op, "channels_last", 0)
    return all(_follows(document, op, place) for place in _DATA[kind])


def _keeps(document: Document, op: Op, axis: int) -> bool:
    """A mean over other axes, behind which the channels stay where they are."""
    shape, axes = document.shape(document.inputs(op)[0]), document.axes_of(op)
    if not axes or shape is None:
        return False
    reduced = [axis % len(shape) for axis in axes]
    return min(reduced) > axis if document.channels_first else len(shape) - 1 not in reduced


def _keeps_place(document: Document, op: Op) -> bool:
    """Other axes change, but not how many elements stand before and behind the channels."""
    inputs = document.inputs(op)
    before, after = document.shape(inputs[0]), document.shape(document.outputs(op)[0])
    if not before or not after:
        return False
    old, new = (document.axis_of_channels(len(shape)) for shape in (before, after))
    if min(len(before) - old, len(after) - new) < 1:
        return False
    if document.kind(op) == "Reshape" and any(document.constant(v) is None for v in inputs[1:2]):
        return False
    same = before[old] == after[new] and prod(before[:old]) == prod(after[:new])
    return same and prod(before) == prod(after)


def _follows(document: Document, op: Op, place: int) -> bool:
    """A constant operand must be one that can be cut or padded by channel."""
    if document.constant(document.inputs(op)[place]) is None:
        return True
    known = document.shape(document.outputs(op)[0]) is not None
    return document.kind(op) not in _INTEGER and known


def computed_data(document: Document, op: Op) -> list[Value]:
    """Data inputs that are computed; each has the channels of the result."""
    inputs = document.inputs(op)
    values = [inputs[place] for place in _DATA[document.kind(op)]]
    return [value for value in values if document.constant(value) is None]


def follow(
    document: Document, op: Op, axis: int, rank: int, count: int, index: Sequence[int]
) -> list[Value]:
    """Inputs of an op for other channels: constants that differ by channel are picked.

    `axis` and `rank` are those of its result.
    """
    inputs, kind = [*document.inputs(op)], document.kind(op)
    for place in _DATA[kind] if kind in POINTWISE else ():
        constant = document.constant(inputs[place])
        along = None if constant is None else _axis_in(constant, axis - rank, count)
        if constant is not None and along is not None:
            inputs[place] = document.store(constant.picked(index, along))
    return inputs


def _axis_in(constant: Constant, from_end: int, count: int) -> int | None:
    """The constant's axis of channels; None where it is the same for all of them."""
    rank = constant.values.ndim
    if rank + from_end < 0 or constant.values.shape[from_end] != count or count == 1:
        return None
    return rank + from_end
