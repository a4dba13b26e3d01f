"""Channel shuffles: channels in groups, groups and channels swapped, one row of channels again."""

from __future__ import annotations

from collections.abc import Mapping

from npuscope.graph.attrs import TransposeAttrs
from npuscope.graph.model import Graph, Op
from npuscope.rules.finding import Value

_SWAPPED = (0, 1, 2, 4, 3)  # channels are last, in two axes


def shuffle_fix(graph: Graph, op: Op) -> Mapping[str, Mapping[str, Value]]:
    """Parameters of the fix for a Transpose that is the middle of a shuffle."""
    if op.kind != "Transpose" or op.attrs_as(TransposeAttrs).permutation != _SWAPPED:
        return {}
    first = graph.producers().get(op.inputs[0])
    readers = [other for other in graph.ops if op.outputs[0] in other.inputs]
    if first is None or len(readers) != 1:
        return {}
    if first.kind != "Reshape" or readers[0].kind != "Reshape":
        return {}
    before, after = graph.first_input(first).shape, graph.output_tensor(readers[0]).shape
    return {"shuffle-conv": {"channels": before[-1]}} if before == after else {}
