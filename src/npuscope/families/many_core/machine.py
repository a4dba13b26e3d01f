"""CoreMachine: the many-core accelerator as data, from a TOML file in this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct

from npuscope.bounded_file import MACHINE, read_toml
from npuscope.errors import FileError, NpuscopeError, UsageError
from npuscope.families.many_core.compiler.kinds import cost_kinds
from npuscope.families.many_core.layout import CoreThread, Engine, ThreadGroup
from npuscope.machine.load import UnknownMachine
from npuscope.machine.marks import (
    Bytes,
    Count,
    Cycles,
    Elements,
    Mhz,
    Micros,
    Rate,
    Room,
    Some,
)
from npuscope.machine.schema import UNRANGED, range_faults
from npuscope.machine.set_keys import apply_overrides
from npuscope.plain_data import Range
from npuscope.records import decode, nearest

# --- Parts of a CoreMachine, as in its TOML, which states the sources of all numbers ---

ThreadNumber = Annotated[int, Range(0, 63)]
Ticks = Annotated[int, Range(0, 1 << 32)]


class Cores(Struct, frozen=True):
    count: Annotated[int, Range(1, 32)]  # masks of receivers have as many bits
    card_count: Annotated[int, Range(1, 32)]
    hvx_threads: tuple[ThreadNumber, ...]
    hmx_thread: ThreadNumber
    dma_thread: ThreadNumber


class CoreMemory(Struct, frozen=True):
    vtcm_bytes: Bytes
    vtcm_alignment_bytes: Bytes
    l2_bytes: Room
    l2tcm_bytes: Room
    tile_bytes: Bytes
    activation_share: Annotated[float, Range(0, 1)]
    weight_chunk_bytes: Bytes
    keep_constant_bytes: Room
    multicast_min_bytes: Room
    multicast_entries: Count
    semaphores: Some
    prefetch: Count


class CoreClocks(Struct, frozen=True):
    utimer_hz: Annotated[int, Range(1_000, 1 << 40)]
    core_mhz: Mhz
    dvfs_steps: tuple[Rate, ...]
    load_mhz: tuple[Mhz, ...]
    prefill_mhz: Mhz
    decode_mhz: Mhz
    dvfs_period_us: Annotated[float, Range(0.001, 1e9)]


class Hmx(Struct, frozen=True):
    int8_macs_per_cycle: Elements
    float16_macs_per_cycle: Elements
    reduction_block: Elements
    least_rows: Elements
    store_bytes_per_cycle: Elements
    start_cycles: Cycles


class Ddr(Struct, frozen=True):
    peak_gb_per_s: Rate
    effective_gb_per_s: Rate
    capacity_gb: Rate
    latency_us: Micros


class Noc(Struct, frozen=True):
    gb_per_s: Rate
    latency_us: Micros


class Dma(Struct, frozen=True):
    ddr_ucycles_per_kb: Rate
    multicast_ucycles_per_kb: Rate
    issue_cycles: Cycles
    max_bytes: Bytes


class Host(Struct, frozen=True):
    gb_per_s: Rate
    output_gb_per_s: Rate
    copy_gb_per_s: Rate
    crowding: Annotated[float, Range(0, 1)]
    fixed_us: Micros
    latency_us: Micros
    submit_us: Micros
    queue_depth: Some

    @property
    def complete_us(self) -> float:
        """From the interrupt to the caller: what is left of the fixed cost."""
        return max(self.fixed_us - self.submit_us - 2 * self.latency_us, 0.0)


class Peer(Struct, frozen=True):
    gb_per_s: Rate
    latency_us: Micros


class StatsCost(Struct, frozen=True):
    """Spreads of a real run, and what storing records costs."""

    start_skew_ticks: Ticks
    end_spread: Annotated[float, Range(0, 1)]
    end_ticks: tuple[Ticks, ...]
    activate_ticks: tuple[Ticks, ...]
    record_cycles: Cycles


class SyncCosts(Struct, frozen=True):
    hvx_barrier_share: Annotated[float, Range(0, 10)]
    hmx_barrier_share: Annotated[float, Range(0, 10)]
    dma_barrier_share: Annotated[float, Range(0, 10)]
    hand_over_cycles: Cycles
    semaphore_cycles: Cycles


class SetupCosts(Struct, frozen=True):
    """Of the sums that time a whole set-up; see setups/model.py."""

    product_share: Rate
    store_cycles_per_kb: Cycles
    depthwise_cycles_per_kb: Cycles
    depthwise_cycles_per_tap_kb: Cycles
    pool_cycles_per_tap_kb: Cycles
    layout_share: Annotated[float, Range(0, 10)]
    overlap: Annotated[float, Range(1, 100)]
    load_overlap: Annotated[float, Range(1, 100)]
    sharpness: Annotated[float, Range(1, 100)]
    tile_cycles: Cycles
    join_cycles: Cycles
    gather_cycles: Cycles
    exchange_share: Annotated[float, Range(0, 100)]
    mix_share: Annotated[float, Range(0, 100)]
    spill_share: Annotated[float, Range(0, 10)]
    room_bytes: Bytes
    room_depth_first_bytes: Bytes
    resident_bytes: Bytes
    mxfp6_ratio: Annotated[float, Range(0.01, 1)]
    mxfp6_cycles_per_kb: Cycles
    mxfp6_overlap: Annotated[float, Range(1, 100)]
    interval: tuple[Rate, ...]
    convolving_interval: tuple[Rate, ...]


class Power(Struct, frozen=True):
    """Watts of a card by what it does."""

    idle_w: Rate
    w_per_hmx: Rate  # a core whose engine is at work all the time
    w_per_hvx: Rate  # likewise
    w_per_ddr_gb: Rate  # a second
    w_per_link_gb: Rate  # a second
    interval: tuple[Rate, ...]


DEFAULT_CORE_MACHINE = "cloudai100"
HMX_KINDS = ("aicconvolutiond32", "aicconvtransposed32")
_FOLDER = Path(__file__).parent


class CoreMachine(Struct, frozen=True):
    """One device: cores, memories, roads and what ops cost."""

    name: str
    description: str
    cores: Cores
    memory: CoreMemory
    clocks: CoreClocks
    hmx: Hmx
    ddr: Ddr
    noc: Noc
    dma: Dma
    host: Host
    peer: Peer
    stats: StatsCost
    sync: SyncCosts
    setups: SetupCosts
    pcycles_per_kb: dict[str, Rate]
    power: Power | None = None  # absent where nothing was published
    chip: str = ""  # as its maker calls it

    @property
    def core_hz(self) -> int:
        return round(self.clocks.core_mhz * 1e6)

    def groups(self) -> tuple[ThreadGroup, ...]:
        """Thread groups in the order that ops are listed: HVX, HMX, DMA."""
        return (
            ThreadGroup("HVX", self.cores.hvx_threads),
            ThreadGroup("HMX", (self.cores.hmx_thread,)),
            ThreadGroup("DMAIssue", (self.cores.dma_thread,)),
        )

    def threads(self) -> tuple[CoreThread, ...]:
        rows = [
            CoreThread(thread, Engine(group.name), number)
            for number, group in enumerate(self.groups())
            for thread in group.threads
        ]
        return tuple(sorted(rows, key=lambda thread: thread.id))

    def macs_per_cycle(self, dtype: str) -> int:
        wide = dtype.startswith("float")
        return self.hmx.float16_macs_per_cycle if wide else self.hmx.int8_macs_per_cycle

    def pcycles(
        self,
        kind: str,
        out_bytes: int,
        macs: int = 0,
        dtype: str = "float16",
        shape: Sequence[int] = (),
    ) -> float:
        """Cycles of the core's clock that an op executes: by its products on HMX, else by KB."""
        if kind not in HMX_KINDS or not macs:
            return self.rate(kind) * out_bytes / 1024
        # HMX works on whole blocks of rows and writes its sums when they are done.
        rows = max(prod(shape[:-1]), 1)
        whole = -(-rows // self.hmx.least_rows) * self.hmx.least_rows / rows if shape else 1.0
        products = whole * macs / self.macs_per_cycle(dtype)
        return self.hmx.start_cycles + products + out_bytes / self.hmx.store_bytes_per_cycle

    def barrier_share(self, engine: Engine) -> float:
        sync = self.sync
        if engine is Engine.HVX:
            return sync.hvx_barrier_share
        return sync.hmx_barrier_share if engine is Engine.HMX else sync.dma_barrier_share

    def rate(self, kind: str) -> float:
        return self.pcycles_per_kb.get(kind, self.pcycles_per_kb["default"])

    def ddr_bytes_per_s(self) -> float:
        """What one core's transfers get from DDR when the others are quiet."""
        return self.clocks.utimer_hz * 1024 / self.dma.ddr_ucycles_per_kb

    def load_bytes_per_s(self) -> float:
        """The same with the latency of each chunk of weights."""
        chunk = self.memory.weight_chunk_bytes
        return chunk / (chunk / self.ddr_bytes_per_s() + self.ddr.latency_us / 1e6)

    def multicast_bytes_per_s(self) -> float:
        return self.clocks.utimer_hz * 1024 / self.dma.multicast_ucycles_per_kb


def load_core_machine(
    name: str = DEFAULT_CORE_MACHINE,
    *,
    overrides: Mapping[str, object] | None = None,
    machine_file: str | Path | None = None,
) -> CoreMachine:
    """The machine `name`; `overrides` replaces single values by their path in the TOML."""
    if machine_file is None and not overrides:
        return _packaged_machine(name)
    path = Path(machine_file) if machine_file is not None else _packaged(name)
    table = read_toml(path, MACHINE)
    machine = _build(table, path)
    if not overrides:
        return machine
    settable = {key: value for key, value in table.items() if isinstance(value, dict)}
    apply_overrides(settable, overrides)
    return _build(table, path, by_user=True)


@lru_cache(maxsize=4)
def _packaged_machine(name: str) -> CoreMachine:
    path = _packaged(name)
    return _build(read_toml(path, MACHINE), path)


def known_core_machines() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def _packaged(name: str) -> Path:
    if name not in known_core_machines():
        raise UnknownMachine(name, known_core_machines())
    return _FOLDER / f"{name}.toml"


def _build(table: dict[str, Any], path: Path, *, by_user: bool = False) -> CoreMachine:
    try:
        machine: CoreMachine = decode(table, CoreMachine, "", UNRANGED)
    except FileError as error:
        raise _fault(path, error.where, error.message, by_user, error.hint) from None
    for place, message in _faults(machine):
        raise _fault(path, place, message, by_user)
    return machine


def _fault(path: Path, place: str, message: str, by_user: bool, hint: str = "") -> NpuscopeError:
    if by_user:
        return UsageError(message, where=f"--set {place}", hint=hint)
    return FileError(f"{place}: {message}", where=str(path), hint=hint)


def _faults(machine: CoreMachine) -> Iterator[tuple[str, str]]:
    """Values out of range, and what fields do not say each for itself."""
    yield from range_faults(machine)
    threads = [thread for group in machine.groups() for thread in group.threads]
    if len(set(threads)) != len(threads) or not machine.cores.hvx_threads or min(threads) < 0:
        yield "cores.hvx_threads", "expected different thread numbers, 0 or higher"
    if "default" not in machine.pcycles_per_kb:
        yield "pcycles_per_kb.default", "this key is missing"
    kinds = cost_kinds()
    for kind in sorted(machine.pcycles_per_kb.keys() - kinds - {"default"}):
        hint = nearest(kind, sorted(kinds))
        yield f"pcycles_per_kb.{kind}", f"no op has this name; {hint}"
    clocks = machine.clocks
    for name, steps in (("dvfs_steps", clocks.dvfs_steps), ("load_mhz", clocks.load_mhz)):
        if not steps:
            yield f"clocks.{name}", "needs at least one step"
    pairs: dict[str, tuple[float, ...]] = {
        "stats.end_ticks": machine.stats.end_ticks,
        "stats.activate_ticks": machine.stats.activate_ticks,
        "setups.interval": machine.setups.interval,
        "setups.convolving_interval": machine.setups.convolving_interval,
    }
    if machine.power is not None:
        pairs["power.interval"] = machine.power.interval
    for name, bounds in pairs.items():
        if len(bounds) != 2 or bounds[0] > bounds[1]:
            yield name, "expected two numbers, the lower one first"
