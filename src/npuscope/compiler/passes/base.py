"""What a pass is, and the edits passes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine


class Pass(Protocol):
    """Edits a graph; says whether it changed anything."""

    @property
    def name(self) -> str: ...

    def run(self, graph: Graph, machine: Machine) -> bool: ...


def replace_each(graph: Graph, parts: Callable[[Op], list[Op] | None]) -> bool:
    """Every op by the ones that `parts` gives for it; None keeps it."""
    before = graph.ops
    answers = [(op, parts(op)) for op in before]
    graph.ops = [part for op, new in answers for part in ([op] if new is None else new)]
    graph.drop_unused()
    return any(new is not None for _, new in answers)


class Edits:
    """Edits of one graph, with places and readers at hand: none of them searches all ops.

    Ops are taken by identity. `finish` puts what is left back into the graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.slots: list[Op | None] = list(graph.ops)
        self._place = {id(op): place for place, op in enumerate(graph.ops)}
        self._readers: dict[str, dict[int, None]] = {}
        self._outputs = set(graph.outputs)
        for place, op in enumerate(graph.ops):
            self._reads(place, op)

    def only_reader(self, tensor: str) -> Op | None:
        """The single op that reads a tensor which is not a graph output; else None."""
        readers = self._readers.get(tensor, {})
        if len(readers) != 1 or tensor in self._outputs:
            return None
        return self.slots[next(iter(readers))]

    def place(self, op: Op) -> int:
        return self._place[id(op)]

    def replace(self, old: Op, new: Op) -> None:
        place = self._forget(old)
        self.slots[place] = new
        self._place[id(new)] = place
        self._reads(place, new)

    def remove(self, op: Op) -> None:
        self.slots[self._forget(op)] = None

    def bypass(self, op: Op) -> None:
        """Remove an op that passes its first input on; its readers read that input instead."""
        source, gone = op.inputs[0], op.outputs[0]
        self.remove(op)
        for place in list(self._readers.get(gone, {})):
            reader = self.slots[place]
            if reader is not None:
                inputs = tuple(source if name == gone else name for name in reader.inputs)
                self.replace(reader, reader.replace(inputs=inputs))

    def finish(self) -> bool:
        """Whether an op went."""
        before = len(self.graph.ops)
        self.graph.ops = [op for op in self.slots if op is not None]
        self.graph.drop_unused()
        return len(self.graph.ops) < before

    def _reads(self, place: int, op: Op) -> None:
        for name in op.inputs:
            self._readers.setdefault(name, {})[place] = None

    def _forget(self, op: Op) -> int:
        place = self._place.pop(id(op))
        for name in set(op.inputs):
            del self._readers[name][place]
        return place
