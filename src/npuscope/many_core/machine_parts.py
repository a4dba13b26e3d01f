"""Parts of a CoreMachine, as its TOML lists them; there stand the sources of all numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from npuscope.machine.marks import (
    Bytes,
    Count,
    Cycles,
    Elements,
    Mhz,
    Micros,
    Range,
    Rate,
    Room,
    Some,
)

Thread = Annotated[int, Range(0, 63)]
Ticks = Annotated[int, Range(0, 1 << 32)]


@dataclass(frozen=True, slots=True)
class Cores:
    count: Annotated[int, Range(1, 32)]  # masks of receivers have as many bits
    hvx_threads: tuple[Thread, ...]
    hmx_thread: Thread
    dma_thread: Thread


@dataclass(frozen=True, slots=True)
class Memory:
    vtcm_bytes: Bytes
    vtcm_alignment_bytes: Bytes
    l2_bytes: Room
    l2tcm_bytes: Room
    weight_chunk_bytes: Bytes
    keep_constant_bytes: Room
    multicast_min_bytes: Room
    multicast_entries: Count
    semaphores: Some
    prefetch: Count


@dataclass(frozen=True, slots=True)
class Clocks:
    utimer_hz: Annotated[int, Range(1_000, 1 << 40)]
    core_mhz: Mhz
    dvfs_mhz: tuple[Mhz, ...]
    dvfs_period_us: Annotated[float, Range(0.001, 1e9)]


@dataclass(frozen=True, slots=True)
class Hmx:
    int8_macs_per_cycle: Elements
    float16_macs_per_cycle: Elements
    reduction_block: Elements
    start_cycles: Cycles


@dataclass(frozen=True, slots=True)
class Ddr:
    peak_gb_per_s: Rate
    effective_gb_per_s: Rate
    latency_us: Micros


@dataclass(frozen=True, slots=True)
class Noc:
    gb_per_s: Rate
    latency_us: Micros


@dataclass(frozen=True, slots=True)
class Dma:
    ddr_ucycles_per_kb: Rate
    multicast_ucycles_per_kb: Rate
    issue_cycles: Cycles
    max_bytes: Bytes


@dataclass(frozen=True, slots=True)
class Host:
    gb_per_s: Rate
    latency_us: Micros
    submit_us: Micros
    complete_us: Micros
    queue_depth: Some


@dataclass(frozen=True, slots=True)
class Peer:
    gb_per_s: Rate
    latency_us: Micros


@dataclass(frozen=True, slots=True)
class StatsCost:
    """Spreads of a real run, and what storing records costs."""

    start_skew_ticks: Ticks
    end_spread: Annotated[float, Range(0, 1)]
    end_ticks: tuple[Ticks, ...]
    activate_ticks: tuple[Ticks, ...]
    record_cycles: Cycles


@dataclass(frozen=True, slots=True)
class Sync:
    barrier_cycles: Cycles
    semaphore_cycles: Cycles
