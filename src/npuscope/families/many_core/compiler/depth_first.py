"""Depth-first: a part of the batch goes through several layers before the next part does.

What does not fit VTCM for a whole batch fits for a part of it; the weights of these layers come
again for every part, unless they are small enough to stay."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.compiler.kinds import size_bytes
from npuscope.graph.model import Graph, Op


class HeldBytes(Struct, frozen=True):
    """Activations by op: those that exist while it runs, and those that later ops still read."""

    during: np.ndarray
    after: np.ndarray


def held_bytes(graph: Graph, ops: list[Op]) -> HeldBytes:
    """A reshaped tensor is the one that it was made of."""
    origins: dict[str, str] = {}
    for op in graph.ops:
        if op.kind == "Reshape":
            origins[op.outputs[0]] = origins.get(op.inputs[0], op.inputs[0])
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for place, op in enumerate(ops):
        names = [name for name in op.inputs if name and not graph.tensors[name].is_constant]
        for name in (*names, *op.outputs):
            own = origins.get(name, name)
            begins.setdefault(own, place)
            ends[own] = place
    during, after = np.zeros(len(ops) + 1), np.zeros(len(ops) + 1)
    for name, begin in begins.items():
        size = size_bytes(graph.tensors[name], graph.tensors[name].elements)
        during[begin] += size
        during[ends[name] + 1] -= size
        after[begin] += size
        after[ends[name]] -= size
    return HeldBytes(np.cumsum(during)[:-1], np.cumsum(after)[:-1])


def batch_of(graph: Graph) -> int:
    """Inferences in one run: the first size that all inputs have."""
    shapes = (graph.tensors[name].shape for name in graph.inputs)
    sizes = {shape[0] for shape in shapes if shape}
    return sizes.pop() if len(sizes) == 1 else 1


class BatchParts(Struct, frozen=True):
    """Layers from `first` on that take the batch in so many parts."""

    first: int
    parts: int


def batch_parts(graph: Graph, batch: int, room_bytes: float) -> dict[int, BatchParts]:
    """By number of an op, where its layers do not hold the whole batch in `room_bytes`.

    Layers between two places where half of the room holds what the whole batch hands on go through
    together, with the other half for the part that is under way.
    """
    held = held_bytes(graph, graph.ops)
    parts: dict[int, BatchParts] = {}
    first = 0
    for last in range(len(graph.ops)):
        if held.after[last] > room_bytes / 2 and last + 1 < len(graph.ops):
            continue
        run, first = range(first, last + 1), last + 1
        most = float(held.during[run.start : run.stop].max())
        fitting = [number for number in run if _has_batch(graph, graph.ops[number], batch)]
        if most <= room_bytes or not fitting:
            continue
        inferences = max(int(room_bytes / 2 / (most / batch)), 1)
        count = -(-batch // inferences)
        parts |= {number: BatchParts(run.start, count) for number in fitting}
    return parts if any(one.parts > 1 for one in parts.values()) else {}


def _has_batch(graph: Graph, op: Op, batch: int) -> bool:
    shape = graph.output_tensor(op).shape
    return bool(shape) and shape[0] == batch
