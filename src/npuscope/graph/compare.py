"""Whether two networks are the same: structure, types, scales and constants, but not names."""

from __future__ import annotations

import numpy as np

from npuscope.graph.model import Graph


def same_network(a: Graph, b: Graph) -> bool:
    """True if both graphs compute the same, op by op in the same order.

    Names, origins, source shapes, notes and `numerics` are ignored.
    """
    return first_difference(a, b) == ""


def first_difference(a: Graph, b: Graph) -> str:
    """What differs first, as a sentence for tests and logs; empty for the same network."""
    return _Comparison(a, b).run()


class _Comparison:
    """Walks both graphs and pairs their tensors: one of `a` stands for exactly one of `b`."""

    def __init__(self, a: Graph, b: Graph) -> None:
        self.a, self.b = a, b
        self.pairs: dict[str, str] = {"": ""}
        self.taken: set[str] = {""}

    def run(self) -> str:
        counts = [(len(g.ops), len(g.inputs), len(g.outputs)) for g in (self.a, self.b)]
        if counts[0] != counts[1]:
            return f"{counts[0]} and {counts[1]} ops, inputs and outputs"
        difference = self._tensors("graph inputs", self.a.inputs, self.b.inputs)
        for index in range(len(self.a.ops)):
            difference = difference or self._op(index)
        return difference or self._tensors("graph outputs", self.a.outputs, self.b.outputs)

    def _op(self, index: int) -> str:
        left, right = self.a.ops[index], self.b.ops[index]
        place = f"op {index} ({left.kind} '{left.name}')"
        if left.kind != right.kind:
            return f"{place}: {left.kind} and {right.kind}"
        if left.attrs != right.attrs:
            return f"{place}: {left.attrs} and {right.attrs}"
        return self._tensors(f"{place} inputs", left.inputs, right.inputs) or self._tensors(
            f"{place} outputs", left.outputs, right.outputs
        )

    def _tensors(self, place: str, left: tuple[str, ...], right: tuple[str, ...]) -> str:
        if len(left) != len(right):
            return f"{place}: {len(left)} and {len(right)} tensors"
        for mine, other in zip(left, right, strict=True):
            difference = self._pair(mine, other)
            if difference:
                return f"{place}: {difference}"
        return ""

    def _pair(self, mine: str, other: str) -> str:
        if mine in self.pairs:
            return "" if self.pairs[mine] == other else f"'{mine}' is connected differently"
        if other in self.taken:
            return f"'{mine}' is connected differently"
        self.pairs[mine] = other
        self.taken.add(other)
        a = self.a.tensors[mine]
        b = self.b.tensors[other]
        for field in ("shape", "dtype", "quant", "is_constant"):
            left, right = getattr(a, field), getattr(b, field)
            if left != right:
                return f"{field} of '{a.name}' is {left} and {right}"
        if a.data is not None and b.data is not None and not np.array_equal(a.data, b.data):
            return f"values of '{a.name}' differ"
        return ""
