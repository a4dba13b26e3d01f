"""Milliseconds of epochs by kind of work, on this machine or on another one."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from npuscope.machine.model import Machine
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.sim.counters import EpochCounters
from npuscope.sim.epochs import count_work
from npuscope.sim.program_work import ProgramWork, program_work
from npuscope.structs import replace

_NO_WAIT_BYTES = 1e9  # a road so wide that nothing waits for it


class Times(Struct, frozen=True):
    """They add up to the time of an epoch, or of several."""

    work_ms: float = 0.0  # units of the NPU, as if no memory made them wait
    wait_ms: float = 0.0  # what memory adds to that
    control_ms: float = 0.0
    software_ms: float = 0.0  # kernels on the CPU and library calls

    @property
    def total_ms(self) -> float:
        return self.work_ms + self.wait_ms + self.control_ms + self.software_ms

    def __add__(self, other: Times) -> Times:
        return Times(
            self.work_ms + other.work_ms,
            self.wait_ms + other.wait_ms,
            self.control_ms + other.control_ms,
            self.software_ms + other.software_ms,
        )


def summed(times: Iterable[Times]) -> Times:
    return sum(times, Times())


class EpochTimer(Struct, frozen=True):
    """A program's work, prepared once: machines that differ in timing keys share it."""

    real: ProgramWork
    ideal: ProgramWork  # with memories that are never in the way

    def times(self, machine: Machine) -> tuple[Times, ...]:
        """One entry per executed epoch."""
        real = count_work(self.real, machine)
        ideal = count_work(self.ideal, without_waiting(machine))
        rows = zip(self.real.epochs, real, ideal, strict=True)
        return tuple(
            _times(work.epoch, counters, least.core_cycles, machine)
            for work, counters, least in rows
        )


def epoch_timer(program: Program, machine: Machine) -> EpochTimer:
    return EpochTimer(
        program_work(program, machine), program_work(program, without_waiting(machine))
    )


def _times(epoch: Epoch, real: EpochCounters, least: float, machine: Machine) -> Times:
    mcu, npu = machine.clocks.mcu_mhz * 1000, machine.clocks.npu_mhz * 1000
    around = (real.pre_cycles + real.post_cycles) / mcu
    if epoch.kind is not EpochKind.HW:
        return Times(software_ms=around + real.core_cycles / npu)
    in_blob = epoch.blob is not None
    started = machine.generation.control.controller_cycles if in_blob else 0.0
    work = max(0.0, min(least, real.core_cycles) - started)
    wait = real.core_cycles - started - work
    return Times(work / npu, wait / npu, around + started / npu)


def without_waiting(machine: Machine) -> Machine:
    """The same units with memories that are never in their way."""
    paths = {
        name: replace(path, bytes_per_cycle=_NO_WAIT_BYTES, access=0.0)
        for name, path in machine.paths.items()
    }
    pools = tuple(replace(pool, cacheable=False) for pool in machine.pools)
    return replace(machine, paths=paths, pools=pools)
