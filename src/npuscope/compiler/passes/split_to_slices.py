"""Split becomes one Slice an output: each is mapped for itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.ops.moves import SliceAttrs, SplitAttrs


@dataclass(frozen=True, slots=True)
class SplitToSlices:
    name: str = "split-to-slices"

    def run(self, graph: Graph, machine: Machine) -> bool:
        before = graph.ops
        graph.ops = [part for op in before for part in _slices(graph, op)]
        return len(graph.ops) != len(before)


def _slices(graph: Graph, op: Op) -> list[Op]:
    if op.kind != "Split":
        return [op]
    attrs = op.attrs_as(SplitAttrs)
    starts = accumulate(attrs.sizes, initial=0)
    pairs = zip(op.outputs, starts, strict=False)
    return [_slice(graph, op, name, attrs.axis, start) for name, start in pairs]


def _slice(graph: Graph, op: Op, output: str, axis: int, start: int) -> Op:
    shape = graph.tensor(output).shape
    starts = tuple(start if place == axis else 0 for place in range(len(shape)))
    attrs = SliceAttrs(starts, shape, (1,) * len(shape))
    return Op("Slice", f"{op.name}.{output}", op.inputs[:1], (output,), attrs, op.origin)
