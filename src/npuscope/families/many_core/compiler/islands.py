"""Float ops between integers: Dequantize, an op, Quantize become the op on integers.

In half floats such an op would move results that lie near the middle between two integers, and a
deep network makes much of a single step."""

from __future__ import annotations

from npuscope.families.many_core.compiler.kinds import ExactConstant
from npuscope.graph.model import Graph, Numerics, Op
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait


def join_islands(graph: Graph) -> None:
    """Where the reference computes ops on integers in single precision between two conversions."""
    if graph.numerics is not Numerics.QDQ:
        return
    makers, readers = graph.producers(), graph.consumers()
    joined: dict[str, Op] = {}  # by the integers that they make
    for op in graph.ops:
        source, end = _converted(graph, makers, op), _end(graph, readers, op)
        if source is not None and end is not None:
            inputs = (source, *(_exact(graph, name) for name in op.inputs[1:]))
            origin = (*makers[op.inputs[0]].origin, *op.origin, *end.origin)
            joined[end.outputs[0]] = op.replace(inputs=inputs, outputs=end.outputs, origin=origin)
    graph.ops = [joined.get(op.outputs[0], op) for op in graph.ops]
    # What nobody reads any more goes: first the op that became one with its end, then Dequantize.
    for _ in range(2):
        read = {name for op in graph.ops for name in op.inputs} | set(graph.outputs)
        graph.ops = [op for op in graph.ops if any(name in read for name in op.outputs)]


def _converted(graph: Graph, makers: dict[str, Op], op: Op) -> str | None:
    """The integers that `op` reads as floats, if it reads nothing else but constants."""
    row = OPS[op.kind]
    if not (row.has(Trait.ELEMENTWISE) and row.has(Trait.INTEGER_FORM)):
        return None
    first, *others = op.inputs
    maker = makers.get(first)
    if maker is None or maker.kind != "Dequantize":
        return None
    floats = all(graph.tensors[n].is_constant and graph.tensors[n].dtype.is_float for n in others)
    return maker.inputs[0] if floats else None


def _end(graph: Graph, readers: dict[str, list[Op]], op: Op) -> Op | None:
    """The Quantize that alone reads what `op` makes."""
    ends = readers[op.outputs[0]]
    alone = len(ends) == 1 and op.outputs[0] not in graph.outputs
    return ends[0] if alone and ends[0].kind == "Quantize" else None


def _exact(graph: Graph, name: str) -> str:
    """A copy for this op: others may read the constant in half floats."""
    tensor, copy = graph.tensors[name], graph.fresh_name(f"{name}_exact")
    graph.add(ExactConstant(copy, tensor.shape, tensor.dtype, tensor.quant, tensor.data))
    return copy
