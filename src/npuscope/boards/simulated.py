"""A board that is not there: the simulated device behind the same interface as a real one."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from npuscope.boards.device import (
    BoardClocks,
    CounterOption,
    DeviceInfo,
    Inference,
    NetworkDesc,
    NodeCounters,
    NodeTensors,
    Request,
    TensorDesc,
    random_values,
)
from npuscope.boards.runtime import Instrument, Runtime
from npuscope.boards.wire.framing import CORE_BITS, STM32N6
from npuscope.errors import DeviceError, TargetError, UsageError
from npuscope.machine.model import Machine
from npuscope.program.calls import element_type
from npuscope.program.model import Buffer, Epoch, Program
from npuscope.program.network_c.writer_buffers import memory_shape
from npuscope.sim.memory import Memory, MemoryRegion, from_stored, to_stored
from npuscope.sim.run import execute, written
from npuscope.structs import replace
from npuscope.version import __version__

# Every text that a simulated board sends of itself holds this word, also over a wire: nobody
# shall take its numbers for measured ones.
SIMULATED = "simulated"


class SimulatedBoard:
    """One or more programs on a machine. Inputs that are not given are random, by `seed`."""

    source = "simulation"

    def __init__(
        self,
        programs: Program | Iterable[Program],
        machine: Machine,
        *,
        seed: int = 0,
        blob_fetch: bool = False,
        compiled: str = "",
    ) -> None:
        """`compiled` is the date that the board states for its networks."""
        listed = (programs,) if isinstance(programs, Program) else tuple(programs)
        self.machine = machine
        self._loaded = {
            program.name: LoadedNetwork(program, machine, seed, blob_fetch, compiled)
            for program in listed
        }
        if not listed or len(self._loaded) != len(listed):
            raise UsageError("a board needs programs with different names")
        # Networks share the pools: memory holds what the last one to run has left there.
        self._layers = list(self._loaded.values())

    def info(self) -> DeviceInfo:
        return simulated_info(self.machine, tuple(one.desc for one in self._loaded.values()))

    def run(self, request: Request) -> Inference:
        loaded = self._network(request.network)
        self._layers.remove(loaded)
        self._layers.insert(0, loaded)
        outputs = loaded.outputs(request.inputs)
        nodes = loaded.count(request.options)
        pre, core, post = (sum(node.mcu_cycles[i] for node in nodes) for i in range(3))
        mcu_hz = self.machine.clocks.mcu_mhz * 1e6
        return Inference(
            nodes if request.per_layer else (),
            outputs,
            (pre, core, post),
            (pre + core + post) * 1000 / mcu_hz,
        )

    def run_with_tensors(self, request: Request) -> tuple[Inference, tuple[NodeTensors, ...]]:
        """The same, with what each epoch block has written."""
        tensors = self._network(request.network).block_tensors(request.inputs)
        return self.run(request), tensors

    def close(self) -> None:
        """Nothing is held open."""

    def read(self, address: int, size: int) -> bytes:
        return self._at(address, size).read(address, size)

    def write(self, address: int, data: bytes) -> None:
        self._at(address, len(data)).write(address, data)

    def _network(self, name: str) -> LoadedNetwork:
        loaded = self._loaded.get(name)
        if loaded is None:
            raise DeviceError(
                f"the board has no network '{name}'", hint=f"it has: {', '.join(self._loaded)}"
            )
        return loaded

    def _at(self, address: int, size: int) -> LoadedNetwork:
        """The topmost network whose pools hold the range, preferring one with a buffer there."""
        mapped = [net for net in self._layers if net.maps(address, size)]
        if not mapped:
            raise DeviceError(
                f"{size} bytes at {address:#x} are outside of the program's pools",
                hint="read and write inside one pool",
            )
        return next((net for net in mapped if net.overlaps(address, size)), mapped[0])


def simulated_info(machine: Machine, networks: tuple[NetworkDesc, ...]) -> DeviceInfo:
    """What a simulated board says of itself."""
    clocks = machine.clocks
    hertz = (clocks.mcu_mhz, clocks.noc_mhz, clocks.npu_mhz, clocks.nic_mhz)
    return DeviceInfo(
        description=f"{machine.name} @{clocks.mcu_mhz:g}/{clocks.noc_mhz:g}MHz, {SIMULATED}",
        protocol=f"npuscope {__version__} {SIMULATED}",
        device_id=STM32N6,
        clocks=BoardClocks(*(round(mhz * 1e6) for mhz in hertz)),
        npu_cache=machine.cache.size_bytes > 0,
        capabilities=("IO_ONLY", "PER_LAYER", "PER_LAYER_WITH_DATA"),
        networks=networks,
        core=tuple(CORE_BITS),
        link_checked=True,
    )


class LoadedNetwork:
    """A program with its memory as the last inference left it."""

    def __init__(
        self, program: Program, machine: Machine, seed: int, blob_fetch: bool, compiled: str
    ) -> None:
        self.program = program
        self.memory = Memory(program)
        self._seed = seed
        self._constants = dict(program.constants)
        self._runtime = Runtime(program, machine, blob_fetch=blob_fetch)
        self.desc = replace(network_desc(program, len(self._runtime.blocks)), compiled=compiled)
        self._pools = program.pool_map()
        self._last: tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]] | None = None
        # What lies where no buffer does.
        self._images = [MemoryRegion(p.address, p.address + p.size_bytes) for p in program.pools]

    def outputs(self, inputs: tuple[np.ndarray, ...] | None) -> tuple[np.ndarray, ...]:
        """A program that cannot be executed is still timed, with inputs of its own only."""
        try:
            return self._executed(self._own_inputs() if inputs is None else inputs)
        except TargetError:
            if inputs is not None:
                raise
            return ()

    def block_tensors(self, inputs: tuple[np.ndarray, ...] | None) -> tuple[NodeTensors, ...]:
        """By block: what its last epoch wrote; what came before is gone when the block ends."""
        blocks = self._runtime.blocks
        tensors: dict[int, NodeTensors] = {block.last_number: () for block in blocks}

        def keep(epoch: Epoch, memory: Memory) -> None:
            if epoch.last_number in tensors:
                # Tables of other compilers list parts of a buffer under the shape of the whole.
                names = [n for n in written(epoch) if _holds_its_shape(memory.buffer(n))]
                rows = [
                    (_tensor(self.program, name), _as_sent(memory.buffer(name), memory.read(name)))
                    for name in names
                ]
                tensors[epoch.last_number] = tuple(rows)

        values = self._own_inputs() if inputs is None else inputs
        program = replace(self.program, constants=self._constants)
        execute(program, self._named(values), observe=keep)
        return tuple(tensors[block.last_number] for block in blocks)

    def count(self, options: CounterOption) -> tuple[NodeCounters, ...]:
        instrument = Instrument(options)
        self._runtime.on_epoch = instrument
        with self._runtime:
            self._runtime.infer()
        return tuple(instrument.nodes)

    def _executed(self, inputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """The same inputs give the same outputs: a profile's passes run the data once."""
        if self._last is not None and _same(self._last[0], inputs):
            return self._last[1]
        program = replace(self.program, constants=self._constants)
        results = execute(program, self._named(inputs), observe=self._keep).outputs
        buffers = program.buffer_map()
        outputs = tuple(_as_sent(buffers[name], results[name]) for name in program.outputs)
        self._last = tuple(np.array(value) for value in inputs), outputs
        return outputs

    def _keep(self, epoch: Epoch, memory: Memory) -> None:
        self.memory = memory

    def _named(self, inputs: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        names, buffers = self.program.inputs, self.program.buffer_map()
        if len(inputs) != len(names):
            raise UsageError(
                f"{len(inputs)} inputs given, the network has {len(names)}", where=self.program.name
            )
        values = map(np.asarray, inputs)
        return {
            name: from_stored(buffers[name], v) if v.size == np.prod(buffers[name].shape) else v
            for name, v in zip(names, values, strict=True)
        }

    def _own_inputs(self) -> tuple[np.ndarray, ...]:
        random, buffers = np.random.default_rng(self._seed), self.program.buffer_map()
        inputs = (buffers[name] for name in self.program.inputs)
        return tuple(random_values(random, element_type(b), memory_shape(b)) for b in inputs)

    # Memory by address.

    def maps(self, address: int, size: int) -> bool:
        return self._image(address, size) is not None

    def overlaps(self, address: int, size: int) -> bool:
        return bool(self._parts(address, size))

    def read(self, address: int, size: int) -> bytes:
        data = self._span(address, size).copy()
        for _, low, high in self._parts(address, size):
            data[low - address : high - address] = self.memory.span(low, high - low)
        return data.tobytes()

    def write(self, address: int, data: bytes) -> None:
        """Weights written here count from the next inference on."""
        values = np.frombuffer(data, np.uint8)
        self._span(address, len(data))[:] = values
        for buffer, low, high in self._parts(address, len(data)):
            self.memory.span(low, high - low)[:] = values[low - address : high - address]
            if buffer.is_param:
                start = self._address(buffer)
                self._constants[buffer.name] = self.memory.span(start, buffer.size_bytes).copy()
                self._last = None

    def _image(self, address: int, size: int) -> MemoryRegion | None:
        inside = (r for r in self._images if r.start <= address and address + size <= r.end)
        return next(inside, None)

    def _span(self, address: int, size: int) -> np.ndarray:
        image = self._image(address, size)
        if image is None:
            raise DeviceError(f"{size} bytes at {address:#x} are in no pool")
        return image.bytes()[address - image.start :][:size]

    def _address(self, buffer: Buffer) -> int:
        return self._pools[buffer.pool].address + buffer.offset

    def _parts(self, address: int, size: int) -> list[tuple[Buffer, int, int]]:
        """Buffers inside a range, with the part of it that they cover."""
        placed = ((b, self._address(b)) for b in self.program.buffers)
        cut = ((b, max(a, address), min(a + b.size_bytes, address + size)) for b, a in placed)
        return [(buffer, low, high) for buffer, low, high in cut if low < high]


def _as_sent(buffer: Buffer, values: np.ndarray) -> np.ndarray:
    """A board sends bytes as they lie in memory."""
    return to_stored(buffer, values).reshape(memory_shape(buffer))


def _same(one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...]) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in pairs)


def network_desc(program: Program, nodes: int) -> NetworkDesc:
    params = sum(b.size_bytes for b in program.buffers if b.is_param)
    return NetworkDesc(
        program.name,
        tuple(_tensor(program, name) for name in program.inputs),
        tuple(_tensor(program, name) for name in program.outputs),
        nodes,
        activations_bytes=sum(p.used_bytes for p in program.pools if p.writable and not p.virtual),
        params_bytes=params,
        signature=program.model_md5,
        runtime=f"npuscope {__version__} {SIMULATED}",
        tools=f"npuscope {__version__}" if program.source == "npuscope" else program.source,
    )


def _holds_its_shape(buffer: Buffer) -> bool:
    return prod(buffer.shape) * buffer.nbits <= buffer.size_bytes * 8


def _tensor(program: Program, name: str) -> TensorDesc:
    buffer = program.buffer_map()[name]
    quant, pool = buffer.quant, program.pool_map().get(buffer.pool)
    return TensorDesc(
        name,
        memory_shape(buffer),
        element_type(buffer).name,
        quant.scale if quant else 0.0,
        quant.zero_point if quant else 0,
        pool.address + buffer.offset if pool else 0,
        "activations" if pool else "user",
    )
