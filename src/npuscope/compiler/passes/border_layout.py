"""Channel-last inputs and outputs: the application hands over pixels as a camera gives them."""

from __future__ import annotations

from npuscope.graph.model import Graph
from npuscope.ops.moves import TransposeAttrs


def with_channel_last(graph: Graph, inputs: bool, outputs: bool) -> Graph:
    """A graph without the transposes at its border that only change where channels stand."""
    if not (inputs or outputs):
        return graph
    result = graph.copy()
    readers = graph.consumers()
    for op in graph.ops:
        if not isinstance(op.attrs, TransposeAttrs):
            continue
        (x,), (y,), order = op.inputs, op.outputs, op.attrs.permutation
        if inputs and x in graph.inputs and _turns(order, True) and len(readers[x]) == 1:
            result.ops.remove(op)
            result.inputs = tuple(y if name == x else name for name in result.inputs)
        elif outputs and y in graph.outputs and _turns(order, False) and not readers[y]:
            result.ops.remove(op)
            result.outputs = tuple(x if name == y else name for name in result.outputs)
    result.drop_unused()
    return result


def _turns(order: tuple[int, ...], to_last: bool) -> bool:
    """(N, C, ...) to (N, ..., C), or back."""
    pixels = range(2, len(order))
    return order == ((0, *pixels, 1) if to_last else (0, len(order) - 1, *range(1, len(order) - 1)))
