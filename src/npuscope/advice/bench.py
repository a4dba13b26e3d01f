"""What-if: one layer, or the whole network, compiled again and timed by the timing model.

Gains come from here. A layer is compared with itself, both alone on the same machine, so that
neighbours and placement do not count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from npuscope.compiler.pipeline import compile_graph
from npuscope.errors import NpuscopeError
from npuscope.graph.model import Graph, Op, Quant, Tensor
from npuscope.machine.model import Machine
from npuscope.profiling.run import estimate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change:
    """Of one layer: other channel counts (0 leaves them), another zero point of its input."""

    outputs: int = 0
    inputs: int = 0
    zero_point: int | None = None


class Bench:
    """Compiles and times; equal layers are timed once."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._known: dict[tuple[object, ...], float | None] = {}

    def layer_ms(self, graph: Graph, op: Op, change: Change | None = None) -> float | None:
        """A dense layer alone; None when it does not compile."""
        alone = layer_alone(graph, op, change or Change())
        key = _fingerprint(alone)
        if key not in self._known:
            self._known[key] = self.network_ms(alone)
        return self._known[key]

    def gain_ms(self, graph: Graph, op: Op, *changes: Change) -> float | None:
        """What a layer saves when these take its place, one after the other."""
        before = self.layer_ms(graph, op)
        after = [self.layer_ms(graph, op, change) for change in changes]
        if before is None or None in after:
            return None
        return before - sum(ms for ms in after if ms is not None)

    def network_ms(self, graph: Graph, machine: Machine | None = None) -> float | None:
        machine = machine or self.machine
        try:
            return estimate(compile_graph(graph, machine), machine).total_ms
        except NpuscopeError:
            return None

    def pass_ms(self, elements: int) -> float:
        """One pass of the NPU over so many elements: an epoch of its own."""
        timing, control = self.machine.timing, self.machine.generation.control
        cycles = timing.move_start_cycles + timing.elementwise_cycles * elements
        return (cycles + control.controller_cycles) / self.machine.clocks.npu_mhz / 1000


def layer_alone(graph: Graph, op: Op, change: Change) -> Graph:
    """A graph of one layer. Weights are repeated or cut to the new counts: their values do not
    matter for the time."""
    source, weights = graph.first_input(op), graph.tensor(op.inputs[1])
    outputs = change.outputs or weights.shape[0]
    inputs = change.inputs or weights.shape[-1]
    tensors = [
        _with_zero_point(_resized(source, -1, inputs), change.zero_point),
        _resized(_resized(weights, 0, outputs), -1, inputs),
        *(_resized(graph.tensor(name), 0, outputs) for name in op.inputs[2:] if name),
        _resized(graph.output_tensor(op), -1, outputs),
    ]
    # A tensor may be read twice; names must be unique.
    unique = {tensor.name: tensor for tensor in tensors}
    return Graph("layer", unique.values(), [op], (source.name,), op.outputs[:1], graph.numerics)


def _resized(tensor: Tensor, axis: int, count: int) -> Tensor:
    """Another number of channels along an axis."""
    place = axis % len(tensor.shape)
    if tensor.shape[place] == count:
        return tensor
    shape = (*tensor.shape[:place], count, *tensor.shape[place + 1 :])
    data, quant = tensor.data, tensor.quant
    if data is not None:
        data = np.take(data, np.arange(count) % tensor.shape[place], axis=place)
    if quant is not None and quant.axis == place:
        quant = Quant(_cycle(quant.scales, count), _cycle(quant.zero_points, count), quant.axis)
    return replace(tensor, shape=shape, data=data, quant=quant, source_shape=None)


def _cycle(values: tuple[T, ...], count: int) -> tuple[T, ...]:
    return tuple(values[i % len(values)] for i in range(count))


def _with_zero_point(tensor: Tensor, zero_point: int | None) -> Tensor:
    if zero_point is None or tensor.quant is None:
        return tensor
    return replace(tensor, quant=replace(tensor.quant, zero_points=(zero_point,)))


def _fingerprint(alone: Graph) -> tuple[object, ...]:
    """What the time of a layer depends on: kind, attributes, shapes, zero points."""
    op = alone.ops[0]
    tensors = (alone.tensor(name) for name in (*op.inputs, *op.outputs) if name)
    return op.kind, op.attrs, tuple((t.shape, t.dtype, _zero(t)) for t in tensors)


def _zero(tensor: Tensor) -> object:
    return tensor.quant.zero_points if tensor.quant and not tensor.quant.per_channel else None
