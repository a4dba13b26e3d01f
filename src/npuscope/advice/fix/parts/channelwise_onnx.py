"""ONNX nodes that work on each channel apart, and their constants by channel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npuscope.advice.fix.parts.weights_onnx import Stored, store, stored
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument

_ACTIVATIONS = (
    "Relu",
    "Clip",
    "LeakyRelu",
    "Elu",
    "Sigmoid",
    "HardSigmoid",
    "HardSwish",
    "Tanh",
    "Identity",
)
_POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
# Data inputs of the nodes; what is not named here are scales, bounds and the like.
_DATA: dict[str, tuple[int, ...]] = {
    **dict.fromkeys((*_ACTIVATIONS, *_POOLS, QUANTIZE, DEQUANTIZE), (0,)),
    **dict.fromkeys(("Add", "Sub", "Mul", "PRelu", "Max", "Min"), (0, 1)),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), (0, 3)),
    **dict.fromkeys(("QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool"), (0,)),
    **dict.fromkeys(("QLinearGlobalAveragePool", "Resize", "ReduceMean"), (0,)),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), (0,)),
}
_INTEGER = ("QLinearAdd", "QLinearMul")  # constants of theirs have scales beside them
POINTWISE = (*_ACTIVATIONS, "Add", "Sub", "Mul", "PRelu", "Max", "Min")


def is_channelwise(document: OnnxDocument, node: Node, axis: int) -> bool:
    """Channels along `axis` do not meet in this node, and its other inputs can follow them."""
    kind = node.op_type
    if kind not in _DATA:
        return False
    if kind in (QUANTIZE, DEQUANTIZE):
        scale = document.constant(node.input[1])
        return scale is not None and scale.size == 1
    if kind == "Resize":
        return len(node.input) < 4 or document.constant(node.input[3]) is not None
    if kind == "ReduceMean":
        return _keeps(document, node, axis)
    if kind in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
        return _keeps_place(document, node, axis)
    if kind == "QLinearGlobalAveragePool" or kind == "QLinearAveragePool":
        return not document.attribute(node, "channels_last", 0)
    return all(_follows(document, node, place, axis) for place in _DATA[kind])


def _keeps(document: OnnxDocument, node: Node, axis: int) -> bool:
    """A mean over axes behind the channels."""
    shape, axes = document.shape(node.input[0]), document.attribute(node, "axes")
    if axes is None and len(node.input) > 1:
        values = document.constant(node.input[1])
        axes = None if values is None else values.tolist()
    if not axes or shape is None:
        return False
    reduced = [int(entry) % len(shape) for entry in axes]
    return min(reduced) > axis


def _keeps_place(document: OnnxDocument, node: Node, axis: int) -> bool:
    """Other axes change, but not how many elements stand before and behind the channels."""
    before, after = document.shape(node.input[0]), document.shape(node.output[0])
    if before is None or after is None or min(len(before), len(after)) <= axis:
        return False
    if node.op_type == "Reshape" and document.constant(node.input[1]) is None:
        return False
    same = before[axis] == after[axis] and prod(before[:axis]) == prod(after[:axis])
    return same and prod(before) == prod(after)


def _follows(document: OnnxDocument, node: Node, place: int, axis: int) -> bool:
    """A constant operand must be one that can be cut or padded by channel."""
    constant = stored(document, node.input[place])
    if constant is None:
        return True
    return node.op_type not in _INTEGER and document.shape(node.output[0]) is not None


def data_inputs(document: OnnxDocument, node: Node) -> list[str]:
    """Inputs that are computed; each has the channels of the result."""
    names = [node.input[place] for place in _DATA[node.op_type]]
    return [name for name in names if stored(document, name) is None]


def follow(
    document: OnnxDocument, node: Node, axis: int, rank: int, count: int, index: Sequence[int]
) -> list[str]:
    """Inputs of a node for other channels: constants that differ by channel are picked.

    `axis` and `rank` are those of its result.
    """
    inputs = [*node.input]
    for place in _DATA[node.op_type] if node.op_type in POINTWISE else ():
        constant = stored(document, inputs[place])
        along = None if constant is None else _axis_in(constant, axis - rank, count)
        if constant is not None and along is not None:
            inputs[place] = store(document, constant.picked(index, along))
    sizes = {"Resize": 3, "Reshape": 1}.get(node.op_type, len(inputs))
    if sizes < len(inputs):
        values = document.constant(inputs[sizes])
        assert values is not None
        inputs[sizes] = document.add_constant(inputs[sizes], _resized(values, axis, len(index)))
    return inputs


def _resized(sizes: np.ndarray, axis: int, count: int) -> np.ndarray:
    """A shape with other channels; 0 and -1 stand for what fits."""
    changed = sizes.copy()
    if changed[axis] > 0:
        changed[axis] = count
    return changed


def _axis_in(constant: Stored, from_end: int, count: int) -> int | None:
    """The constant's axis of channels; None where it is the same for all of them."""
    rank = constant.values.ndim
    if rank + from_end < 0 or constant.values.shape[from_end] != count or count == 1:
        return None
    return rank + from_end
