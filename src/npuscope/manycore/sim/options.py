"""What is asked of a run, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.manycore.records import UTIMER_HZ
from npuscope.manycore.stats import Stats


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Samples are inferences whose records are kept: from an iteration on, after a delay."""

    iterations: int = 1
    samples: int = 1
    start_iteration: int = 0
    start_delay_ms: float = 0.0
    seed: int = 0
    stats_overhead: bool = False
    devices: tuple[int, ...] = ()  # numbers of the devices; from 0 on where none are given
    collect: bool = True  # device records, not only what the host sees


@dataclass(frozen=True, slots=True)
class Iteration:
    """One inference as the host sees it, in ticks of the common timer."""

    number: int
    enqueued: float
    submitted: float
    input_begin: float
    doorbell: float
    device_start: int
    device_end: int
    output_begin: float
    output_end: float
    answered: float  # the host takes up the interrupt
    completed: float
    input_wait: float
    output_wait: float
    queued: int  # inferences before it that had not completed

    @property
    def exec_us(self) -> float:
        return to_us(self.device_end - self.device_start)

    @property
    def input_wait_us(self) -> float:
        return to_us(self.input_wait)

    @property
    def output_wait_us(self) -> float:
        return to_us(self.output_wait)


@dataclass(frozen=True, slots=True)
class RunResult:
    """`stats` has one value a device and sample, `sampled` the iterations they belong to."""

    iterations: tuple[Iteration, ...]
    sampled: tuple[int, ...]
    stats: tuple[Stats, ...]
    utc_ns: int  # of timer tick 0
    notes: tuple[str, ...] = ()

    @property
    def total_us(self) -> float:
        """From the first request to the last answer."""
        return to_us(self.iterations[-1].completed - self.iterations[0].enqueued)


def to_us(ticks: float) -> float:
    return ticks * 1e6 / UTIMER_HZ


def to_ticks(us: float) -> float:
    return us * UTIMER_HZ / 1e6
