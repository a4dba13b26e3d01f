"""Profile: one or more runs of a Program, with where each number came from."""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from npuscope.program.model import Claims, EpochKind
from npuscope.shown import Rows, ShownRecord
from npuscope.sim.counters import EpochCounters
from npuscope.structs import Apart
from npuscope.whole_file import write_whole

SCHEMA = "npuscope/profile/record/1"  # of a saved profile


class Provenance(Enum):
    ESTIMATE = "estimate"  # timing model alone, no data run
    SIMULATION = "simulation"
    EMULATION = "emulation"  # firmware on an emulated processor, beside a simulated NPU
    BOARD = "board"
    LOG = "log"
    VENDOR_FILE = "vendor file"


class RunClocks(Struct, frozen=True):
    mcu_mhz: float
    npu_mhz: float
    noc_mhz: float
    nic_mhz: float


class Run(Struct, frozen=True):
    """One source of counters: how many inferences, at which clocks."""

    source: Provenance
    clocks: RunClocks
    n: int = 1


class Spread(Struct, frozen=True):
    """Duration of an epoch over the runs, milliseconds."""

    min: float
    median: float
    max: float
    n: int


class EpochProfile(Struct, frozen=True):
    """One epoch: what the compiler said of it, what was counted, what follows from both."""

    index: int
    name: str
    first: int
    last: int
    kind: EpochKind
    blob: int | None
    operators: tuple[str, ...]
    origin: tuple[str, ...]
    units: dict[str, int]
    claims: Claims
    counters: EpochCounters
    ms: float
    provenance: Provenance
    spread: Spread
    predicted_ms: float | None = None  # beside a measured time, where the program is known
    modes: tuple[str, ...] = ()  # of its convolutions, where the registers are known
    blob_bytes: int = 0  # of its bit-stream, where a device ran it


class TimeShares(Struct, frozen=True):
    """Milliseconds by kind of work; they add up to the total."""

    npu_core_ms: float
    control_ms: float
    software_ms: float
    hybrid_ms: float

    @property
    def by_work(self) -> tuple[tuple[str, float], ...]:
        """(kind of work, milliseconds) in the order of the reports."""
        return (
            ("NPU core", self.npu_core_ms),
            ("control", self.control_ms),
            ("software", self.software_ms),
            ("hybrid", self.hybrid_ms),
        )


class PoolUse(Struct, frozen=True):
    name: str
    used_bytes: int
    size_bytes: int
    weights_bytes: int
    activations_bytes: int
    live_bytes: int  # most activation bytes alive at once in this pool


class MemoryUse(Struct, frozen=True):
    internal_ram_bytes: int
    external_ram_bytes: int
    weights_bytes: int
    lower_bound_bytes: int  # most activation bytes alive at once: no placement needs less
    pools: tuple[PoolUse, ...]
    known_error: str = ""  # of sizes that another compiler will make; empty for those of a build


class TensorInfo(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None
    zero_point: int | None
    size_bytes: int


class ModelInfo(Struct, frozen=True):
    file: str
    md5: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    macs: int
    params: int
    unknown_params: int = 0  # of ops that nothing here computes


class MachineInfo(Struct, frozen=True):
    name: str
    generation: str
    epoch_controller: bool
    mcu_mhz: float
    npu_mhz: float
    flash: str = ""  # how the roads to the external memories are driven; empty: not known
    psram: str = ""
    assumed: tuple[str, ...] = ()  # "flash", "psram": used by the network, and nobody stated how
    chip: str = ""  # as its maker calls it
    board: str = ""  # or the system around the chip; empty: nobody named one
    compiler: str = ""  # whose program it is


class Stop(Struct, frozen=True):
    """A rule by which the vendor's compiler ends without a program."""

    rule: str
    title: str


class Fit(Struct, frozen=True):
    """Does the network fit: on chip only, with flash for weights, with external RAM."""

    on_chip: bool
    with_flash: bool
    with_external_ram: bool
    reason: str
    unsure: str = ""  # why it may need more than that


class DevicePart(Struct, frozen=True):
    """What a device said of itself and of the network on it; "" where it said nothing."""

    network: str
    n_nodes: int
    activations_bytes: int
    compile_datetime: str
    protocol: str
    tools: str
    runtime: str
    capabilities: tuple[str, ...]
    description: str
    attributes: tuple[str, ...]
    banner: str = ""  # of the tool that asked
    created: str = ""
    session: str = ""  # how it was reached
    passes: str = ""  # what was counted in which inference


class PrintedTotals(Struct, frozen=True):
    """The whole model as a printed report has it, line by line; nothing of it is changed.

    `epochs_ms` is the total beside each epoch, which may be another run's.
    """

    total_ms: float
    core_ms: float
    epochs_ms: float | None
    compiler: tuple[tuple[str, str], ...]
    measured: tuple[tuple[str, str], ...]
    bandwidth: tuple[tuple[str, str], ...]


# A device reports what it counted, not how the network was placed.
UNKNOWN_MEMORY = MemoryUse(0, 0, 0, 0, ())
UNKNOWN_FIT = Fit(False, False, False, "not known: profiled without the program")


class Profile(ShownRecord, Apart, frozen=True):
    """Runs of a Program: time and counters by epoch, memory, and where each number came from."""

    apart = ("payload",)

    program_hash: str
    model: ModelInfo
    machine: MachineInfo
    runs: tuple[Run, ...]
    epochs: tuple[EpochProfile, ...]
    total_ms: float
    interval_ms: tuple[float, float | None]  # no upper end where the cost of an op is not known
    model_error: str
    time: TimeShares
    memory: MemoryUse
    fit: Fit
    counts: dict[str, int]
    notes: tuple[str, ...] = ()
    unknown_ops: tuple[str, ...] = ()  # of unknown cost: then `total_ms` is a lower bound
    stops: tuple[Stop, ...] = ()  # of a model file; a build exists, so nothing stopped it
    taken: tuple[str, ...] = ()  # for what the model file leaves open: sizes, scales
    device: DevicePart | None = None  # where one was asked
    family: str = ""  # of machines; "" is the one that had no other beside it when files began
    machine_words: str = ""  # the machine in a line, where its family has words of its own
    fit_words: str = ""  # the same of where the network lies
    batch: int = 1  # inferences in one run
    figures: dict[str, float] = field(default_factory=dict)  # that only this family knows
    payload: Any = None  # what the family ran
    printed: PrintedTotals | None = None  # where a report was read that states them

    @property
    def is_lower_bound(self) -> bool:
        return bool(self.unknown_ops)

    @property
    def stopped(self) -> str:
        """What makes the vendor's compiler end without a program; empty where nothing does."""
        if not self.stops:
            return ""
        reasons = ", ".join(f"{stop.title} ({stop.rule})" for stop in self.stops)
        generation = self.machine.generation
        return f"the vendor's compiler of generation {generation} stops at this file: {reasons}"

    @property
    def overlaps(self) -> bool:
        """Epochs ran beside each other: their times add up to more than the run."""
        return sum(epoch.ms for epoch in self.epochs) > 1.001 * self.total_ms

    @property
    def epoch_count(self) -> int:
        """As the reports of the compiler count them; a device may report many as one row."""
        number = sum(number for kind, number in self.counts.items() if kind != "blobs")
        return number or len(self.epochs)

    @property
    def is_mostly_unknown(self) -> bool:
        """More than half of the ops, or of the weights that they multiply by, have no known cost:
        what the others take says nothing of the network."""
        ops = sum(len(epoch.operators) for epoch in self.epochs)
        model = self.model
        return 2 * len(self.unknown_ops) > ops or 2 * model.unknown_params > model.params

    @property
    def inferences_per_s(self) -> float:
        return 1000.0 * self.batch / self.total_ms if self.total_ms else 0.0

    def told(self) -> str:
        kinds = ", ".join(f"{n} {k}" for k, n in self.counts.items() if n and k != "blobs")
        name = self.model.file or "?"
        source = self.runs[0].source.value if self.runs else "no run"
        least = "at least " if self.is_lower_bound else ""
        time = "time not known" if self.is_mostly_unknown else f"{least}{self.total_ms:.3f} ms"
        return f"{name}: {time} ({source}), {kinds}"

    def table(self) -> Rows:
        """One row per epoch. `pre_ms` and `post_ms` are work of the CPU around it, by its clock."""
        clocks = self.runs[0].clocks
        mcu, npu = (1000 * mhz or math.nan for mhz in (clocks.mcu_mhz, clocks.npu_mhz))
        return [
            {
                "epoch": epoch.name,
                "kind": epoch.kind.value,
                "ms": epoch.ms,
                "share": epoch.ms / self.total_ms if self.total_ms else 0.0,
                "pre_ms": epoch.counters.pre_cycles / mcu,
                "core_ms": epoch.counters.core_cycles / npu,
                "post_ms": epoch.counters.post_cycles / mcu,
                "read_bytes": sum(row.read_bytes for row in epoch.counters.traffic),
                "written_bytes": sum(row.write_bytes for row in epoch.counters.traffic),
                "bound": epoch.counters.bound.value,
                "core_cycles": epoch.counters.core_cycles,
                "ops": list(epoch.operators),
                "origin": list(epoch.origin),
                "provenance": epoch.provenance.value,
            }
            for epoch in self.epochs
        ]

    def save(self, path: str | Path) -> None:
        """In full, as JSON; `npuscope.load` reads it again."""
        write_whole(path, profile_to_json(self))


def profile_to_json(profile: Profile) -> bytes:
    import orjson

    from npuscope.records import encode

    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    return orjson.dumps({"schema": SCHEMA, **encode(profile)}, option=options)
