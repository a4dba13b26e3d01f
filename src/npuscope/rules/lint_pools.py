"""Pools and reductions that the pooling unit does not know."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.graph.attrs import PoolAttrs, ReduceAttrs
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.queries import hit, is_float, of_kind

_LARGEST_FACTOR = 7  # global pools of 7x7 map on every generation; 50x11 was seen in software


@lint("LINT-POOL-WINDOW")
def window_is_large(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A pooling window that is neither small nor a map that small windows can tile."""
    for op in of_kind(graph, "MaxPool", "AveragePool"):
        window = op.attrs_as(PoolAttrs).window
        if max(window) > machine.pool.max_window and not _can_be_tiled(graph, op):
            yield hit(op, f"{window[0]}x{window[1]}", machine.pool.max_window)


def _can_be_tiled(graph: Graph, op: Op) -> bool:
    """By small windows one after the other: overlapping maxima, whole blocks, whole maps."""
    attrs, factor = op.attrs_as(PoolAttrs), max(map(_largest_factor, op.attrs_as(PoolAttrs).window))
    if attrs.window == graph.first_input(op).shape[1:3]:
        return factor <= _LARGEST_FACTOR
    if attrs.strides == (1, 1):
        return op.kind == "MaxPool"
    return attrs.strides == attrs.window and factor <= 3


def _largest_factor(number: int) -> int:
    divisor = 2
    while divisor * divisor <= number:
        number, divisor = (number // divisor, 2) if number % divisor == 0 else (number, divisor + 1)
    return number


@lint("LINT-POOL-PAD")
def average_is_padded(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """An average pool with padding."""
    for op in of_kind(graph, "AveragePool"):
        attrs = op.attrs_as(PoolAttrs)
        if any(attrs.pads):
            yield hit(op, f"padding {attrs.pads}", 0)


@lint("LINT-MEAN-AXIS")
def mean_is_no_global_pool(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A mean over other axes than height and width together."""
    for op in of_kind(graph, "Mean"):
        tensor, axes = graph.first_input(op), op.attrs_as(ReduceAttrs).axes
        whole_map = len(tensor.shape) == 4 and axes == (1, 2)
        if not whole_map and not is_float(tensor):
            yield hit(op, f"axes {axes} of {len(tensor.shape)}", "height and width of 4-D")
