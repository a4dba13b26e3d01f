"""How far rounding alone moves the outputs of a network.

An NPU rounds every layer a little differently from the reference. In a deep network these single
steps add up, and by how much depends on the network: a detector's boxes move further than the
scores of a small classifier. So the reference itself is run with such steps in every layer: at
random ones, and at those that each layer showed by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np

from npuscope.graph.model import Graph, Tensor
from npuscope.ops.run import disturbed, each_alone
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.program.model import Epoch
from npuscope.program.modes import Bcast
from npuscope.program.units import Arith
from npuscope.sim.arithmetic.units import load
from npuscope.sim.memory import Memory

Array = np.ndarray
Values = Mapping[str, Array]

# Share of a layer's elements that are moved by one LSB, up or down. Layers of right builds are
# typically 98 % to 99.5 % exact and the worst of them 90 %: here all are as the worst.
MOVED_SHARE = 0.1
_RANGE = 255  # LSB that a layer's values may span


def rounded(graph: Graph, sample: Values, seed: int) -> dict[str, Array]:
    """The outputs of the reference when every layer rounds at random."""
    generator = np.random.default_rng(seed)
    names = {name for op in graph.ops if op.kind not in having(Trait.MOVES) for name in op.outputs}

    def change(name: str, values: Array) -> Array:
        return _moved(graph.tensors[name], values, MOVED_SHARE, generator, name in names)

    return disturbed(graph, sample, change)


def rounded_alike(graph: Graph, sample: Values, steps: Values) -> dict[str, Array]:
    """The outputs of the reference when its tensors move by the steps that the layers of a program
    were off, each on the reference's inputs.

    A layer of few values, or whose results are mostly ties, moves more of them than others do,
    and all to the same side: what a steep op behind it makes of that, steps at random do not show.
    """

    def change(name: str, values: Array) -> Array:
        if name not in steps or not _is_quantized(graph.tensors[name]):
            return values
        limits = graph.tensors[name].dtype.limits
        return np.clip(values.astype(np.int64) + steps[name], *limits).astype(values.dtype)

    return disturbed(graph, sample, change)


def deciding(
    graph: Graph, sample: Values, expected: Values, found: Values
) -> dict[str, Array] | None:
    """The outputs of the reference when comparisons and other ops that jump choose as a program
    did, wherever a step of what they read decides; None where no choice differs.

    A choice made otherwise moves an output by any distance, at places so few that rounding at
    random seldom meets them.
    """
    jumps = having(Trait.JUMPS)
    first = {op.inputs[0] for op in graph.ops if op.kind in jumps}
    held = {**sample, **expected}
    stepped = _stepping(graph, held)
    inputs: dict[str, Array] = {}
    for step, moves_all in product((1, -1), (False, True)):

        def change(name: str, values: Array, step: int = step, all_: bool = moves_all) -> Array:
            return stepped(name, step) if all_ or name in first else values

        for name, moved in each_alone(graph, held, jumps, change):
            if name in found and (moved != expected[name]).any():
                old = inputs.get(name, expected[name])
                inputs[name] = np.where(moved == found[name], moved, old)
    if all(np.array_equal(values, expected[name]) for name, values in inputs.items()):
        return None
    return disturbed(graph, sample, lambda name, values: inputs.get(name, values))


def steps_inside(graph: Graph, sample: Values, expected: Values) -> dict[str, float]:
    """By tensor, LSB (root mean square) that it moves when what it is computed from moves by one.

    Of functions of single values alone: an epoch may hold one together with the layer before it,
    whose rounding a steep function makes larger.
    """
    generator = np.random.default_rng(0)

    def change(name: str, values: Array) -> Array:
        return _moved(graph.tensors[name], values, 1.0, generator)

    sizes = {}
    for name, values in each_alone(
        graph, {**sample, **expected}, having(Trait.ELEMENTWISE), change
    ):
        if _is_quantized(graph.tensors[name]):
            steps = values.astype(np.float64) - expected[name]
            sizes[name] = float(np.sqrt((steps * steps).mean())) if steps.size else 0.0
    return sizes


def reach_of_a_step(graph: Graph, sample: Values, expected: Values) -> dict[str, Array]:
    """By tensor, how far each of its values moves when all that it is computed from move by one
    step, up or down; of functions of single values, as above."""
    reach: dict[str, Array] = {}
    held = {**sample, **expected}
    stepped = _stepping(graph, held)
    for step in (1, -1):

        def change(name: str, values: Array, step: int = step) -> Array:
            return stepped(name, step)

        for name, values in each_alone(graph, held, having(Trait.ELEMENTWISE), change):
            if _is_quantized(graph.tensors[name]):
                apart = np.abs(values.astype(np.int64) - expected[name])
                reach[name] = np.maximum(reach.get(name, 0), apart)
    return reach


def coefficient_lsb(epoch: Epoch, memory: Memory, channels: int) -> Array:
    """By channel, LSB that it may be off because an integer of few steps scales its sums.

    The channels of a layer share one shift: beside one of large weights, the coefficient of one of
    small weights may be no more than 1 or 2.
    """
    lsb = np.zeros(channels)
    for unit in epoch.units:
        if not isinstance(unit, Arith) or unit.A_vector is None or unit.scalar:
            continue
        if unit.bcast == Bcast.CHAN and unit.fChannels == channels:
            steps = np.abs(load(unit, memory).a)
            lsb = np.maximum(lsb, _RANGE * 0.5 / np.maximum(steps, 0.5))
    return lsb


def _moved(
    tensor: Tensor, values: Array, share: float, generator: np.random.Generator, rounds: bool = True
) -> Array:
    """A share of the values one step up or down."""
    if not rounds or not _is_quantized(tensor):
        return values
    draw = generator.random(values.shape, np.float32)
    steps = (draw < share / 2).astype(np.int64) - (draw >= 1 - share / 2)
    return np.clip(values + steps, *tensor.dtype.limits).astype(values.dtype)


def _stepping(graph: Graph, held: Values) -> Callable[[str, int], Array]:
    """A value some steps up or down, as far as its type goes; a real number that was dequantized
    moves as the integer before it does."""
    makers = graph.producers()

    def stepped(name: str, step: int) -> Array:
        tensor, values = graph.tensors[name], held[name]
        if _is_quantized(tensor):
            moved = np.clip(values.astype(np.int64) + step, *tensor.dtype.limits)
            return moved.astype(values.dtype)
        maker = makers.get(name)
        if maker is None or maker.kind not in having(Trait.RESCALING):
            return values
        source = graph.first_input(maker)
        if source.quant is None or source.name not in held:
            return values
        whole = stepped(source.name, step).astype(np.int64) - source.quant.zero_point
        return (whole * source.quant.scale).astype(values.dtype)

    return stepped


def _is_quantized(tensor: Tensor) -> bool:
    return tensor.quant is not None and tensor.dtype.numpy.kind in "iu"
