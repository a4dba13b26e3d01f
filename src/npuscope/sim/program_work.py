"""What a Program has to do, epoch by epoch, ready to be timed on one machine after another.

All of it follows from the Program and from the machine's mapping keys; timing keys only come in
when sim/epochs.py counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from npuscope.machine.model import Machine
from npuscope.program.geometry import copies_of
from npuscope.program.model import Buffer, Call, Epoch, EpochKind, Program
from npuscope.program.units import Streng
from npuscope.sim.counters import PoolTraffic
from npuscope.sim.group_work import GroupWork, group_work
from npuscope.sim.memory import Bank, Banks
from npuscope.sim.software import ControlWork, control_works


@dataclass(frozen=True, slots=True)
class SoftwareWork:
    """A kernel on the CPU and how many elements it handles."""

    kernel: str
    elements: int


@dataclass(frozen=True, slots=True)
class ClaimedWork:
    """No unit registers: the compiler's computation, and the bytes by pool."""

    compute_cycles: float
    moved: tuple[tuple[str, float, int], ...]  # pool, its own cycles a byte, bytes


HardwareWork = tuple[GroupWork, ...]


@dataclass(frozen=True, slots=True)
class EpochWork:
    epoch: Epoch
    work: HardwareWork | SoftwareWork | ClaimedWork
    control: ControlWork
    traffic: tuple[PoolTraffic, ...]


@dataclass(frozen=True, slots=True)
class ProgramWork:
    epochs: tuple[EpochWork, ...]
    banks: dict[str, Bank]


def program_work(program: Program, machine: Machine, banks: Banks | None = None) -> ProgramWork:
    banks = banks or Banks(program, machine)
    buffers = program.buffer_map()
    pairs = zip(program.executed, control_works(program), strict=True)
    epochs = tuple(_work(epoch, control, program, banks, buffers) for epoch, control in pairs)
    return ProgramWork(epochs, banks.by_name())


def _work(
    epoch: Epoch, control: ControlWork, program: Program, banks: Banks, buffers: dict[str, Buffer]
) -> EpochWork:
    if epoch.kind in (EpochKind.SW, EpochKind.HYBRID):
        traffic = _call_traffic(epoch.call, banks, buffers) if epoch.call else ()
        return EpochWork(epoch, _software(epoch.call, buffers), control, traffic)
    if epoch.groups is None:
        stated = tuple(PoolTraffic(a.pool, a.reads, a.writes) for a in epoch.claims.accesses)
        return EpochWork(epoch, _claimed(epoch, program), control, stated)
    groups = tuple(group_work(group, banks) for group in epoch.groups)
    return EpochWork(epoch, groups, control, _traffic(epoch, banks))


def _claimed(epoch: Epoch, program: Program) -> ClaimedWork:
    pools = program.pool_map()
    moved = []
    for access in epoch.claims.accesses:
        pool = pools[access.pool]
        rate = pool.freq_ratio / pool.byte_width
        moved.append((pool.name, rate, access.reads + access.writes))
    return ClaimedWork(float(epoch.claims.compute_cycles), tuple(moved))


def _software(call: Call | None, buffers: dict[str, Buffer]) -> SoftwareWork:
    if call is None:
        return SoftwareWork("default", 0)
    copies = copies_of(call)
    if copies:
        return SoftwareWork(call.kernel, sum(copy.elements for copy in copies))
    names = [name for name in (*call.inputs, *call.outputs) if name]
    shapes = [buffers[name].shape for name in names if not buffers[name].is_param]
    if not shapes or not shapes[0]:
        return SoftwareWork(call.kernel, 0)
    elements = max(prod(shape) for shape in shapes)
    rows = elements // max(1, shapes[0][-1])
    many = call.kernel == "Softmax" and rows > 1
    return SoftwareWork("SoftmaxRows" if many else call.kernel, elements)


Moved = tuple[str, int, int]  # bank, direction, bytes


def _call_traffic(call: Call, banks: Banks, buffers: dict[str, Buffer]) -> tuple[PoolTraffic, ...]:
    copies = copies_of(call)
    if copies:
        return _summed(
            (banks.of_buffer(name).name, way, copy.elements * copy.element_bytes)
            for copy in copies
            for name, way in ((call.inputs[copy.source], 0), (call.outputs[0], 1))
        )
    reads = [name for name in call.inputs if name]
    return _summed(
        (banks.of_buffer(name).name, way, buffers[name].size_bytes)
        for names, way in ((reads, 0), (call.outputs, 1))
        for name in names
    )


def _traffic(epoch: Epoch, banks: Banks) -> tuple[PoolTraffic, ...]:
    engines = (unit for unit in epoch.units if isinstance(unit, Streng))
    return _summed((banks.of(engine).name, engine.dir, engine.total_bytes) for engine in engines)


def _summed(moves: Iterable[Moved]) -> tuple[PoolTraffic, ...]:
    found: dict[str, list[int]] = {}
    for bank, way, moved in moves:
        found.setdefault(bank, [0, 0])[way] += moved
    return tuple(PoolTraffic(bank, read, write) for bank, (read, write) in found.items())
