"""Rules about number formats: what the integer units accept."""

from __future__ import annotations

from npuscope.graph.attrs import ConcatAttrs
from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.machine.model import Machine
from npuscope.rules.registry import Refusal, refuse

_LAYERS = ("Conv2D", "FullyConnected")
_BINARY = ("Add", "Sub", "Mul")
# Functions of one byte: what the ACTIV unit's tables can hold.
FUNCTIONS = (
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Elu",
    "Exp",
    "Sqrt",
    "Erf",
    "Abs",
    "Neg",
    "Square",
    "Gelu",
)
_MAPPED = (*_LAYERS, *_BINARY, *FUNCTIONS, "BatchNorm", "Mean", "AveragePool", "MaxPool", "Clip")


def is_npu_tensor(tensor: Tensor | None) -> bool:
    """8 bits with one scale: what the units compute on."""
    return (
        tensor is not None
        and tensor.dtype in (DType.INT8, DType.UINT8)
        and tensor.quant is not None
        and not tensor.quant.per_channel
    )


@refuse("NA-FLOAT", *_MAPPED)
def operands_are_eight_bits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The NPU computes on 8-bit tensors with one scale; this op has another format."""
    names = (op.inputs[0], op.outputs[0]) if op.kind in _LAYERS else (*op.inputs, *op.outputs)
    for name in names:
        tensor = graph.tensor(name)
        if tensor.is_constant:
            continue
        if not is_npu_tensor(tensor):
            return Refusal(f"'{name}' is {tensor.dtype.value}")
    return None


@refuse("NA-CONCAT-FORMAT", "Concat")
def parts_are_eight_bits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """All parts of a Concat must be computed 8-bit tensors with one scale."""
    for name in (*op.inputs, *op.outputs):
        tensor = graph.tensor(name)
        if tensor.is_constant or not is_npu_tensor(tensor):
            kind = "constant" if tensor.is_constant else tensor.dtype.value
            return Refusal(f"'{name}' is {kind}")
    return None


@refuse("NA-CONCAT-AXIS", "Concat")
def parts_join_along_channels(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Stream engines join tensors along the channels only; other axes are copied by the CPU."""
    axis, rank = op.attrs_as(ConcatAttrs).axis, len(graph.output_tensor(op).shape)
    if axis == rank - 1:
        return None
    return Refusal(f"axis {axis} of {rank} dimensions", f"axis {rank - 1}")


@refuse("NA-WEIGHTS", *_LAYERS)
def weights_are_constant_int8(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Weights must be constant int8 or int4 with zero point 0."""
    weights = graph.tensor(op.inputs[1])
    if not weights.is_constant:
        return Refusal("weights are computed at run time")
    if weights.dtype not in (DType.INT8, DType.INT4) or weights.quant is None:
        return Refusal(f"weights are {weights.dtype.value}")
    if any(weights.quant.zero_points):
        return Refusal("weights have a zero point other than 0")
    if weights.quant.axis not in (None, 0):
        return Refusal(f"weight scales run along axis {weights.quant.axis}", "output channels")
    return None


@refuse("NA-BIAS", *_LAYERS)
def bias_is_constant(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The bias must be constant."""
    if len(op.inputs) > 2 and op.inputs[2] and not graph.tensor(op.inputs[2]).is_constant:
        return Refusal("bias is computed at run time")
    return None


@refuse("NA-BROADCAST", *_BINARY)
def operands_broadcast_one_way(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """One operand must have the result's shape; the other the same, or one value per channel
    or in all."""
    out = graph.output_tensor(op).shape
    shapes = [graph.tensor(name).shape for name in op.inputs[:2]]
    full = [shape for shape in shapes if shape == out]
    others = [shape for shape in shapes if shape != out]
    if not full or any(not _is_vector(shape, out) for shape in others):
        return Refusal(f"{shapes[0]} against {shapes[1]}")
    constants = [t for t in map(graph.tensor, op.inputs[:2]) if t.is_constant]
    if any(not _is_vector(tensor.shape, out) for tensor in constants):
        return Refusal("a constant of the full shape")
    return None


def _is_vector(shape: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """A scalar, or one value per channel."""
    return all(dim == 1 for dim in shape[:-1]) and (not shape or shape[-1] in (1, out[-1]))


@refuse("NA-BROADCAST-VECTOR", "Add", "Sub")
def vectors_are_constant(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A vector that is computed at run time can only be multiplied, not added."""
    out = graph.output_tensor(op).shape
    tensors = [graph.tensor(name) for name in op.inputs[:2]]
    computed = [t for t in tensors if t.shape != out and not t.is_constant]
    return Refusal(f"'{computed[0].name}' has shape {computed[0].shape}") if computed else None
