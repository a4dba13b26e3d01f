"""Moves that change nothing: transposes and reshapes that undo each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from npuscope.graph.attrs import TransposeAttrs
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.operands import FUNCTIONS
from npuscope.rules.queries import hit, of_kind, operands, shape_text, source

# Every element alike: it does not matter in which order they stand.
_UNARY = (*FUNCTIONS, "Quantize", "Dequantize", "Clip", "Identity", "Cast")
_BINARY = ("Add", "Sub", "Mul", "Div", "Min", "Max")


@lint("LINT-CANCELLING-TRANSPOSES")
def transposes_cancel(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Two Transposes that undo each other, alone or around ops that treat all elements alike."""
    for op in of_kind(graph, "Transpose"):
        elements = graph.output_tensor(op).elements
        pair = _pair(graph, op)
        if _keeps_order(op):
            yield hit(op, f"{elements} elements stay in order", 0)
        elif pair is not None and _cancel(pair.first, op):
            ops = (*source(pair.first), *source(op))
            yield Hit(ops, f"{elements} elements moved twice", 0)


@lint("LINT-DEAD-RESHAPE")
def reshapes_do_nothing(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Reshape that keeps the shape, or whose result is only reshaped again."""
    for op in of_kind(graph, "Reshape"):
        before, after = graph.first_input(op).shape, graph.output_tensor(op).shape
        pair = _pair(graph, op)
        if before == after:
            yield hit(op, f"{shape_text(before)} stays", 0)
        elif pair is not None and (not pair.between or _source_shape(graph, pair) == after):
            path = [shape_text(s) for s in (_source_shape(graph, pair), before, after)]
            yield Hit((*source(pair.first), *source(op)), " -> ".join(path), 1)


def _source_shape(graph: Graph, pair: _Pair) -> tuple[int, ...]:
    return graph.first_input(pair.first).shape


@dataclass(frozen=True, slots=True)
class _Pair:
    """The move of the same kind in front of another, and how many ops are between them."""

    first: Op
    between: int


def _pair(graph: Graph, op: Op) -> _Pair | None:
    makers, readers = graph.producers(), graph.consumers()
    name, between = op.inputs[0], 0
    while name in makers and len(readers[name]) == 1 and name not in graph.outputs:
        maker = makers[name]
        if maker.kind == op.kind:
            return _Pair(maker, between)
        if not _treats_all_alike(graph, maker):
            return None
        name, between = operands(graph, maker)[0].name, between + 1
    return None


def _treats_all_alike(graph: Graph, op: Op) -> bool:
    computed = operands(graph, op)
    others = [t for t in graph.input_tensors(op) if t is not None and t.is_constant]
    known = op.kind in (*_UNARY, *_BINARY) and len(computed) == 1
    return known and all(tensor.elements == 1 for tensor in others)


def _keeps_order(op: Op) -> bool:
    permutation = op.attrs_as(TransposeAttrs).permutation
    return permutation == tuple(range(len(permutation)))


def _cancel(first: Op, second: Op) -> bool:
    one, other = (op.attrs_as(TransposeAttrs).permutation for op in (first, second))
    return [one[axis] for axis in other] == list(range(len(one)))
