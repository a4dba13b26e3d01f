"""A program of another compiler beside the network it was made from.

It keeps neither names nor all shapes of the network. A buffer belongs to the tensors that have its
name, or else its size and its scale; values only choose among these, so that a layer that computes
something else is compared all the same, and disagrees.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct, field

from npuscope.graph.model import DType, Graph, Quant, Tensor
from npuscope.ops.run import trace
from npuscope.profiling.agreement import Array, Values
from npuscope.profiling.foreign_pairs import (
    BufferPair,
    Candidates,
    same_scale,
    scale_shift,
    sign_shift,
    stated_buffer,
)
from npuscope.profiling.same_network import input_pairs
from npuscope.program.calls import element_type
from npuscope.program.model import Buffer, Epoch, Program
from npuscope.program.units import Ref, Streng
from npuscope.sim.memory import Memory, from_stored, to_stored
from npuscope.sim.run import execute, reads, written

# A buffer up to this mean difference from a tensor, in steps, is taken as its copy.
_MOST_MEAN_LSB = 1.5
# Sorted values of a buffer and a tensor that differ by no more are the same in another order.
_FEW_LSB = 3
# Ops of a network that one epoch may compute, one after the other.
_MOST_OPS = 6
# Elements looked at to choose among tensors of one size.
_PROBE = 4096


class ForeignBridge(Struct):
    program: Program
    graph: Graph
    pairs: dict[str, BufferPair] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)  # network output -> program output

    def inputs(self, sample: Values) -> dict[str, Array]:
        """The bytes lie as in the model file."""
        buffers = self.program.buffer_map()
        return {
            there: _converted(sample[here], self.graph.tensor(here), buffers[there])
            for there, here in input_pairs(self.program, self.graph).items()
        }

    def outputs(self, values: Values) -> dict[str, Array]:
        buffers = self.program.buffer_map()
        return {
            here: _back(values[there], buffers[there], self.graph.tensor(here))
            for here, there in self.results.items()
        }

    def forced(self, expected: Values) -> dict[str, Array]:
        buffers = self.program.buffer_map()
        return {
            name: pair.values(buffers[name], expected[pair.tensor])
            for name, pair in self.pairs.items()
        }

    def tensor(self, buffer: str) -> str:
        return self.pairs[buffer].tensor


def foreign_bridge(program: Program, graph: Graph, sample: Values) -> ForeignBridge:
    """Learn what belongs together from one run, epoch by epoch, each given reference inputs."""
    bridge = ForeignBridge(program, graph)
    expected = trace(graph, dict(sample))
    learner = _Learner(program, graph, expected)
    execute(program, bridge.inputs(sample), observe=learner.observe)
    bridge.pairs = learner.pairs
    # Outputs are matched in a run of its own, without the reference's values inside.
    free = execute(program, bridge.inputs(sample)).outputs
    bridge.results = _results(program, graph, free, expected)
    return bridge


class _Learner:
    """Pairs buffers with tensors while the program runs."""

    def __init__(self, program: Program, graph: Graph, expected: Values) -> None:
        self.expected = expected
        self.candidates = Candidates(graph, expected)
        self.lineage = Lineage(graph)
        self.borders = input_pairs(program, graph)
        self.near: dict[str, BufferPair] = {}
        # Far from the tensor that it should carry: it disagrees, unless what is made of it, with
        # the values that it has, agrees. Then it is an inner value of an op.
        self.far: dict[str, BufferPair] = {}
        # Several epochs may fill one buffer: it is whole after the last of them.
        self.last = {name: e.number for e in program.executed for name in written(e)}
        self.reused = _reused(program)

    def observe(self, epoch: Epoch, memory: Memory) -> None:
        paired = self.near | self.far
        read = [name for name in (*paired, *self.borders) if _reads(epoch, memory, name)]
        sources = {paired[n].tensor if n in paired else self.borders[n] for n in read}
        for name in written(epoch):
            buffer = memory.buffer(name)
            options = list(self.candidates.of(memory, buffer))
            if name in self.reused and stated_buffer(memory, buffer).quant is None:
                continue
            if options and self.last[name] == epoch.number and not _is_scattered(epoch, buffer):
                self._pair(memory, buffer, options, sources)
        results = written(epoch)
        if any(n in self.near for n in results) and not any(n in self.far for n in results):
            for name in read:
                self.far.pop(name, None)

    @property
    def pairs(self) -> dict[str, BufferPair]:
        """A buffer far from a tensor that another one carries is an inner value of an op too."""
        carried = {pair.tensor for pair in self.near.values()}
        far = {name: pair for name, pair in self.far.items() if pair.tensor not in carried}
        return self.near | far

    def _pair(
        self,
        memory: Memory,
        buffer: Buffer,
        options: Sequence[BufferPair],
        sources: Collection[str],
    ) -> None:
        values = memory.read(buffer.name)
        apart = _apart(values, buffer, options, self.expected)
        pair = min(options, key=apart.__getitem__)
        reference = pair.values(buffer, self.expected[pair.tensor])
        if _is_reordered(values, reference):
            return
        if apart[pair] <= _MOST_MEAN_LSB:
            self.near[buffer.name] = pair
            # The next epoch starts from the reference again, so that rounding does not add up.
            memory.write(buffer.name, reference)
            return
        # Without a scale nothing says that the tensor belongs here but its values, or its name,
        # which a compiler also gives to a step on the way to it.
        if stated_buffer(memory, buffer).quant is None:
            return
        # The same values in an order that is not known here cannot be compared.
        if _most_apart(np.sort(values, axis=None), np.sort(reference, axis=None)) <= _FEW_LSB:
            return
        # Wrong values do not tell which of several tensors it should have been: the network does.
        names = {option.tensor for option in options}
        certain = names if len(names) == 1 else self.lineage.first(names, sources)
        likely = [option for option in options if option.tensor in certain]
        if likely:
            self.far[buffer.name] = min(likely, key=apart.__getitem__)


def _reused(program: Program) -> set[str]:
    """Buffers that are filled after they were read: sources without c_info.json give memory that
    serves several tensors the name of one."""
    read, reused = set[str](), set[str]()
    for epoch in program.executed:
        reused.update(read.intersection(written(epoch)))
        read.update(reads(epoch))
    return reused


def _is_reordered(values: Array, reference: Array) -> bool:
    """Each value as often as in the tensor, at other places: what only moves values made it. Where
    most of them are alike, it is near in the mean all the same."""
    if _most_apart(values, reference) <= _FEW_LSB:
        return False
    return np.array_equal(np.sort(values, axis=None), np.sort(reference, axis=None))


def _most_apart(one: Array, other: Array) -> int:
    return int(np.abs(one.astype(np.int32) - other).max(initial=0))


def _reads(epoch: Epoch, memory: Memory, name: str) -> bool:
    buffer = memory.buffer(name)
    start = memory.address(Ref(name))
    engines = (u for u in epoch.units if isinstance(u, Streng) and u.dir == 0)
    places = [memory.address(unit.addr_base) + unit.offset_start for unit in engines]
    arguments = epoch.call.inputs if epoch.call else ()
    places += [memory.address(Ref(argument)) for argument in arguments if argument]
    alive = not buffer.last or epoch.number <= buffer.last
    return alive and any(start <= place < start + buffer.size_bytes for place in places)


def _is_scattered(epoch: Epoch, buffer: Buffer) -> bool:
    """A part of a joined tensor that is stored at its place there, between the values of others:
    it cannot be read as a whole."""
    engines = (unit for unit in epoch.units if isinstance(unit, Streng) and unit.dir == 1)
    return any(
        unit.addr_base.buffer == buffer.name
        and unit.fwidth * unit.fheight * unit.batch_offset > buffer.size_bytes
        for unit in engines
    )


class Lineage:
    """What of a network is computed from what."""

    def __init__(self, graph: Graph) -> None:
        self.consumers = graph.consumers()

    def first(self, names: Collection[str], sources: Collection[str]) -> set[str]:
        """Those of the names that come first after the sources; none where they are far away."""
        reached = set(sources)
        for _ in range(_MOST_OPS):
            ops = [op for name in reached for op in self.consumers.get(name, ())]
            reached = {output for op in ops for output in op.outputs}
            if reached & set(names):
                return reached & set(names)
        return set()


def _apart(
    value: Array, buffer: Buffer, options: Sequence[BufferPair], expected: Values
) -> dict[BufferPair, float]:
    """Mean differences of a buffer from the tensors that it may carry."""
    # A fixed seed, so that the same files always give the same pairs.
    places = np.random.default_rng(0).integers(0, max(1, value.size), min(value.size, _PROBE))
    probe = value.reshape(-1)[places].astype(np.int32)

    def apart(pair: BufferPair) -> float:
        reference = pair.values(buffer, expected[pair.tensor]).reshape(-1)[places]
        return float(np.abs(probe - reference).mean())

    return {pair: apart(pair) for pair in options}


def _results(program: Program, graph: Graph, free: Values, expected: Values) -> dict[str, str]:
    """Every output of the network with the program's output of its size and scale; of several
    that with the nearest values."""
    buffers = program.buffer_map()
    free_outputs = list(program.outputs)
    results = {}
    for name in graph.outputs:
        tensor = graph.tensor(name)
        same = [n for n in free_outputs if free[n].size == tensor.elements]
        same = [n for n in same if scale_shift(tensor, buffers[n]) is not None] or same
        reference = expected[name].astype(np.float64).reshape(-1)
        near = min(
            same,
            key=lambda n: float(
                np.abs(
                    np.nan_to_num(_back(free[n], buffers[n], tensor)).reshape(-1) - reference
                ).mean()
            ),
        )
        results[name] = near
        # Two outputs of the network never share one of the program.
        free_outputs.remove(near)
    return results


def _converted(value: Array, tensor: Tensor, buffer: Buffer) -> Array:
    """A network input in the element type of the program's input, and with its axes."""
    axes = _border_axes(value.shape, buffer)
    flat = (value.transpose(axes) if axes else value).reshape(-1)
    stored: Array
    if buffer.is_float:
        is_real = tensor.dtype is DType.FLOAT32
        stored = (flat if is_real else _real(flat, tensor.quant)).astype(np.float32)
    elif tensor.dtype is DType.FLOAT32:
        quant = buffer.quant or Quant((1.0,), (0,))
        low, high = (-128, 127) if buffer.signed else (0, 255)
        steps = np.rint(flat / quant.scale) + quant.zero_point
        stored = np.clip(steps, low, high).astype(element_type(buffer))
    else:
        stored = (flat.astype(np.int32) + sign_shift(tensor, buffer)).astype(element_type(buffer))
    return from_stored(buffer, stored)


def _real(flat: Array, quant: Quant | None) -> Array:
    if quant is None:
        return flat.astype(np.float32)
    return ((flat.astype(np.float32) - quant.zero_point) * np.float32(quant.scale)).astype(
        np.float32
    )


def _back(value: Array, buffer: Buffer, tensor: Tensor) -> Array:
    """A program output in the network's shape and type; of another scale, by its real values."""
    flat = to_stored(buffer, value)
    if tensor.dtype is DType.FLOAT32:
        flat = flat if buffer.is_float else _real(flat, buffer.quant)
    elif tensor.quant is not None and (
        buffer.is_float or (buffer.quant and not same_scale(buffer.quant, tensor.quant))
    ):
        number = flat if buffer.is_float else _real(flat, buffer.quant)
        steps = np.rint(number / tensor.quant.scale) + tensor.quant.zero_point
        flat = np.clip(steps, *tensor.dtype.limits)
    else:
        flat = flat.astype(np.int32) - sign_shift(tensor, buffer)
    axes = _border_axes(tensor.shape, buffer)
    if not axes:
        return flat.reshape(tensor.shape)
    there = tuple(tensor.shape[axis] for axis in axes)
    return flat.reshape(there).transpose([axes.index(axis) for axis in range(len(axes))])


def _border_axes(shape: tuple[int, ...], buffer: Buffer) -> tuple[int, ...]:
    """How a network's axes become those of an input or output whose channels were moved to the
    end or to the front when the program was made; empty where they are the same."""
    if len(shape) != 4 or len(buffer.shape) != 4:
        return ()
    batch, height, width, channels = buffer.shape
    there = (batch, channels, height, width)
    moved = () if shape in (there, buffer.shape) else ((0, 2, 3, 1), (0, 3, 1, 2))
    return next((axes for axes in moved if tuple(shape[a] for a in axes) == there), ())
