"""Rules about ops that no unit of the NPU computes: each names its own reason."""

from __future__ import annotations

from npuscope.graph.model import DType, Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.operands import is_npu_tensor
from npuscope.rules.registry import Refusal, refuse


@refuse("NA-SOFTMAX", "Softmax", "LogSoftmax")
def softmax_needs_a_sum_of_exponentials(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Exponentials, their sum and a division by it: the CPU has an integer kernel for it."""
    return Refusal(f"{graph.first_input(op).shape}")


@refuse("NA-QUANTIZE-FLOAT", "Quantize")
def quantized_from_integers(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Float numbers are brought to integers by the CPU."""
    tensor = graph.first_input(op)
    return Refusal(f"'{tensor.name}' is float32") if tensor.dtype is DType.FLOAT32 else None


@refuse("NA-DEQUANTIZE-FLOAT", "Dequantize")
def stays_integer(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Integers are brought to float numbers by the CPU."""
    return Refusal(f"'{op.outputs[0]}' is float32")


@refuse("NA-PRELU-SLOPE", "PRelu")
def slopes_are_quantized(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A PReLU maps only with constant, quantized slopes, at most one per channel; else the CPU
    computes it in float."""
    slope, source = graph.tensor(op.inputs[1]), graph.first_input(op)
    if not slope.is_constant or slope.quant is None:
        return Refusal(f"slopes are {slope.dtype.value}")
    if not (is_npu_tensor(source) and is_npu_tensor(graph.output_tensor(op))):
        return Refusal(f"'{source.name}' is {source.dtype.value}")
    limit = machine.arith.max_vector
    if slope.elements not in (1, source.shape[-1]) or slope.elements > limit:
        return Refusal(f"{slope.elements} slopes for {source.shape[-1]} channels", str(limit))
    return None


@refuse("NA-MATMUL-DYNAMIC", "MatMul")
def one_operand_is_constant(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A product of two computed matrices has no weights to keep in the units."""
    shapes = [graph.tensor(name).shape for name in op.inputs[:2]]
    return Refusal(f"{shapes[0]} times {shapes[1]}")


@refuse("NA-REDUCE-KIND", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL2")
def reduction_is_a_mean(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Of all reductions only a mean over both spatial axes is a global pool."""
    return Refusal(f"{op.kind} of {graph.first_input(op).shape}")


@refuse("NA-DIV", "Div")
def divisor_is_constant(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """No unit divides; only a constant divisor could become a factor."""
    constant = graph.tensor(op.inputs[1]).is_constant
    return Refusal("a constant divisor" if constant else "a computed divisor")


@refuse("NA-GATHER", "Gather")
def data_is_read_in_order(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Stream engines read memory in regular steps, not by a list of indices."""
    return Refusal(f"{graph.output_tensor(op).elements:,} elements")


@refuse("NA-DEPTH-SPACE", "DepthToSpace", "SpaceToDepth")
def pixels_stay_pixels(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Moving channels into space is a library call that drives the stream engines."""
    return Refusal(f"{graph.first_input(op).shape} to {graph.output_tensor(op).shape}")


@refuse("NA-TRANSPOSED-CONV", "TransposeConv")
def transposed_conv_is_expanded(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Only a transposed convolution of one group, square strides and constant integer weights
    can be expanded into a plain one."""
    return Refusal(f"weights {graph.tensor(op.inputs[1]).shape}")
