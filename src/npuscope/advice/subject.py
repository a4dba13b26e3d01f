"""What advice is given on: a program, a run of it, the machine, and the network if known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from npuscope.compiler.pipeline import compile_graph
from npuscope.errors import NpuscopeError
from npuscope.graph.model import Graph, Op, Quant, Tensor
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.profiling.run import Retimer, retimer
from npuscope.program.model import Buffer, Epoch, EpochKind, Program
from npuscope.program.units import Convacc
from npuscope.structs import Apart, replace

# --- What-if: a layer or the whole network, compiled and timed again ---
# Gains come from here. A layer is compared with itself, both alone on the same machine, so that
# neighbours and placement do not count.

T = TypeVar("T")


class LayerChange(Struct, frozen=True):
    """Of one layer: other channel counts (0 leaves them), another zero point of its input."""

    outputs: int = 0
    inputs: int = 0
    zero_point: int | None = None


Layers = dict[tuple[object, ...], Retimer | None]  # by what their time depends on; None: refused


class Bench:
    """Compiles and times; equal layers are timed once. `layers` are kept by whoever asks again for
    a machine that differs in timing keys alone."""

    def __init__(self, machine: Machine, layers: Layers | None = None) -> None:
        self.machine = machine
        self._layers: Layers = {} if layers is None else layers
        self._times_ms: dict[tuple[object, ...], float | None] = {}

    def layer_ms(self, graph: Graph, op: Op, change: LayerChange | None = None) -> float | None:
        """A dense layer alone; None when it does not compile."""
        alone = layer_alone(graph, op, change or LayerChange())
        key = _fingerprint(alone)
        if key not in self._layers:
            try:
                timer = retimer(compile_graph(alone, self.machine), self.machine)
            except NpuscopeError:
                timer = None
            self._layers[key] = timer
        if key not in self._times_ms:
            timer = self._layers[key]
            self._times_ms[key] = None if timer is None else timer.estimate(self.machine).total_ms
        return self._times_ms[key]

    def gain_ms(self, graph: Graph, op: Op, *changes: LayerChange) -> float | None:
        """What a layer saves when these take its place, one after the other."""
        before = self.layer_ms(graph, op)
        after = [self.layer_ms(graph, op, change) for change in changes]
        if before is None or None in after:
            return None
        return before - sum(ms for ms in after if ms is not None)

    def pass_ms(self, elements: int) -> float:
        """One pass of the NPU over so many elements: an epoch of its own."""
        timing, control = self.machine.timing, self.machine.generation.control
        cycles = timing.move_start_cycles + timing.elementwise_cycles * elements
        return (cycles + control.controller_cycles) / self.machine.clocks.npu_mhz / 1000

    def join_ms(self, positions: int, parts: Sequence[int]) -> float:
        """Parts of so many channels side by side; where they cannot be made there, the compiler
        copies equal ones at once and leaves others to a library call."""
        elements = positions * sum(parts)
        if self.machine.generation.concat_in_place:
            return sum(self.pass_ms(positions * part) for part in parts)
        if len(set(parts)) == 1:
            return self.pass_ms(elements)
        cycles = self.machine.software_cost("Concat").cycles(elements)
        return cycles / self.machine.clocks.mcu_mhz / 1000


def layer_alone(graph: Graph, op: Op, change: LayerChange) -> Graph:
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


# Kernels whose time on the CPU is only known as a lower bound, unless the machine's file states it.
UNCOSTED = having(Trait.PRODUCT)


class Subject(Apart, frozen=True, dict=True):
    """`graph` is None for programs read from vendor files; gains are then mostly unknown."""

    apart = ("bench",)

    program: Program
    profile: Profile
    machine: Machine
    graph: Graph | None = None
    bench: Bench = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.bench is None:
            force_setattr(self, "bench", Bench(self.machine))

    @cached_property
    def layer_ops(self) -> dict[str, Op]:
        """By origin."""
        ops = self.graph.ops if self.graph is not None else ()
        return {name: op for op in ops if op.kind in LAYERS for name in op.origin}

    def epochs(self, *kinds: EpochKind) -> Iterator[tuple[Epoch, EpochProfile]]:
        """Epochs with their figures; a measured meta epoch stands for its first one."""
        by_number = {epoch.number: epoch for epoch in self.program.executed}
        for run in self.profile.epochs:
            epoch = by_number.get(run.first)
            if epoch is not None and (not kinds or epoch.kind in kinds):
                yield epoch, run

    def hardware(self, share: float = 0.0) -> Iterator[tuple[Epoch, EpochProfile]]:
        """Epochs of the NPU that take at least this share of the time."""
        for epoch, run in self.epochs(EpochKind.HW):
            if run.ms >= share * self.profile.total_ms:
                yield epoch, run

    def layers(self, share: float) -> Iterator[tuple[Epoch, EpochProfile, Op]]:
        """Slow epochs with the layer of the network that they run; a layer in several epochs
        is reported with its first."""
        names: set[str] = set()
        for epoch, run in self.hardware(share):
            ops = (self.layer_ops[name] for name in epoch.origin if name in self.layer_ops)
            layer = next(ops, None)
            if layer is not None and convolutions(epoch) and layer.name not in names:
                names.add(layer.name)
                yield epoch, run, layer

    def layer_ms(self, layer: Op) -> float:
        """Of all epochs in which the layer runs; what joined them counts with it."""
        names = {*layer.origin}
        runs = ((e, run) for e, run in self.epochs(EpochKind.HW) if convolutions(e))
        return sum(run.ms for epoch, run in runs if names & {*epoch.origin})

    def share(self, ms: float) -> float:
        return ms / self.profile.total_ms if self.profile.total_ms else 0.0

    def external(self) -> list[Buffer]:
        """Activations outside the chip, the largest first."""
        pools = {m.name for m in self.machine.pools if m.cacheable and m.writable}
        buffers = [b for b in self.program.buffers if b.pool in pools and not b.is_param]
        wholes = [buffer for buffer in buffers if not buffer.view_of]
        return sorted(wholes, key=lambda buffer: -buffer.size_bytes)

    def buffers_of(self, epoch: Epoch) -> list[Buffer]:
        """What a library call reads and makes, each once."""
        buffers = self.program.buffer_map()
        names = (*epoch.call.inputs, *epoch.call.outputs) if epoch.call else ()
        return [buffers[name] for name in dict.fromkeys(names) if name in buffers]

    def is_of_layers(self, epoch: Epoch) -> bool:
        """Work of convolutions and dense layers alone, such as joining their pieces."""
        return bool(epoch.origin) and all(name in self.layer_ops for name in epoch.origin)


def convolutions(epoch: Epoch) -> list[Convacc]:
    return [unit for unit in epoch.units if isinstance(unit, Convacc)]


def accumulation_passes(epoch: Epoch) -> int:
    """How often sums go through memory; 1 where the units hold all input channels."""
    return max((unit.afilt_tot for unit in convolutions(epoch)), default=0) or 1
