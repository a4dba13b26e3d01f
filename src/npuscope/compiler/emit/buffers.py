"""Buffers of a program under construction, how their frames are laid out in memory, and the units,
engines and links of one epoch."""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec import Struct, field
from msgspec.structs import asdict

from npuscope.compiler.joining import root
from npuscope.compiler.stages import Lowered, Value
from npuscope.errors import TargetError
from npuscope.graph.model import Graph, Tensor
from npuscope.machine.model import Machine
from npuscope.program.model import Buffer, Group
from npuscope.program.units import Link, Port, Ref, Streng, Unit
from npuscope.structs import replace

# --- Buffers: activations that cross epochs, parameters, scratch ---

Array = np.ndarray


class BufferTable:
    """Makes each buffer once, widens its lifetime at every use."""

    def __init__(self, lowered: Lowered, graph: Graph, batches: dict[str, int]) -> None:
        self.lowered = lowered
        self.graph = graph
        self.batches = batches  # channels that lie together, of values stored frame by frame
        self.buffers: dict[str, Buffer] = {}
        self.lives: dict[str, tuple[int, int]] = {}  # first and last epoch by name
        self.constants: dict[str, Array] = {}

    def activation(self, value: Value, epoch: int) -> Buffer:
        """The buffer that holds the value (or what it is a view of), alive in `epoch`."""
        constant = self.lowered.constants.get(value.name)
        if constant is not None and constant.data is not None:
            return self.parameter(value.name, constant.data, constant)
        origin = root(self.lowered, value)
        if origin.name not in self.buffers:
            self.buffers[origin.name] = self._of_value(origin, view_of="")
        if value.name not in self.buffers:
            self.buffers[value.name] = self._of_value(value, view_of=origin.name)
        first, last = self.lives.get(origin.name, (epoch, epoch))
        self.lives[origin.name] = (min(first, epoch), max(last, epoch))
        return self.buffers[origin.name]

    def laid_out(self, value: Value) -> Value:
        """The value as it lies in memory."""
        batch = self.batches.get(value.name)
        return replace(value, batch=batch) if batch else value

    def scratch(self, name: str, shape: tuple[int, int, int], nbits: int, epoch: int) -> Buffer:
        """Working memory of one epoch; it lives on into the next one."""
        size_bytes = shape[0] * shape[1] * shape[2] * nbits // 8
        self.buffers[name] = Buffer(name, size_bytes, (1, *shape), nbits, shape[2])
        self.lives[name] = (epoch, epoch + 1)
        return self.buffers[name]

    def parameter(
        self,
        name: str,
        data: Array,
        quant_of: Tensor | None = None,
        coefficients: bool = False,
    ) -> Buffer:
        """A constant in the weights' pool; bytes are little endian."""
        if name not in self.buffers:
            shape = data.shape or (1,)
            self.constants[name] = np.ascontiguousarray(data)
            self.buffers[name] = Buffer(
                name,
                data.nbytes,
                shape,
                data.dtype.itemsize * 8,
                shape[-1],
                is_param=True,
                is_float=data.dtype.kind == "f",
                signed=data.dtype.kind != "u",
                quant=quant_of.quant if quant_of else None,
                tensor=quant_of.name if quant_of else "",
                coefficients=coefficients,
            )
        return self.buffers[name]

    def coefficients(self, name: str, data: Array) -> Buffer:
        """Vectors and tables that the CPU writes into a unit before an epoch starts."""
        return self.parameter(name, data, coefficients=True)

    def finished(self) -> dict[str, Buffer]:
        """All buffers with their lifetimes; views live as long as what they show."""
        last = max((end for _, end in self.lives.values()), default=0)
        always = (0, last)
        return {
            name: buffer.living(*self.lives.get(buffer.view_of or name, always))
            for name, buffer in self.buffers.items()
        }

    def _of_value(self, value: Value, view_of: str) -> Buffer:
        tensor = self.graph.tensors.get(value.tensor)
        same_size = tensor is not None and tensor.elements == value.elements
        shape = (tensor.shape or (1,)) if tensor is not None and same_size else (1, *value.shape)
        return Buffer(
            value.name,
            value.size_bytes,
            shape,
            value.nbits,
            value.batch or shape[-1],
            is_float=value.is_float,
            signed=value.signed,
            quant=value.quant,
            tensor=value.tensor,
            view_of=view_of,
        )


# --- Stream-engine geometry: how a value's frames are laid out in memory ---


class Walk(Struct, frozen=True):
    """The fields of a raster engine that visits frames of a value."""

    fwidth: int
    fheight: int
    batch_depth: int
    batch_offset: int
    line_offset: int
    frame_offset: int
    frame_loop_cnt: int
    loop_offset: int
    frame_tot_cnt: int
    offset_start: int = 0


def channel_frames(
    value: Value,
    depth: int,
    *,
    first: int = 0,
    step: int | None = None,
    loop: int = 0,
    total: int | None = None,
) -> Walk:
    """Frames of `depth` channels over the whole map.

    Frame i starts at channel first + i * step; with `loop` the walk starts over after that
    many frames, so the same channels are read again for the next tile.
    """
    height, width, channels = value.shape
    element = value.nbits // 8
    step = depth if step is None else step
    batch = value.stored_batch
    return Walk(
        width,
        height,
        depth,
        batch * element,
        0,
        _channel_offset(value, value.first + step) - _channel_offset(value, value.first),
        loop,
        0,
        channels // depth if total is None else total,
        value.skip * element + _channel_offset(value, value.first + first),
    )


def _channel_offset(value: Value, channel: int) -> int:
    """Bytes from channel 0 to `channel`, where channels are stored in blocks of `batch`."""
    height, width, _ = value.shape
    batch, element = value.stored_batch, value.nbits // 8
    block, inside = divmod(channel, batch)
    return (block * height * width * batch + inside) * element


# --- One epoch's units, engines and switch links from its stages ---


class StreamSource(Struct, frozen=True):
    """Where a stream comes from; of every `drop + 1` frames only the last is passed on."""

    port: Port
    drop: int = 0


class EpochBuilder(Struct):
    """Collects the units of one epoch. Input engines count up, output engines down."""

    machine: Machine
    buffers: BufferTable
    number: int
    units: list[Unit] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    sources: dict[str, StreamSource] = field(default_factory=dict)  # value name -> its stream
    used: Counter[str] = field(default_factory=Counter)

    def take(self, unit: str) -> int:
        """The next free unit of a type."""
        number = self.used[unit]
        if number >= self.machine.units[unit]:
            raise TargetError(
                f"the epoch needs more {unit} units than the machine has ({number})",
                where=f"epoch {self.number}",
                hint=f"the program was compiled for more of them: set a larger units.{unit}",
            )
        self.used[unit] += 1
        return number

    def add(self, unit: Unit) -> Port:
        self.units.append(unit)
        return Port(unit.unit, unit.id)

    def connect(self, source: StreamSource, destination: Port) -> None:
        if source.drop:
            link = Link(source.port, destination, False, source.drop, True, 1)
        else:
            link = Link(source.port, destination)
        self.links.append(link)

    def engine_in(self, buffer: Buffer, walk: Walk, **fields: int) -> StreamSource:
        """A raster engine from memory."""
        return self._reader(buffer, {**asdict(walk), **fields})

    def raw_engine_in(self, buffer: Buffer, **fields: int) -> StreamSource:
        """An engine that reads a buffer from end to end, frame after frame."""
        return self._reader(
            buffer, {"raw": 1, "continuous": 1, "offset_end": buffer.size_bytes, **fields}
        )

    def _reader(self, buffer: Buffer, fields: dict[str, int]) -> StreamSource:
        # Constants come from external memory: cacheable, and not allocated, as they are read once.
        cacheable = int(buffer.is_param)
        self.take("STRENG")
        self.used["in"] += 1
        engine = Streng(
            id=self.used["in"] - 1, dir=0, addr_base=Ref(buffer.name), cacheable=cacheable, **fields
        )
        return StreamSource(self.add(engine))

    def engine_out(self, source: StreamSource, buffer: Buffer, walk: Walk, nbits: int) -> None:
        self.take("STRENG")
        self.used["out"] += 1
        engine = Streng(
            id=self.machine.units["STRENG"] - self.used["out"],
            dir=1,
            addr_base=Ref(buffer.name),
            nbits_in=nbits,
            nbits_out=nbits,
            **asdict(walk),
        )
        self.connect(source, self.add(engine))

    def read(self, value: Value, walk: Walk, **fields: int) -> StreamSource:
        """Stream a value from memory."""
        return self.engine_in(self.buffers.activation(value, self.number), walk, **fields)

    def group(self) -> Group:
        return Group(tuple(self.units), tuple(self.links))

    @property
    def next_output(self) -> int:
        """Number of the engine that the next `engine_out` will take."""
        return self.machine.units["STRENG"] - self.used["out"] - 1
