"""Layout and size of maps: transposes, resizing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npuscope.graph.attrs import TransposeAttrs
from npuscope.graph.attrs_moves import Coordinates, NearestRounding, ResizeAttrs, ResizeMode
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.moves import repeats_pixels
from npuscope.rules.queries import hit, live_ops, of_kind, shape_text, source
from npuscope.rules.shuffles import shuffle_fix

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
            found = hit(op, f"permutation {permutation}", "channel-first to channel-last or back")
            yield replace(found, fixes=shuffle_fix(graph, op))


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


@lint("LINT-RESIZE-FORM")
def resize_has_another_form(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A nearest Resize that is not stated as asymmetric and floor, but picks the same pixels."""
    for op in of_kind(graph, "Resize"):
        attrs = op.attrs_as(ResizeAttrs)
        plain = attrs.coordinates is Coordinates.ASYMMETRIC
        plain = plain and attrs.rounding is NearestRounding.FLOOR
        if attrs.mode is ResizeMode.NEAREST and not plain and repeats_pixels(graph, op):
            form = f"{attrs.coordinates.value}, {attrs.rounding.value}"
            yield hit(op, form, "asymmetric, floor")


def _grows(graph: Graph, op: Op) -> bool:
    """A resize of one pixel is a broadcast, which the compiler folds."""
    before, after = graph.first_input(op).shape, graph.output_tensor(op).shape
    return before[1:3] not in ((1, 1), after[1:3])


def _sizes(graph: Graph, op: Op) -> str:
    before, after = graph.first_input(op).shape, graph.output_tensor(op).shape
    return f"{shape_text(before[1:])} -> {shape_text(after[1:])}"
