"""Rules about number formats: what the integer units accept."""

from __future__ import annotations

from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.machine.model import Machine
from npuscope.rules.registry import Refusal, refuse

_LAYERS = ("Conv2D", "FullyConnected")
_MAPPED = (*_LAYERS, "Add", "Sub", "Mean", "AveragePool", "MaxPool", "Clip")


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
        if not is_npu_tensor(tensor):
            return Refusal(f"'{name}' is {tensor.dtype.value}")
    return None


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


@refuse("NA-BROADCAST", "Add", "Sub")
def operands_have_one_shape(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Both operands must be activations of the same shape."""
    x, y = (graph.tensor(name) for name in op.inputs[:2])
    if x.is_constant or y.is_constant:
        return Refusal("one operand is constant")
    return Refusal(f"{x.shape} against {y.shape}") if x.shape != y.shape else None
