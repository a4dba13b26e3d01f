"""Sheet: what a profile of any source says, in the terms of opstats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec import Struct, field

from npuscope.bounded_file import FileKind, read_bytes, read_head
from npuscope.families.many_core.opstats.model import OpLabel
from npuscope.profiling.model import Provenance
from npuscope.text import safe_terminal

# Engines of a source that is not an accelerator with threads per engine.
CPU, DELEGATE = "CPU", "delegate"


class SheetOp(Struct, frozen=True):
    """All ops alike on one core; one op where the source names it. None means not stated.

    Times and counts are those of one inference. `spread_us` is (least, median, most) over the
    inferences, where the source has them one by one.
    """

    core: int
    engine: str  # HVX, HMX, DMAIssue; CPU or delegate elsewhere
    kind: str
    memory: str
    dtypes: tuple[str, ...]
    name: str  # empty for a group of ops
    count: int
    us: float | None
    ucycles: float | None = None
    pcycles: float | None = None
    out_bytes: float | None = None
    stddev_pcycles_per_kb: float | None = None
    spread_us: tuple[float, float, float] | None = None

    @property
    def label(self) -> OpLabel:
        return OpLabel(self.kind, self.engine, self.memory, self.dtypes)

    @property
    def is_wait(self) -> bool:
        return self.label.is_wait

    @property
    def details(self) -> str:
        return str(self.label)


class ThreadSpan(Struct, frozen=True):
    """One hardware thread over one inference; ticks of the common timer."""

    core: int
    thread: int
    engine: str
    start_uc: int
    end_uc: int
    pcycles: int | None = None
    utilization: float | None = None  # share of its cycles in ops
    activate_uc: int | None = None

    @property
    def ucycles(self) -> int:
        return self.end_uc - self.start_uc


class PortWait(Struct, frozen=True):
    core: int
    thread: int
    port: int
    wait_uc: int


class SheetTotals(Struct, frozen=True):
    """One inference (or batch) on the device, from first start to last end."""

    us: float
    ucycles: int | None = None
    start_uc: int | None = None
    end_uc: int | None = None
    batch: int = 1
    inferences: int = 1  # over which the times are averaged


class SheetLane(Struct, frozen=True):
    """A row of a timeline."""

    process: str
    thread: str
    core: int | None = None
    engine: str = ""
    device: int | None = None


class SheetTimeline(Struct, frozen=True):
    """Slices, flows and counters as columns; times are nanoseconds.

    A flow leads from one slice to another, both by index; `flow_data` separates true dependencies
    from those of the schedule.
    """

    lanes: tuple[SheetLane, ...]
    names: tuple[str, ...]
    lane: np.ndarray
    name: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    flow_source: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    flow_target: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    flow_data: np.ndarray = field(default_factory=lambda: np.zeros(0, np.bool_))
    counters: tuple[tuple[str, np.ndarray, np.ndarray], ...] = ()  # name, ns, values


class Sheet(Struct, frozen=True):
    """What reports print. `timeline` is None where the source only has sums."""

    adapter: str
    file: str
    network: str
    provenance: Provenance
    ops: tuple[SheetOp, ...]
    threads: tuple[ThreadSpan, ...] = ()
    port_waits: tuple[PortWait, ...] = ()
    totals: SheetTotals | None = None
    frequencies_mhz: tuple[tuple[int, float], ...] = ()  # core, effective clock
    inference_pcycles: tuple[tuple[int, int], ...] = ()  # core, first start to last end
    timeline: SheetTimeline | None = None
    notes: tuple[str, ...] = ()

    @property
    def cores(self) -> tuple[int, ...]:
        numbers = {row.core for row in self.ops} | {span.core for span in self.threads}
        return tuple(sorted(numbers))

    @property
    def timed(self) -> bool:
        """An inventory of a container has no times."""
        return any(row.us is not None for row in self.ops)


# --- The file to read: first bytes, size, companions ---

# Enough for a magic number, a title or the first events.
HEAD_BYTES = 4096


class Companions(Struct, frozen=True):
    """Other files that an adapter may need, as the user named them."""

    qpc: Path | None = None  # program that the buffer belongs to
    layout: Path | None = None  # of a raw buffer that does not explain itself
    descriptors: Path | None = None  # protobuf FileDescriptorSet
    ignore_uuid: bool = False


class ProfileFile(Struct, frozen=True):
    path: Path
    head: bytes
    size: int

    @property
    def place(self) -> str:
        return safe_terminal(str(self.path))

    def read(self, kind: FileKind) -> bytes:
        """The whole file, where it is not larger than such a file can be."""
        return read_bytes(self.path, kind)


def open_source(path: str | Path) -> ProfileFile:
    path = Path(path)
    return ProfileFile(path, read_head(path, HEAD_BYTES), path.stat().st_size)
