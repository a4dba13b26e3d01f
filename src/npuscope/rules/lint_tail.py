"""The end of the network: scores, detection decoders."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.graph.attrs import SoftmaxAttrs
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit, Value
from npuscope.rules.lint import lint
from npuscope.rules.queries import LAYERS, hit, of_kind, shape_text, source

_ANCHORS, _VALUES = 100, 16
_ARITHMETIC = ("Sub", "Div", "Mul", "Exp", "Add")
_MOVES = ("Concat", "Slice", "Split", "Transpose")


@lint("LINT-SOFTMAX")
def scores_are_normalised(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Softmax: it runs on the CPU."""
    for op in of_kind(graph, "Softmax"):
        tensor = graph.output_tensor(op)
        rows = tensor.elements // tensor.shape[op.attrs_as(SoftmaxAttrs).axis]
        yield hit(op, shape_text(tensor.shape), 0, elements=tensor.elements, rows=rows)


@lint("LINT-DECODE-TAIL")
def boxes_are_decoded(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Behind the last layer boxes or anchors are decoded: many small ops on few values."""
    tail = _tail(graph)
    inner = [op for op in tail if op.kind in (*_ARITHMETIC, *_MOVES)]
    kinds = {op.kind for op in inner}
    if kinds & set(_ARITHMETIC) and kinds & set(_MOVES) and any(_anchors(graph, o) for o in inner):
        ops = tuple(dict.fromkeys(name for op in tail for name in source(op)))
        evidence: dict[str, Value] = {"cut_at": [*_frontier(graph, tail)]}
        yield Hit(ops, f"{len(inner)} ops behind the last layer", 0, evidence)


def _tail(graph: Graph) -> list[Op]:
    """Ops that no layer comes after."""
    makers = graph.producers()
    before_layer: set[str] = set()
    tail: list[Op] = []
    for op in reversed(graph.ops):
        if _is_layer(op, makers) or before_layer & set(op.outputs):
            before_layer.update(op.inputs)
        else:
            tail.append(op)
    return tail[::-1]


def _is_layer(op: Op, makers: dict[str, Op]) -> bool:
    """A layer that reads a Softmax is a decoder too: it takes the mean of a distribution."""
    if op.kind not in LAYERS:
        return False
    maker = makers.get(op.inputs[0])
    while maker is not None and maker.kind in ("Transpose", "Reshape", "Quantize"):
        maker = makers.get(maker.inputs[0])
    return maker is None or maker.kind != "Softmax"


def _anchors(graph: Graph, op: Op) -> bool:
    """Many rows of a few values each, as decoders have them."""
    shape = sorted(graph.output_tensor(op).shape)
    return len(shape) == 3 and shape[-1] >= _ANCHORS and shape[-2] <= _VALUES


def _frontier(graph: Graph, tail: list[Op]) -> tuple[str, ...]:
    """Tensors that the tail takes from the rest of the network."""
    made = {name for op in tail for name in op.outputs}
    taken = (n for op in tail for n in op.inputs if n and not graph.tensor(n).is_constant)
    return tuple(dict.fromkeys(name for name in taken if name not in made))
