"""One epoch's units, engines and switch links from its stages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from npuscope.compiler.emit.buffers import BufferTable
from npuscope.compiler.emit.engines import Walk
from npuscope.compiler.stages import Value
from npuscope.errors import TargetError
from npuscope.machine.model import Machine
from npuscope.program.model import Buffer, Group
from npuscope.program.units import Link, Port, Ref, Streng, Unit


@dataclass(frozen=True, slots=True)
class Source:
    """Where a stream comes from; of every `drop + 1` frames only the last is passed on."""

    port: Port
    drop: int = 0


@dataclass(slots=True)
class EpochBuilder:
    """Collects the units of one epoch. Input engines count up, output engines down."""

    machine: Machine
    buffers: BufferTable
    number: int
    units: list[Unit] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)  # value name -> its stream
    used: Counter[str] = field(default_factory=Counter)

    def take(self, unit: str) -> int:
        """The next free unit of a type."""
        number = self.used[unit]
        if number >= self.machine.units[unit]:
            raise TargetError(
                f"the epoch needs more {unit} units than the machine has ({number})",
                where=f"epoch {self.number}",
                hint=f"the lowering counts on more of them: give it a larger units.{unit}",
            )
        self.used[unit] += 1
        return number

    def add(self, unit: Unit) -> Port:
        self.units.append(unit)
        return Port(unit.unit, unit.id)

    def connect(self, source: Source, destination: Port) -> None:
        if source.drop:
            link = Link(source.port, destination, False, source.drop, True, 1)
        else:
            link = Link(source.port, destination)
        self.links.append(link)

    def engine_in(self, buffer: Buffer, walk: Walk, **fields: int) -> Source:
        """A raster engine from memory."""
        return self._reader(buffer, {**walk.fields(), **fields})

    def raw_engine_in(self, buffer: Buffer, **fields: int) -> Source:
        """An engine that reads a buffer from end to end, frame after frame."""
        return self._reader(
            buffer, {"raw": 1, "continuous": 1, "offset_end": buffer.size_bytes, **fields}
        )

    def _reader(self, buffer: Buffer, fields: dict[str, int]) -> Source:
        # Constants come from external memory: cacheable, and not allocated, as they are read once.
        cacheable = int(buffer.is_param)
        engine = Streng(
            id=self._input_id(), dir=0, addr_base=Ref(buffer.name), cacheable=cacheable, **fields
        )
        return Source(self.add(engine))

    def engine_out(self, source: Source, buffer: Buffer, walk: Walk, nbits: int) -> None:
        engine = Streng(
            id=self._output_id(),
            dir=1,
            addr_base=Ref(buffer.name),
            nbits_in=nbits,
            nbits_out=nbits,
            **walk.fields(),
        )
        self.connect(source, self.add(engine))

    def read(self, value: Value, walk: Walk, **fields: int) -> Source:
        """Stream a value from memory."""
        return self.engine_in(self.buffers.activation(value, self.number), walk, **fields)

    def group(self) -> Group:
        return Group(tuple(self.units), tuple(self.links))

    @property
    def next_output(self) -> int:
        """Number of the engine that the next `engine_out` will take."""
        return self.machine.units["STRENG"] - self.used["out"] - 1

    def _input_id(self) -> int:
        self.take("STRENG")
        self.used["in"] += 1
        return self.used["in"] - 1

    def _output_id(self) -> int:
        self.take("STRENG")
        self.used["out"] += 1
        return self.machine.units["STRENG"] - self.used["out"]
