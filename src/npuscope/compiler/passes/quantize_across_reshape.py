"""Generation `open`: a float island that a Reshape keeps from its Quantize becomes integer.

DQ -> Mean -> Reshape -> Q computes in float only because the Q does not touch the Mean. Moving
the Q in front of the Reshape leaves DQ -> Mean -> Q, which is an integer Mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuscope.compiler.passes.base import Edits
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine

_INTEGER_FORMS = ("Mean", "AveragePool", "Clip")  # ops that can change the scale


@dataclass(frozen=True, slots=True)
class QuantizeAcrossReshape:
    name: str = "quantize-across-reshape"

    def run(self, graph: Graph, machine: Machine) -> bool:
        if not machine.generation.quantize_across_reshape:
            return False
        edits = Edits(graph)
        islands = [island for op in graph.ops if (island := _island(edits, op))]
        for island in islands:
            _make_integer(edits, island)
        return edits.finish()


def _island(edits: Edits, op: Op) -> tuple[Op, Op, Op, Op] | None:
    """(Dequantize, float op, Reshape, Quantize) in a row, nobody else reading."""
    if op.kind != "Dequantize":
        return None
    middle = edits.only_reader(op.outputs[0])
    reshape = edits.only_reader(middle.outputs[0]) if middle else None
    quantize = edits.only_reader(reshape.outputs[0]) if reshape else None
    if middle is None or reshape is None or quantize is None:
        return None
    graph = edits.graph
    same = graph.first_input(op).quant == graph.output_tensor(quantize).quant
    integer = middle.kind in _INTEGER_FORMS or (middle.kind == "MaxPool" and same)
    right = integer and reshape.kind == "Reshape" and quantize.kind == "Quantize"
    return (op, middle, reshape, quantize) if right else None


def _make_integer(edits: Edits, island: tuple[Op, Op, Op, Op]) -> None:
    graph = edits.graph
    dequantize, middle, reshape, quantize = island
    target = graph.output_tensor(quantize)
    result = graph.output_tensor(middle)
    graph.tensors[result.name] = replace(result, dtype=target.dtype, quant=target.quant)
    origin = (*dequantize.origin, *middle.origin, *quantize.origin)
    edits.replace(middle, middle.replace(inputs=dequantize.inputs, origin=origin))
    edits.replace(reshape, reshape.replace(outputs=quantize.outputs))
    edits.remove(dequantize)
    edits.remove(quantize)
