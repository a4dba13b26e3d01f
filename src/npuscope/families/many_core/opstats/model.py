"""The tables of one stats buffer. What was not collected is None or empty, never zero."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from npuscope.families.many_core.layout import Capacity
from npuscope.families.many_core.opstats.lever import Lever
from npuscope.families.many_core.records import UTIMER_HZ

_TICKS_PER_US = UTIMER_HZ / 1e6


WAITS = ("sync", "barrier")


class OpLabel(Struct, frozen=True):
    """What ops of one row of the op table have in common."""

    kind: str
    engine: str = ""
    memory: str = ""  # where their output lies
    dtypes: tuple[str, ...] = ()
    name: str = ""  # empty for a group of ops

    @property
    def is_wait(self) -> bool:
        return self.kind in WAITS

    def __str__(self) -> str:
        """`kind Engine Memory (types)`, as the column of the vendor's tables."""
        types = f"({', '.join(self.dtypes)})" if self.dtypes else ""
        parts = (self.kind, self.engine, self.memory, types, self.name)
        return " ".join(part for part in parts if part)


class OpRow(Struct, frozen=True):
    """Ops of one label on one core; `sync X` and `barrier X` are rows of their own."""

    core: int
    label: OpLabel
    count: int
    ucycles: int
    pcycles: int | None = None
    out_bytes: int | None = None
    pcycles_per_kb_stddev: float | None = None
    counters: tuple[int, ...] = ()  # PMU events of these ops

    @property
    def details(self) -> str:
        return str(self.label)

    @property
    def out_kb(self) -> float | None:
        return None if self.out_bytes is None else self.out_bytes / 1024

    @property
    def ucycles_per_kb(self) -> float | None:
        return self.ucycles * 1024 / self.out_bytes if self.out_bytes else None

    @property
    def pcycles_per_kb(self) -> float | None:
        is_stated = self.pcycles is not None and self.out_bytes
        return self.pcycles * 1024 / self.out_bytes if is_stated else None  # type: ignore[operator]


class ThreadRow(Struct, frozen=True):
    """One hardware thread: how long, and where its time went as far as ops were timed."""

    core: int
    thread: int
    engine: str
    start_uc: int
    end_uc: int
    pcycles: int | None
    busy_pcycles: int | None = None
    busy_uc: int | None = None
    wait_uc: int | None = None

    @property
    def ucycles(self) -> int:
        return self.end_uc - self.start_uc

    @property
    def idle_uc(self) -> int | None:
        """What neither an op nor a wait accounts for."""
        if self.busy_uc is None or self.wait_uc is None:
            return None
        return self.ucycles - self.busy_uc - self.wait_uc

    @property
    def utilization(self) -> float | None:
        if self.busy_pcycles is None or self.pcycles is None:
            return None
        return self.busy_pcycles / self.pcycles if self.pcycles else 0.0


class PortRow(Struct, frozen=True):
    core: int
    thread: int
    port: int
    kind: str  # host, p2p
    incoming: bool
    waits: int
    wait_uc: int


class ActivationRow(Struct, frozen=True):
    core: int
    thread: int
    ucycles: int


class PmuRow(Struct, frozen=True):
    """Counts of one thread, in the order of the program's events."""

    core: int
    thread: int
    counts: tuple[int, ...]


class DdrRow(Struct, frozen=True):
    core: int
    read_bytes: int
    write_bytes: int
    multicast_read_bytes: int
    multicast_write_bytes: int


class PeerRow(Struct, frozen=True):
    """Transfers between devices through one port."""

    source: int
    target: int
    port: int
    transfers: int
    bytes: int
    ucycles: int


class CoreTables(Struct, frozen=True):
    """Everything of one core. `total_*` are those of its longest thread."""

    core: int
    total_uc: int
    total_pc: int | None
    inference_pc: int | None  # from the first thread's start to the last one's end
    ops: tuple[OpRow, ...]
    threads: tuple[ThreadRow, ...]
    ports: tuple[PortRow, ...]
    activations: tuple[ActivationRow, ...]
    pmu: tuple[PmuRow, ...]
    active: tuple[tuple[str, float], ...]  # share of cycles by engine, where events show it
    ddr: DdrRow | None

    @property
    def effective_mhz(self) -> float | None:
        if self.total_pc is None:
            return None
        return self.total_pc * _TICKS_PER_US / self.total_uc if self.total_uc else 0.0


class Totals(Struct, frozen=True):
    """The device: from the first thread that starts to the last one that ends."""

    start_uc: int
    end_uc: int
    stats_batch: int
    max_input_wait_uc: int | None
    max_output_wait_uc: int | None

    @property
    def ucycles(self) -> int:
        return self.end_uc - self.start_uc

    @property
    def seconds(self) -> float:
        return self.ucycles / UTIMER_HZ

    @property
    def batches_per_s(self) -> float:
        return 1 / self.seconds if self.ucycles else 0.0

    @property
    def inference_ucycles(self) -> float:
        """The run's, by the inferences that it counts as."""
        return self.ucycles / max(self.stats_batch, 1)

    @property
    def inferences_per_s(self) -> float:
        return self.stats_batch / self.seconds if self.ucycles else 0.0


# An engine that works less than this is not what the others wait for: their order is.
BUSY = 0.6
_COUNTS = 0.005  # of the time: smaller shares are not worth a word


class CoreBound(Enum):
    """What holds an inference up."""

    DDR = "DDR"
    HMX = "HMX"
    HVX = "HVX"
    SYNC = "synchronisation"
    EXCHANGE = "exchange between cores"
    HOST = "the host"
    LINK = "PCIe"
    UNKNOWN = "not known"


class CoreVerdict(Struct, frozen=True):
    """`shares` are of the time of the inference, on the core where each is largest."""

    bound: CoreBound = CoreBound.UNKNOWN
    shares: tuple[tuple[str, float], ...] = ()
    path_share: float | None = None  # of the bound on the critical path, where that decided

    @property
    def _engine_is_busy(self) -> bool:
        return any(dict(self.shares).get(name, 0.0) >= BUSY for name in ("DDR", "HMX", "HVX"))

    @property
    def sentence(self) -> str:
        if self.bound is CoreBound.UNKNOWN:
            return "what bounds it is not known: ops were not timed"
        counting = [(name, share) for name, share in self.shares if share >= _COUNTS]
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in counting)
        if self.bound is CoreBound.SYNC and self.path_share is None and not self._engine_is_busy:
            return f"bound by synchronisation: no engine is busy 60 % of the time ({shares})"
        if self.path_share is not None:
            share = f"{100 * self.path_share:.0f} % of the critical path"
            return f"bound by {self.bound.value}: {share} ({shares} of the time)"
        return f"bound by {self.bound.value} ({shares} of the time)"


class ModuleRow(Struct, frozen=True):
    """Ops of one module of the source network, on all cores."""

    module: str
    ops: int
    hvx_pcycles: int
    hmx_pcycles: int


class NodeRow(Struct, frozen=True):
    """What became of one op of the source network, on all cores."""

    module: str
    node: str
    ops: int
    hvx_pcycles: int
    hmx_pcycles: int
    macs: int
    ddr_bytes: int
    start_uc: int  # from its first op's start to its last one's end
    end_uc: int
    origin: tuple[str, ...] = ()  # the source ops, in full


class VtcmBlock(Struct, frozen=True):
    """A buffer at its place, from the start of its first use to the end of its last."""

    name: str  # of the op that uses it first
    offset: int
    bytes: int
    constant: bool
    start_uc: int
    end_uc: int


class VtcmRow(Struct, frozen=True):
    """VTCM of one core: the most bytes in use, over all and in each part of the inference."""

    core: int
    most_bytes: int
    parts: tuple[int, ...]
    blocks: tuple[VtcmBlock, ...] = ()  # of the fullest core, the largest in bytes x ticks


class Roofline(Struct, frozen=True):
    """Products per byte of DDR traffic and per second, against what the machine can do."""

    macs: int
    ddr_bytes: int
    seconds: float
    macs_per_s: float  # that HMX could make
    ddr_bytes_per_s: float

    @property
    def per_byte(self) -> float:
        return self.macs / max(self.ddr_bytes, 1)

    @property
    def ridge(self) -> float:
        """Products per byte at which both would take equally long."""
        return self.macs_per_s / self.ddr_bytes_per_s

    @property
    def reached(self) -> float:
        """Share of the products that HMX could make."""
        return self.macs / self.seconds / self.macs_per_s if self.seconds else 0.0

    @property
    def roof(self) -> float:
        """The share that DDR leaves of them."""
        return min(self.per_byte / self.ridge, 1.0)

    @property
    def sentence(self) -> str:
        side = "right of" if self.per_byte > self.ridge else "left of"
        return (
            f"{self.per_byte:,.0f} MAC/byte, {side} the ridge at {self.ridge:,.0f}; "
            f"{100 * self.reached:.1f} % of HMX peak"
        )


class Opstats(Struct, frozen=True):
    """The tables of one buffer, in the order in which they are printed."""

    name: str
    network: str
    specialization: str
    level: int
    device: int
    inference: int
    pmu_events: tuple[int, ...]
    pmu_recipe: str
    cores: tuple[CoreTables, ...]
    peers: tuple[PeerRow, ...]
    totals: Totals
    notes: tuple[str, ...]  # what was not collected, and what was odd
    verdict: CoreVerdict = CoreVerdict()
    modules: tuple[ModuleRow, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    roofline: Roofline | None = None
    path: tuple[tuple[str, float], ...] = ()  # what the critical path spends its time with
    levers: tuple[Lever, ...] = ()
    vtcm: tuple[VtcmRow, ...] = ()
    capacity: Capacity | None = None

    @property
    def ddr_bytes(self) -> int | None:
        """Read and written by all cores; None where it was not counted."""
        counts = [core.ddr for core in self.cores if core.ddr is not None]
        return sum(row.read_bytes + row.write_bytes for row in counts) if counts else None
