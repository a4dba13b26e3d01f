"""Layers that share a count of channels, and the larger count that would suit all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from npuscope.graph.model import Graph, Op
from npuscope.graph.ops import is_depthwise
from npuscope.machine.model import Machine
from npuscope.rules.finding import Value
from npuscope.rules.queries import LAYERS, is_dense
from npuscope.rules.streams import LayerShape, layer_shape, padded_count, stream_cycles, with_count

SIDES = ("outputs", "inputs")
_APART = (
    *("Add", "Sub", "Mul", "PRelu", "Min", "Max", "Clip", "LeakyRelu", "Elu", "Sigmoid", "Tanh"),
    *("HardSwish", "HardSigmoid", "Quantize", "Dequantize", "Identity", "MaxPool", "AveragePool"),
    *("Mean", "Resize", "Pad"),
)
_BORDER = ("Slice", "Split", "Concat")  # they can take some channels more along


@dataclass(frozen=True, slots=True)
class SharedCount:
    """Dense layers that make a count of channels, and those that read it."""

    count: int
    makers: tuple[Op, ...]
    takers: tuple[Op, ...]
    repeats: bool = False  # something else makes it: some channels would have to come twice

    def layers(self) -> Iterator[tuple[Op, str]]:
        """Each with the side on which it has the count."""
        yield from ((op, "outputs") for op in self.makers)
        yield from ((op, "inputs") for op in self.takers)


def shared_count(graph: Graph, op: Op, side: str) -> SharedCount | None:
    """The count on one side of a layer; None where an output cannot get more of it."""
    found = _set_by_layers(graph, op, side)
    if found is not None or side == "outputs":
        return found
    data = graph.first_input(op)
    readers = _readers(graph)[data.name]
    takers = tuple(o for o in readers if _is_layer(graph, o) and o.inputs[0] == data.name)
    return SharedCount(data.shape[-1], (), takers, repeats=True)


def _set_by_layers(graph: Graph, op: Op, side: str) -> SharedCount | None:
    start = graph.first_input(op).name if side == "inputs" else op.outputs[0]
    makers, readers = graph.producers(), _readers(graph)
    count = graph.tensor(start).shape[-1]
    seen: dict[str, None] = {}
    waiting, made, taken = [start], [], []
    while waiting:
        name = waiting.pop()
        tensor = graph.tensor(name)
        if name in seen or tensor.is_constant or tensor.shape[-1:] != (count,):
            continue
        seen[name] = None
        maker = makers.get(name)
        if maker is None or not _may_grow(graph, maker):
            return None
        made += [maker] if _is_layer(graph, maker) else []
        behind = readers.get(name, [])
        taken += [o for o in behind if _is_layer(graph, o) and o.inputs[0] == name]
        for other in (maker, *behind):
            if _keeps_apart(graph, other):
                waiting += [*other.inputs[:2], *other.outputs]
    return SharedCount(count, tuple(made), tuple(taken))


def _readers(graph: Graph) -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = {}
    for op in graph.ops:
        for name in dict.fromkeys(op.inputs):
            found.setdefault(name, []).append(op)
    return found


def _is_layer(graph: Graph, op: Op) -> bool:
    return op.kind in LAYERS and is_dense(graph, op) and graph.tensor(op.inputs[1]).is_constant


def _keeps_apart(graph: Graph, op: Op) -> bool:
    return op.kind in _APART or (op.kind == "Conv2D" and is_depthwise(graph, op))


def _may_grow(graph: Graph, op: Op) -> bool:
    return op.kind in _BORDER or _keeps_apart(graph, op) or _is_layer(graph, op)


def padding(graph: Graph, op: Op, machine: Machine) -> Mapping[str, Value] | None:
    """What to pad a count of this layer to, on the side where that saves most; None if nothing
    is saved."""
    best: dict[str, Value] | None = None
    saved = 0.0
    for side in SIDES:
        shared = shared_count(graph, op, side)
        if shared is None:
            continue
        layers = [(layer_shape(graph, layer), place) for layer, place in shared.layers()]
        padded = padded_count(layers, machine)
        gain = _cycles(layers, shared.count, machine) - _cycles(layers, padded, machine)
        if padded > shared.count and gain > saved:
            saved = gain
            best = {"channels": shared.count, "padded": padded, "side": side}
    return best


def _cycles(layers: list[tuple[LayerShape, str]], count: int, machine: Machine) -> float:
    return sum(stream_cycles(with_count(shape, side, count), machine) for shape, side in layers)
