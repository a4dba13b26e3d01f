"""Rules about convolutions: what the CONVACC units can hold."""

from __future__ import annotations

from math import isqrt, prod
from typing import cast

from npuscope.graph.attrs import ConvAttrs
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.registry import Refusal, refuse


@refuse("NA-CONV-GROUPS", "Conv2D")
def groups_are_one_or_all(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Groups must be 1, or one input channel per output channel (depthwise)."""
    groups = cast(ConvAttrs, op.attrs).groups
    channels = graph.first_input(op).shape[-1]
    outputs = graph.output_tensor(op).shape[-1]
    if groups == 1 or (groups == channels == outputs):
        return None
    return Refusal(f"{groups} groups of {channels} -> {outputs} channels")


@refuse("NA-CONV-STRIDE", "Conv2D")
def stride_fits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The stride is larger than the unit's registers hold."""
    strides, limit = cast(ConvAttrs, op.attrs).strides, machine.convacc.max_stride
    return Refusal(f"stride {strides}", str(limit)) if max(strides) > limit else None


@refuse("NA-CONV-LINES", "Conv2D")
def lines_fit_the_buffer(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """One channel of one line is wider than the line buffer."""
    width, rows = graph.first_input(op).shape[-2], graph.tensor(op.inputs[1]).shape[1]
    limit = machine.convacc.line_buffer_elements
    return Refusal(f"width {width}", str(limit)) if rows > 1 and width > limit else None


@refuse("NA-CONV-COLUMNS", "Conv2D")
def depthwise_columns_fit(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The kernel of a depthwise layer has more columns than the unit takes; this compiler
    computes the others on the CPU."""
    attrs, columns = cast(ConvAttrs, op.attrs), graph.tensor(op.inputs[1]).shape[2]
    limit = machine.convacc.max_kernel_width
    plain = attrs.strides[1] == 1 and attrs.groups > 1 and attrs.dilations == (1, 1)
    if not (machine.generation.software_columns and plain) or columns <= limit:
        return None
    return Refusal(f"{columns} columns", str(limit))


@refuse("NA-CONV-PRIME", "Conv2D", "FullyConnected")
def outputs_split_over_the_kernel_buffer(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The output channels cannot be split over the kernel buffer: their count is prime, and
    there is only one output position."""
    limit = machine.generation.prime_outputs_limit
    shape = graph.output_tensor(op).shape
    outputs, positions = shape[-1], prod(shape[:-1])
    weights = graph.tensor(op.inputs[1]).shape
    pointwise = len(weights) == 2 or weights[1:3] == (1, 1)
    if not limit or positions > 1 or not pointwise or outputs <= limit:
        return None
    return Refusal(f"{outputs} output channels", str(limit)) if _is_prime(outputs) else None


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1))
