"""Rules about pooling: windows, strides and padding of the POOL units."""

from __future__ import annotations

from typing import cast

from npuscope.graph.attrs import PoolAttrs, ReduceAttrs
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.registry import Refusal, refuse


def covers_the_map(graph: Graph, op: Op) -> bool:
    """A window that is the whole map: a global pool."""
    attrs = cast(PoolAttrs, op.attrs)
    return attrs.window == graph.first_input(op).shape[1:3] and not any(attrs.pads)


@refuse("NA-POOL-WINDOW", "MaxPool", "AveragePool")
def window_fits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The window is larger than the unit's and does not cover the whole map."""
    window, limit = cast(PoolAttrs, op.attrs).window, machine.pool.max_window
    if op.kind == "AveragePool" and covers_the_map(graph, op):
        return None
    return Refusal(f"window {window}", str(limit)) if max(window) > limit else None


@refuse("NA-POOL-STRIDE", "MaxPool", "AveragePool")
def stride_fits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The stride is larger than the unit's."""
    strides, limit = cast(PoolAttrs, op.attrs).strides, machine.pool.max_stride
    if op.kind == "AveragePool" and covers_the_map(graph, op):
        return None
    return Refusal(f"stride {strides}", str(limit)) if max(strides) > limit else None


@refuse("NA-POOL-PAD", "MaxPool", "AveragePool")
def padding_fits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """The padding is larger than the unit's, or an average would count it."""
    pads, limit = cast(PoolAttrs, op.attrs).pads, machine.pool.max_padding
    if op.kind == "AveragePool" and any(pads):
        return Refusal("padded average")
    return Refusal(f"padding {pads}", str(limit)) if max(pads) > limit else None


@refuse("NA-MEAN-AXES", "Mean")
def mean_is_a_global_pool(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A mean runs on the POOL unit only over both spatial axes of a 4-D tensor."""
    tensor, axes = graph.first_input(op), cast(ReduceAttrs, op.attrs).axes
    if len(tensor.shape) == 4 and axes == (1, 2):
        return None
    return Refusal(f"axes {axes} of {len(tensor.shape)} dimensions")
