"""A vendor-compiled program beside the network it was made from.

The program keeps neither names nor all shapes of the network: inputs and outputs are matched by
order, size and value, and buffers are paired with the reference tensor they are nearest to.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from npuscope.errors import UsageError
from npuscope.graph.model import DType, Graph, Quant, Tensor
from npuscope.lean_dataclass import dataclass
from npuscope.ops.run import trace
from npuscope.profiling.agreement import Array, Values
from npuscope.program.calls import element_type
from npuscope.program.model import Buffer, Epoch, Program
from npuscope.sim.memory import Memory, from_stored, to_stored
from npuscope.sim.run import execute, written

# A buffer counts as a tensor's copy up to this mean difference, in steps.
_MOST_MEAN_LSB = 3.0
# Elements looked at to choose among tensors of one size.
_PROBE = 4096


@dataclass(frozen=True, slots=True)
class Pair:
    """A buffer, the tensor it carries, whether in stored order, and what is added to it."""

    tensor: str
    stored: bool
    shift: int

    def values(self, buffer: Buffer, expected: Array) -> Array:
        flat = expected.reshape(-1).astype(np.int16) + self.shift
        bytes_ = flat.astype(element_type(buffer))
        return from_stored(buffer, bytes_) if self.stored else bytes_.reshape(buffer.shape)


@dataclass(slots=True)
class ForeignBridge:
    program: Program
    graph: Graph
    pairs: dict[str, Pair] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)  # network output -> program output

    def inputs(self, sample: Values) -> dict[str, Array]:
        """In order; the bytes lie as in the model file."""
        buffers = self.program.buffer_map()
        pairs = zip(self.graph.inputs, self.program.inputs, strict=True)
        return {
            there: _converted(sample[here], self.graph.tensor(here), buffers[there])
            for here, there in pairs
        }

    def outputs(self, found: Values) -> dict[str, Array]:
        buffers = self.program.buffer_map()
        return {
            here: _back(found[there], buffers[there], self.graph.tensor(here))
            for here, there in self.results.items()
        }

    def forced(self, expected: Values) -> dict[str, Array]:
        buffers = self.program.buffer_map()
        return {
            name: pair.values(buffers[name], expected[pair.tensor])
            for name, pair in self.pairs.items()
        }


def foreign_bridge(program: Program, graph: Graph, sample: Values) -> ForeignBridge:
    """Learn what belongs together from one run, epoch by epoch, each given reference inputs."""
    if len(program.inputs) != len(graph.inputs):
        raise UsageError(
            f"the program has {len(program.inputs)} inputs, the model {len(graph.inputs)}",
            where="--model",
            hint="give the model file that this network was compiled from",
        )
    bridge = ForeignBridge(program, graph)
    expected = trace(graph, dict(sample))
    by_size = _by_size(expected)

    def learn(epoch: Epoch, memory: Memory) -> None:
        for name in written(epoch):
            buffer = memory.buffer(name)
            found = _pair(memory.read(name), buffer, by_size) if _is_byte(buffer) else None
            if found is not None:
                bridge.pairs[name] = found
                # The next epoch starts from the reference again, so that rounding does not add up
                # and hide a match.
                memory.write(name, found.values(buffer, expected[found.tensor]))

    execute(program, bridge.inputs(sample), observe=learn)
    # Outputs are matched in a run of its own, without the reference's values inside.
    free = execute(program, bridge.inputs(sample)).outputs
    bridge.results = _results(program, graph, free, expected)
    return bridge


def _is_byte(buffer: Buffer) -> bool:
    return buffer.nbits == 8 and not buffer.is_float and not buffer.is_param


def _by_size(expected: Values) -> dict[int, list[tuple[str, Array]]]:
    found: dict[int, list[tuple[str, Array]]] = {}
    for name, value in expected.items():
        if value.dtype in (np.int8, np.uint8):
            found.setdefault(value.size, []).append((name, value.reshape(-1)))
    return found


def _pair(value: Array, buffer: Buffer, by_size: dict[int, list[tuple[str, Array]]]) -> Pair | None:
    """The tensor of the same size that is nearest, in logical or in stored order."""
    candidates = by_size.get(value.size, [])
    orders = {False: value.reshape(-1), True: to_stored(buffer, value)}
    # A fixed seed, so that the same files always give the same pairs.
    places = np.random.default_rng(0).integers(0, max(1, value.size), min(value.size, _PROBE))
    best: tuple[float, Pair] | None = None
    for stored, flat in orders.items():
        probe = flat[places].astype(np.int16)
        for name, tensor in candidates:
            wanted = tensor[places].astype(np.int16)
            for shift in (0, 128) if value.dtype == np.uint8 else (0,):
                apart = float(np.abs(probe - wanted - shift).mean())
                if apart <= _MOST_MEAN_LSB and (best is None or apart < best[0]):
                    best = (apart, Pair(name, stored, shift))
    return best[1] if best else None


def _results(program: Program, graph: Graph, free: Values, expected: Values) -> dict[str, str]:
    """Every output of the network with the program's output of its size that is nearest."""
    buffers = program.buffer_map()
    left = list(program.outputs)
    found = {}
    for name in graph.outputs:
        tensor = graph.tensor(name)
        same = [n for n in left if free[n].size == tensor.elements]
        if not same:
            raise UsageError(
                f"no output of the program has the {tensor.elements} elements of '{name}'",
                where="--model",
                hint="give the model file that this network was compiled from",
            )
        wanted = expected[name].astype(np.float64).reshape(-1)
        near = min(
            same,
            key=lambda n: float(
                np.abs(_back(free[n], buffers[n], tensor).reshape(-1) - wanted).mean()
            ),
        )
        found[name] = near
        # Two outputs of the network never share one of the program.
        left.remove(near)
    return found


def _converted(value: Array, tensor: Tensor, buffer: Buffer) -> Array:
    """A network input in the element type of the program's input."""
    flat = value.reshape(-1)
    if flat.size * buffer.nbits // 8 != buffer.size_bytes:
        raise UsageError(
            f"input '{buffer.name}' has {buffer.size_bytes} bytes for {flat.size} elements",
            where="--model",
        )
    number = _real(flat, tensor.quant) if _is_real(tensor, buffer) else flat
    if buffer.is_float:
        stored = number.astype(np.float32)
    elif tensor.dtype is DType.FLOAT32:
        stored = _quantized(flat, buffer)
    else:
        stored = (flat.astype(np.int16) + _sign_shift(tensor, buffer)).astype(element_type(buffer))
    return from_stored(buffer, stored)


def _is_real(tensor: Tensor, buffer: Buffer) -> bool:
    return buffer.is_float and tensor.dtype is not DType.FLOAT32


def _sign_shift(tensor: Tensor, buffer: Buffer) -> int:
    """int8 and uint8 of one scale differ by 128."""
    signed = tensor.dtype is not DType.UINT8
    return 0 if signed == buffer.signed else 128 if signed else -128


def _real(flat: Array, quant: Quant | None) -> Array:
    if quant is None:
        return flat.astype(np.float32)
    return ((flat.astype(np.float32) - quant.zero_point) * np.float32(quant.scale)).astype(
        np.float32
    )


def _quantized(flat: Array, buffer: Buffer) -> Array:
    quant = buffer.quant or Quant((1.0,), (0,))
    low, high = (-128, 127) if buffer.signed else (0, 255)
    steps = np.rint(flat / quant.scale) + quant.zero_point
    stored: Array = np.clip(steps, low, high).astype(element_type(buffer))
    return stored


def _back(value: Array, buffer: Buffer, tensor: Tensor) -> Array:
    """A program output in the network's shape and type."""
    flat = to_stored(buffer, value)
    if tensor.dtype is DType.FLOAT32 and not buffer.is_float:
        flat = _real(flat, buffer.quant)
    elif tensor.dtype is not DType.FLOAT32 and buffer.is_float and tensor.quant is not None:
        low, high = tensor.dtype.limits
        steps = np.rint(flat / tensor.quant.scale) + tensor.quant.zero_point
        flat = np.clip(steps, low, high)
    elif tensor.dtype is not DType.FLOAT32:
        flat = flat.astype(np.int16) - _sign_shift(tensor, buffer)
    return flat.reshape(tensor.shape)
