"""What the device counts while an epoch runs: cycles by phase, engines, bursts, cache."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Bound(Enum):
    """The port or resource that sets an epoch's time (its choked port)."""

    FEATURES = "features"
    WEIGHTS = "weights"
    OUTPUT = "output"
    ACCUMULATOR = "accumulator"
    ARITH_VECTOR = "arith_vector"
    BANK = "bank"
    BUSIF = "busif"
    FLASH = "flash"
    EXTERNAL_RAM = "external_ram"
    CPU = "cpu"
    CONTROL = "control"
    UNKNOWN = "unknown"  # counted on a device, without the program that ran


@dataclass(frozen=True, slots=True)
class EngineActivity:
    """One stream engine: how long it was not stalled, and what it moved where."""

    id: int
    dir: str  # "i" memory to NPU, "o" NPU to memory
    busif: int
    active_cycles: int
    pool: str
    bytes: int


@dataclass(frozen=True, slots=True)
class BusTraffic:
    """Bursts on one bus interface, counted by length: 1, 2, 4 and 8 beats of 8 bytes."""

    id: int
    read_bursts: tuple[int, int, int, int]
    write_bursts: tuple[int, int, int, int]

    @property
    def read_bytes(self) -> int:
        return _burst_bytes(self.read_bursts)

    @property
    def write_bytes(self) -> int:
        return _burst_bytes(self.write_bursts)


def _burst_bytes(bursts: tuple[int, int, int, int]) -> int:
    return sum(8 * beats * count for beats, count in zip((1, 2, 4, 8), bursts, strict=True))


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """NPU cache monitors of one epoch."""

    read_hit: int = 0
    read_miss: int = 0
    read_alloc_miss: int = 0
    read_evict: int = 0
    write_hit: int = 0
    write_miss: int = 0
    write_alloc_miss: int = 0
    write_through: int = 0


@dataclass(frozen=True, slots=True)
class PoolTraffic:
    """Bytes moved between the NPU (or CPU kernel) and one pool."""

    pool: str
    read_bytes: int
    write_bytes: int


@dataclass(frozen=True, slots=True)
class EpochCounters:
    """One epoch of one run. pre and post are MCU cycles, core is NPU cycles."""

    number: int
    last_number: int
    pre_cycles: float
    core_cycles: float
    post_cycles: float
    bound: Bound
    engines: tuple[EngineActivity, ...] = ()
    busif: tuple[BusTraffic, ...] = ()
    cache: CacheCounts = CacheCounts()
    traffic: tuple[PoolTraffic, ...] = ()
