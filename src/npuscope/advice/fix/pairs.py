"""Outputs of an edited network, and what stands for them in the original."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.graph.model import Graph, Op

_BORDER = "output:"  # layout changes that the reader adds at the network's border


@dataclass(frozen=True, slots=True)
class Pair:
    """An output, and the two tensors that tell what became of it; `before` is None for a new one.

    Where an inner tensor became an output, both are in front of the layout change at the border.
    """

    output: str
    after: str
    before: str | None

    @property
    def is_output(self) -> bool:
        return self.after == self.output == self.before


def pairs(before: Graph, after: Graph) -> tuple[Pair, ...]:
    return tuple(_pair(before, after, name) for name in after.outputs)


def _pair(before: Graph, after: Graph, name: str) -> Pair:
    if name in before.outputs and before.tensor(name).shape == after.tensor(name).shape:
        return Pair(name, name, name)
    maker = _maker(after, name)
    if maker is None:
        return Pair(name, name, None)
    inner = maker.outputs[0]
    return Pair(name, inner, _inside(before, after, maker, name))


def _maker(graph: Graph, name: str) -> Op | None:
    """The op of the file that makes an output."""
    makers = graph.producers()
    op = makers.get(name)
    while op is not None and op.origin and all(o.startswith(_BORDER) for o in op.origin):
        op = makers.get(op.inputs[0])
    return op if op is not None and len(op.outputs) == 1 else None


def _inside(before: Graph, after: Graph, maker: Op, name: str) -> str | None:
    """By the tensor's name, else by the op of the file that makes it: a name may have moved from a
    float tensor to its integers."""
    shape = after.output_tensor(maker).shape
    if name in before.tensors and before.tensor(name).shape == shape:
        return name
    same = [op for op in before.ops if op.origin[-1:] == maker.origin[-1:]]
    found = [n for op in same for n in op.outputs if before.tensor(n).shape == shape]
    return found[-1] if found else None
