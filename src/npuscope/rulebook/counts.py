"""Channel counts: those that layers share, and better ones near them.

Channels are cut into equal parts, so counts without divisors near the size of the units run in
many small parts. What that costs is asked of `geometry`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, prod

from msgspec import Struct

from npuscope.geometry.divisors import whole_and_rest
from npuscope.geometry.pieces import largest_piece
from npuscope.geometry.streams import DenseLayer
from npuscope.geometry.tiling import ConvMode, ConvShape, runs_turned, simd_of
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.layers import ConvAttrs, is_depthwise
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.rulebook.finding import Value
from npuscope.rulebook.queries import is_dense, zero_point

_NEAR = 0.125  # how far a better channel count may be from the present one
_ALIKE = 2.0  # a cost per channel within this factor of the best is good
STEP = 8  # a count that every mode can cut into good parts
_MORE = 0.25  # how many channels of zeros may be added, as a share
_FARTHEST = 4096  # channels that are added or left out at most; no search is longer
_EVEN = 4  # zeros are cheap, so counts that do not suit every mode are tried too
_WORTH = 0.8  # share of the cycles; a smaller saving is ignored
SIDES = ("outputs", "inputs")
# Ops that keep channels apart: one more channel of zeros in is one more out, and a finite one.
_APART = having(Trait.KEEPS_CHANNELS) - having(Trait.SINGULAR)
_BORDER = having(Trait.PARTS)  # they can carry additional channels


def dense_layer(graph: Graph, op: Op, machine: Machine) -> DenseLayer:
    """The layer; of one whose kernel is cut, its first piece."""
    weights = graph.tensor(op.inputs[1]).shape
    features, result = graph.first_input(op).shape, graph.output_tensor(op).shape
    window, strides, sizes = (1, 1), (1, 1), (_size(features), _size(result))
    if len(weights) == 4:
        strides = op.attrs_as(ConvAttrs).strides
        window = weights[1], weights[2]
        if runs_turned(window, sizes[0]) and is_dense(graph, op):
            window, strides = window[::-1], strides[::-1]
            sizes = sizes[0][::-1], sizes[1][::-1]
        height, width = largest_piece(strides, machine)
        window = min(window[0], height), min(window[1], width)
    shape = ConvShape(weights[-1], weights[0], window, *sizes, strides)
    return DenseLayer(shape, simd_of(zero_point(graph.first_input(op))))


def _size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a map; vectors follow each other in one row."""
    return prod(shape[:-2]), prod(shape[-2:-1])


def better_count(layer: DenseLayer, machine: Machine, side: str) -> int:
    """The nearest channel count with good divisors; `side` is 'inputs' or 'outputs'."""
    count = layer.count(side)
    first, last = ceil(count * (1 - _NEAR)), int(count * (1 + _NEAR))
    first, last = max(first, count - _FARTHEST), min(last, count + _FARTHEST)
    counts = [n for n in range(first, last + 1) if n % STEP == 0] or [count]
    costs = {n: layer.with_count(side, n).cycles(machine) / n for n in counts}
    cheapest = min(costs.values())
    alike = [n for n, cost in costs.items() if cost <= _ALIKE * cheapest]
    return min(alike, key=lambda n: (abs(n - count), costs[n]))


def padded_count(layers: Sequence[tuple[DenseLayer, str]], machine: Machine) -> int:
    """The larger count that is worth its zeros, for layers that share one, each with the side on
    which it has it; the present count where there is none."""
    layer, side = layers[0]
    count = layer.count(side)
    last = min(int(count * (1 + _MORE)) + STEP, count + _FARTHEST)
    counts = (count, *(n for n in range(count + 1, last + 1) if n % _EVEN == 0))
    costs = {n: _shared_cycles(layers, n, machine) for n in counts}
    best = min(costs, key=lambda n: (costs[n], n))
    return best if costs[best] < _WORTH * costs[count] else count


def split_fix(parts: Iterable[int]) -> Mapping[str, Value]:
    """Parameters of the fix that splits a layer's outputs."""
    return {"parts": "+".join(map(str, parts))}


def output_parts(layer: DenseLayer, machine: Machine) -> tuple[int, int]:
    """Two parts of the outputs that take the fewest tiles together, the larger one first."""
    return whole_and_rest(layer.shape.outputs, layer.kernels(machine))


def input_parts(layer: DenseLayer, machine: Machine) -> tuple[tuple[int, int], tuple[int, int]]:
    """Two ways to cut the inputs in two: whole tiles and a rest, and halves of which the first is
    whole tiles (257 as 144 and 113, which a user saw on the NPU)."""
    count, size = layer.shape.inputs, machine.convacc.tiles[ConvMode.PLAIN1X1.value].depth
    half = min(ceil(count / 2 / size) * size, count - 1)
    return whole_and_rest(count, size), (half, count - half)


class SharedCount(Struct, frozen=True):
    """Dense layers that make a count of channels, and those that read it."""

    count: int
    makers: tuple[Op, ...]
    takers: tuple[Op, ...]
    repeats: bool = False  # another op makes it: some channels would have to be copied

    def layers(self) -> Iterator[tuple[Op, str]]:
        """Each with the side on which it has the count."""
        yield from ((op, "outputs") for op in self.makers)
        yield from ((op, "inputs") for op in self.takers)


def shared_count(graph: Graph, op: Op, side: str) -> SharedCount | None:
    """The count on one side of a layer; None where an output cannot get more of it."""
    shared = _set_by_layers(graph, op, side)
    if shared is not None or side == "outputs":
        return shared
    data = graph.first_input(op)
    readers = _readers(graph)[data.name]
    takers = tuple(o for o in readers if _is_layer(graph, o) and o.inputs[0] == data.name)
    return SharedCount(data.shape[-1], (), takers, repeats=True)


def _set_by_layers(graph: Graph, op: Op, side: str) -> SharedCount | None:
    start = graph.first_input(op).name if side == "inputs" else op.outputs[0]
    makers, readers = graph.producers(), _readers(graph)
    count = graph.tensor(start).shape[-1]
    region: set[str] = set()
    waiting, sources, takers = [start], [], []
    while waiting:
        name = waiting.pop()
        tensor = graph.tensor(name)
        if name in region or tensor.is_constant or tensor.shape[-1:] != (count,):
            continue
        region.add(name)
        maker = makers.get(name)
        if maker is None:
            return None
        is_layer = _is_layer(graph, maker)
        if not (is_layer or maker.kind in _BORDER or _keeps_apart(graph, maker)):
            return None
        sources += [maker] if is_layer else []
        behind = readers.get(name, [])
        takers += [o for o in behind if _is_layer(graph, o) and o.inputs[0] == name]
        for other in (maker, *behind):
            if _keeps_apart(graph, other):
                waiting += [*other.inputs[:2], *other.outputs]
    return SharedCount(count, tuple(sources), tuple(takers))


def _readers(graph: Graph) -> dict[str, list[Op]]:
    readers: dict[str, list[Op]] = {}
    for op in graph.ops:
        for name in dict.fromkeys(op.inputs):
            readers.setdefault(name, []).append(op)
    return readers


def _is_layer(graph: Graph, op: Op) -> bool:
    return op.kind in LAYERS and is_dense(graph, op) and graph.tensor(op.inputs[1]).is_constant


def _keeps_apart(graph: Graph, op: Op) -> bool:
    return op.kind in _APART or is_depthwise(graph, op)


def padding(graph: Graph, op: Op, machine: Machine) -> Mapping[str, Value] | None:
    """What to pad a count of this layer to, on the side where that saves most; None if nothing
    is saved."""
    best: dict[str, Value] | None = None
    saved = 0.0
    for side in SIDES:
        shared = shared_count(graph, op, side)
        if shared is None:
            continue
        layers = [(dense_layer(graph, one, machine), place) for one, place in shared.layers()]
        padded = padded_count(layers, machine)
        gain = _shared_cycles(layers, shared.count, machine) - _shared_cycles(
            layers, padded, machine
        )
        if padded > shared.count and gain > saved:
            saved = gain
            best = {"channels": shared.count, "padded": padded, "side": side}
    return best


def _shared_cycles(layers: Sequence[tuple[DenseLayer, str]], count: int, machine: Machine) -> float:
    return sum(layer.with_count(side, count).cycles(machine) for layer, side in layers)
