"""Parts of a CoreMachine, as its TOML lists them; there stand the sources of all numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cores:
    count: int
    hvx_threads: tuple[int, ...]
    hmx_thread: int
    dma_thread: int


@dataclass(frozen=True, slots=True)
class Memory:
    vtcm_bytes: int
    vtcm_alignment_bytes: int
    l2_bytes: int
    l2tcm_bytes: int
    weight_chunk_bytes: int
    keep_constant_bytes: int
    multicast_min_bytes: int
    multicast_entries: int
    semaphores: int
    prefetch: int


@dataclass(frozen=True, slots=True)
class Clocks:
    utimer_hz: int
    core_mhz: float
    dvfs_mhz: tuple[float, ...]
    dvfs_period_us: float


@dataclass(frozen=True, slots=True)
class Hmx:
    int8_macs_per_cycle: int
    float16_macs_per_cycle: int
    reduction_block: int
    start_cycles: float


@dataclass(frozen=True, slots=True)
class Ddr:
    peak_gb_per_s: float
    effective_gb_per_s: float
    latency_us: float


@dataclass(frozen=True, slots=True)
class Noc:
    gb_per_s: float
    latency_us: float


@dataclass(frozen=True, slots=True)
class Dma:
    ddr_ucycles_per_kb: float
    multicast_ucycles_per_kb: float
    issue_cycles: float
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Host:
    gb_per_s: float
    latency_us: float
    submit_us: float
    complete_us: float
    queue_depth: int


@dataclass(frozen=True, slots=True)
class Peer:
    gb_per_s: float
    latency_us: float


@dataclass(frozen=True, slots=True)
class StatsCost:
    """Spreads of a real run, and what storing records costs."""

    start_skew_ticks: int
    end_spread: float
    end_ticks: tuple[int, ...]
    activate_ticks: tuple[int, ...]
    record_cycles: float


@dataclass(frozen=True, slots=True)
class Sync:
    barrier_cycles: float
    semaphore_cycles: float
