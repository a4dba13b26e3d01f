"""Rules about convolutions: what the CONVACC units can hold."""

from __future__ import annotations

from typing import cast

from npuscope.graph.attrs import ConvAttrs
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.registry import Refusal, refuse


@refuse("NA-CONV-DILATED", "Conv2D")
def kernel_is_not_dilated(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Dilated kernels are not lowered to the NPU yet."""
    attrs = cast(ConvAttrs, op.attrs)
    return Refusal(f"dilation {attrs.dilations}", "1") if attrs.dilations != (1, 1) else None


@refuse("NA-CONV-GROUPS", "Conv2D")
def groups_are_one_or_all(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Groups must be 1, or one input channel per output channel (depthwise)."""
    groups = cast(ConvAttrs, op.attrs).groups
    channels = graph.first_input(op).shape[-1]
    outputs = graph.output_tensor(op).shape[-1]
    if groups == 1 or (groups == channels == outputs):
        return None
    return Refusal(f"{groups} groups of {channels} -> {outputs} channels")


@refuse("NA-CONV-WIDTH", "Conv2D")
def kernel_width_fits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The kernel is wider than the unit holds."""
    attrs, limits = cast(ConvAttrs, op.attrs), machine.convacc
    width = graph.tensor(op.inputs[1]).shape[2]
    limit = limits.max_kernel_width if attrs.strides[1] == 1 else limits.max_kernel_width_strided
    return Refusal(f"width {width}", str(limit)) if width > limit else None


@refuse("NA-CONV-PIECES", "Conv2D")
def kernel_rows_fit_the_units(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The kernel is cut into groups of rows, one a CONVACC unit; there are too many."""
    rows = graph.tensor(op.inputs[1]).shape[1]
    pieces = -(-rows // machine.convacc.max_kernel_height)
    limit = machine.units["CONVACC"]
    return Refusal(f"{pieces} pieces of {rows} rows", str(limit)) if pieces > limit else None


@refuse("NA-CONV-LINES", "Conv2D")
def lines_fit_the_buffer(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """One channel of one line is wider than the line buffer."""
    width, rows = graph.first_input(op).shape[-2], graph.tensor(op.inputs[1]).shape[1]
    limit = machine.convacc.line_buffer_elements
    return Refusal(f"width {width}", str(limit)) if rows > 1 and width > limit else None
