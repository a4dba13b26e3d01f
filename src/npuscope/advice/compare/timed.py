"""Milliseconds of a program's epochs by kind of work, on this machine or on another one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from npuscope.machine.model import Machine, MemoryPool, Path
from npuscope.profile.model import EpochProfile
from npuscope.profile.run import estimate
from npuscope.program.model import EpochKind, Program

_NO_WAIT_BYTES = 1e9  # a road so wide that nothing waits for it


@dataclass(frozen=True, slots=True)
class Times:
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


def epoch_times(program: Program, machine: Machine) -> tuple[Times, ...]:
    """One entry an executed epoch."""
    real = estimate(program, machine).epochs
    ideal = estimate(program, without_waiting(machine)).epochs
    return tuple(_times(*pair, machine) for pair in zip(real, ideal, strict=True))


def _times(epoch: EpochProfile, ideal: EpochProfile, machine: Machine) -> Times:
    real, least = epoch.counters, ideal.counters.core_cycles
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
    paths = {name: _wide(path) for name, path in machine.paths.items()}
    pools = tuple(_inside(pool) for pool in machine.pools)
    return replace(machine, paths=paths, pools=pools)


def _wide(path: Path) -> Path:
    return replace(path, bytes_per_cycle=_NO_WAIT_BYTES, access=1.0)


def _inside(pool: MemoryPool) -> MemoryPool:
    return replace(pool, cacheable=False)
