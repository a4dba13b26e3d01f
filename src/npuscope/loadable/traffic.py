"""Who reads and who writes which bytes, epoch by epoch: the NPU or the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from npuscope.program.model import Buffer, Epoch, EpochKind, Program
from npuscope.program.units import Ref, Streng


class Agent(Enum):
    NPU = "NPU"
    CPU = "CPU"


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int

    def touches(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Access:
    """`position` counts epochs in the order in which they run."""

    position: int
    agent: Agent
    writes: bool
    span: Span


class Traffic:
    """The accesses of a program, by absolute address. Memory is used again, so time counts."""

    def __init__(self, program: Program) -> None:
        self._pools = {pool.name: pool.address for pool in program.pools}
        self._buffers = program.buffer_map()
        self.accesses = tuple(
            access
            for position, epoch in enumerate(program.executed)
            for access in self._of_epoch(position, epoch)
        )

    def span_of(self, buffer: Buffer, offset: int = 0) -> Span:
        start = self._pools.get(buffer.pool, 0) + buffer.offset
        return Span(start + offset, start + buffer.size_bytes)

    def read_by_npu(self, span: Span, after: int) -> bool:
        """Whether the NPU reads the bytes behind an epoch, before they are replaced."""
        for access in self.accesses:
            if access.position > after and access.span.touches(span):
                if access.writes:
                    return False
                if access.agent is Agent.NPU:
                    return True
        return False

    def writer(self, span: Span, before: int) -> Agent | None:
        """Who wrote the bytes last ahead of an epoch; None where nobody did."""
        writes = [a for a in self.accesses if a.writes and a.position < before]
        return next((a.agent for a in reversed(writes) if a.span.touches(span)), None)

    def _of_epoch(self, position: int, epoch: Epoch) -> Iterator[Access]:
        """Reads come before writes: an epoch may work in place."""
        agent = Agent.CPU if epoch.kind is EpochKind.SW else Agent.NPU
        reads, writes = self._touched(epoch)
        yield from (Access(position, agent, False, span) for span in reads)
        yield from (Access(position, agent, True, span) for span in writes)

    def _touched(self, epoch: Epoch) -> tuple[list[Span], list[Span]]:
        if epoch.groups is None and epoch.call is None:
            return self._by_lifetime(epoch)
        call = epoch.call
        engines = [unit for unit in epoch.units if isinstance(unit, Streng)]
        reads = [Ref(name) for name in (call.inputs if call else ())]
        writes = [Ref(name) for name in (call.outputs if call else ())]
        reads += [unit.addr_base for unit in engines if not unit.dir]
        writes += [unit.addr_base for unit in engines if unit.dir]
        return self._spans(reads), self._spans(writes)

    def _by_lifetime(self, epoch: Epoch) -> tuple[list[Span], list[Span]]:
        """Without registers: what is born in an epoch is written there, what ends is read."""
        live = [b for b in self._buffers.values() if not b.is_param and not b.view_of]
        reads = [b for b in live if b.first < epoch.number <= b.last]
        writes = [b for b in live if epoch.number <= b.first <= epoch.last_number]
        return [self.span_of(b) for b in reads], [self.span_of(b) for b in writes]

    def _spans(self, places: list[Ref]) -> list[Span]:
        known = [place for place in places if place.buffer in self._buffers]
        return [self.span_of(self._buffers[place.buffer], place.offset) for place in known]
