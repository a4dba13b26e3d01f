"""Layout and size of maps: transposes, resizing."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.graph.attrs import TransposeAttrs
from npuscope.graph.attrs_moves import ResizeAttrs, ResizeMode
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.queries import hit, live_ops, of_kind, shape_text, source

# Between channel-first and channel-last: what the stream engines can do.
_BY_ENGINES = ((0, 2, 3, 1), (0, 3, 1, 2))


@lint("LINT-TRANSPOSE")
def axes_are_permuted(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Transpose inside the network that the stream engines cannot do."""
    border = {*graph.inputs, *graph.outputs}
    for op in of_kind(graph, "Transpose"):
        permutation = op.attrs_as(TransposeAttrs).permutation
        inside = not border & {op.inputs[0], op.outputs[0]}
        if inside and permutation not in _BY_ENGINES and _moves(graph, op):
            yield hit(op, f"permutation {permutation}", "channel-first to channel-last or back")


@lint("LINT-CANCELLING-TRANSPOSES")
def transposes_cancel(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Two Transposes in a row that undo each other."""
    makers = graph.producers()
    for op in of_kind(graph, "Transpose"):
        first = makers.get(op.inputs[0])
        if first is not None and first.kind == "Transpose" and _cancel(first, op):
            elements = graph.output_tensor(op).elements
            yield Hit((*source(first), *source(op)), f"{elements} elements moved twice", 0)


@lint("LINT-DUPLICATE")
def op_is_there_twice(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """The same op works on the same inputs twice."""
    known: dict[tuple[object, ...], Op] = {}
    for op in live_ops(graph):
        first = known.setdefault((op.kind, op.attrs, op.inputs, _formats(graph, op)), op)
        if first is not op:
            elements = graph.output_tensor(op).elements
            yield Hit((*source(first), *source(op)), f"{op.kind}, {elements} elements", 1)


def _formats(graph: Graph, op: Op) -> tuple[object, ...]:
    made = [graph.tensor(name) for name in op.outputs]
    return tuple((tensor.shape, tensor.dtype, tensor.quant) for tensor in made)


@lint("LINT-RESIZE-LINEAR")
def resize_interpolates(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A bilinear Resize: it runs on the CPU."""
    for op in of_kind(graph, "Resize"):
        if op.attrs_as(ResizeAttrs).mode is ResizeMode.LINEAR and _grows(graph, op):
            yield hit(op, _sizes(graph, op), "nearest")


@lint("LINT-RESIZE-NEAREST")
def resize_repeats(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A nearest Resize: a convolution that repeats channels, then a depth-to-space."""
    for op in of_kind(graph, "Resize"):
        if op.attrs_as(ResizeAttrs).mode is ResizeMode.NEAREST and _grows(graph, op):
            elements = graph.output_tensor(op).elements
            yield hit(op, _sizes(graph, op), None, elements=elements)


def _moves(graph: Graph, op: Op) -> bool:
    """Do axes longer than 1 change places?"""
    shape = graph.first_input(op).shape
    kept = [axis for axis in op.attrs_as(TransposeAttrs).permutation if shape[axis] != 1]
    return kept != sorted(kept)


def _cancel(first: Op, second: Op) -> bool:
    one, other = (op.attrs_as(TransposeAttrs).permutation for op in (first, second))
    return [one[axis] for axis in other] == list(range(len(one)))


def _grows(graph: Graph, op: Op) -> bool:
    """A resize of one pixel is a broadcast, which the compiler folds."""
    before, after = graph.first_input(op).shape, graph.output_tensor(op).shape
    return before[1:3] not in ((1, 1), after[1:3])


def _sizes(graph: Graph, op: Op) -> str:
    before, after = graph.first_input(op).shape, graph.output_tensor(op).shape
    return f"{shape_text(before[1:])} -> {shape_text(after[1:])}"
