"""How long a layer's streams take, by its channel counts: the cost of bad divisors.

Channels are cut into equal parts, so the parts are divisors: of the outputs not above the
parallel kernels, of the inputs not above the depth of a tile. One word moves per cycle, and a frame
whose sums go through memory takes one more pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, prod

from npuscope.graph.model import Graph, Op
from npuscope.lean_dataclass import dataclass, replace
from npuscope.machine.model import Machine, TileLimit
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.layers import is_depthwise
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.rulebook.finding import Value
from npuscope.rulebook.queries import is_dense, zero_point

_NEAR = 0.125  # how far a better channel count may be from the present one
_ALIKE = 2.0  # a cost per channel within this factor of the best is good
_STEP = 8  # a count that every mode can cut into good parts
_MORE = 0.25  # how many channels of zeros may be added, as a share
_FARTHEST = 4096  # channels that are added or left out at most; no search is longer
_EVEN = 4  # zeros are cheap, so counts that do not suit every mode are tried too
_WORTH = 0.8  # share of the cycles; a smaller saving is ignored
_DEEP_PACK = 3  # a word of a stream has 24 bits: three channels in Deep1x1 mode
SIDES = ("outputs", "inputs")
# Ops that keep channels apart: one more channel in means one more channel out.
_APART = having(Trait.KEEPS_CHANNELS)
_BORDER = ("Slice", "Split", "Concat")  # they can carry additional channels


@dataclass(frozen=True, slots=True)
class LayerShape:
    """A dense layer: channels, kernel, positions of the maps, and whether it is in 8x8 mode."""

    inputs: int
    outputs: int
    window: tuple[int, int]
    in_positions: int
    out_positions: int
    eight_bits: bool


def layer_shape(graph: Graph, op: Op) -> LayerShape:
    weights = graph.tensor(op.inputs[1]).shape
    features, result = graph.first_input(op), graph.output_tensor(op)
    window = (weights[1], weights[2]) if len(weights) == 4 else (1, 1)
    return LayerShape(
        weights[-1],
        weights[0],
        window,
        prod(features.shape[:-1]),
        prod(result.shape[:-1]),
        zero_point(features) in (0, -128),
    )


def stream_cycles(shape: LayerShape, machine: Machine) -> float:
    """Cycles of the longest stream, with the best mode the layer may use."""
    return min(_cycles(shape, *mode, machine, exact=True) for mode in _modes(shape, machine))


def slowdown(shape: LayerShape, machine: Machine) -> float:
    """Ratio to the cycles that parts of full size would take."""
    ideal = min(_cycles(shape, *mode, machine, exact=False) for mode in _modes(shape, machine))
    return stream_cycles(shape, machine) / ideal


def better_count(shape: LayerShape, machine: Machine, side: str) -> int:
    """The nearest channel count with good divisors; `side` is 'inputs' or 'outputs'."""
    count = shape.inputs if side == "inputs" else shape.outputs
    first, last = ceil(count * (1 - _NEAR)), int(count * (1 + _NEAR))
    first, last = max(first, count - _FARTHEST), min(last, count + _FARTHEST)
    counts = [n for n in range(first, last + 1) if n % _STEP == 0] or [count]
    costs = {n: stream_cycles(with_count(shape, side, n), machine) / n for n in counts}
    cheapest = min(costs.values())
    alike = [n for n, cost in costs.items() if cost <= _ALIKE * cheapest]
    return min(alike, key=lambda n: (abs(n - count), costs[n]))


def padded_count(layers: Sequence[tuple[LayerShape, str]], machine: Machine) -> int:
    """The larger count that is worth its zeros, for layers that share one, each with the side on
    which it has it; the present count where there is none."""
    shape, side = layers[0]
    count = shape.inputs if side == "inputs" else shape.outputs
    last = min(int(count * (1 + _MORE)) + _STEP, count + _FARTHEST)
    counts = (count, *(n for n in range(count + 1, last + 1) if n % _EVEN == 0))
    costs = {
        n: sum(stream_cycles(with_count(s, at, n), machine) for s, at in layers) for n in counts
    }
    best = min(costs, key=lambda n: (costs[n], n))
    return best if costs[best] < _WORTH * costs[count] else count


def with_count(shape: LayerShape, side: str, count: int) -> LayerShape:
    return replace(shape, inputs=count) if side == "inputs" else replace(shape, outputs=count)


def best_split(outputs: int, kernels: int) -> tuple[int, int]:
    """Two parts of the outputs that take the fewest tiles together, the larger one first."""
    splits = ((a, outputs - a) for a in range(outputs - 1, (outputs - 1) // 2, -1))
    return min(splits, key=lambda parts: sum(n // largest_divisor(n, kernels) for n in parts))


def parallel_kernels(shape: LayerShape, machine: Machine) -> int:
    return max(limit.kernels for limit, _ in _modes(shape, machine))


def largest_divisor(number: int, limit: int) -> int:
    return next(d for d in range(min(number, limit), 0, -1) if number % d == 0)


def _modes(shape: LayerShape, machine: Machine) -> Iterator[tuple[TileLimit, int]]:
    """Tile limits and channels per word of the modes that the layer may use."""
    tiles = machine.convacc.tiles
    if shape.window != (1, 1):
        yield tiles["dense8x8" if shape.eight_bits else "dense16x8"], 1
        return
    yield tiles["plain1x1"], 1
    if shape.eight_bits and shape.inputs >= machine.convacc.min_deep_channels:
        yield tiles["deep1x1"], _DEEP_PACK


def _cycles(
    shape: LayerShape, limit: TileLimit, pack: int, machine: Machine, *, exact: bool
) -> float:
    """Features once per tile, kernels once, partial sums once per pass."""
    tiles = ceil(shape.outputs / limit.kernels)
    passes, pipe = _whole_parts(shape.inputs, limit.depth, machine.longest_pipe)
    if exact:
        tiles = shape.outputs // largest_divisor(shape.outputs, limit.kernels)
        passes, pipe = _equal_parts(shape.inputs, limit.depth, machine.longest_pipe)
    features = shape.inputs * shape.in_positions * tiles / pipe / pack
    kernels = shape.outputs * shape.inputs * prod(shape.window) / pack
    words = max(features, kernels, shape.outputs * passes * shape.out_positions)
    turns = tiles * passes if passes > 1 else 0
    return words + machine.timing.accumulation_turn_cycles * turns


def _whole_parts(inputs: int, depth: int, units: int) -> tuple[int, int]:
    pipe = min(units, ceil(inputs / depth))
    return ceil(inputs / (depth * pipe)), pipe


def _equal_parts(inputs: int, depth: int, units: int) -> tuple[int, int]:
    """Fewest accumulation passes, then fewest units in series."""
    pipes = [n for n in range(1, units + 1) if inputs % n == 0]
    return min((inputs // (n * largest_divisor(inputs // n, depth)), n) for n in pipes)


@dataclass(frozen=True, slots=True)
class SharedCount:
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
        gain = _shared_cycles(layers, shared.count, machine) - _shared_cycles(
            layers, padded, machine
        )
        if padded > shared.count and gain > saved:
            saved = gain
            best = {"channels": shared.count, "padded": padded, "side": side}
    return best


def _shared_cycles(layers: list[tuple[LayerShape, str]], count: int, machine: Machine) -> float:
    return sum(stream_cycles(with_count(shape, side, count), machine) for shape, side in layers)
