"""A comparison: rows by source op, what each row's difference is made of, and the sums."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.profiling.model import EpochProfile, PoolUse, Profile, Provenance
from npuscope.program.model import EpochKind, Program
from npuscope.shown import Rows, ShownRecord, counted
from npuscope.structs import Apart

if TYPE_CHECKING:
    from npuscope.advice.compare.fidelity import Fidelity
    from npuscope.advice.compare.times import EpochTimer

_MEASURED = (Provenance.BOARD, Provenance.LOG, Provenance.EMULATION)
# Below a nanosecond nothing has changed: floats were added in another order.
LEAST_MS = 1e-6


class CauseKind(StrEnum):
    MOVED = "moved"  # between NPU, library call and CPU
    ADDED = "added"  # only B has epochs for it
    REMOVED = "removed"  # only A has
    CLOCK = "clock"
    START_COST = "start cost"  # what the generation's control costs per epoch
    TIMING = "timing constants"  # other rates of the same machine, e.g. by --set
    CONTROL = "control"  # who starts epochs, how many blobs, how much there is to program
    KERNEL = "kernel"  # another software kernel, or other calls of it
    POOL = "pool"
    WEIGHTS = "weights"  # how they are stored, how often they are read
    TILE = "tile"  # kernels, channels and frames of a convolution; units in series
    FORMAT = "number format"
    REQUANTIZE = "requantize"  # coefficient streams of arithmetic units
    FUSION = "fusion"  # ops that share epochs, or no longer do
    LAYOUT = "layout"  # order of channels in memory
    SHAPE = "shape"  # another amount of work for the same op
    NETWORK = "network"  # another layer: two networks are compared
    MACHINE = "machine"  # another kind of machine
    PREDICTION = "prediction"  # measured against predicted, within the known error
    NOISE = "noise"  # within the spread of a measured run
    UNEXPLAINED = "unexplained"


class Cause(Struct, frozen=True):
    """One part of a difference: B minus A, in milliseconds."""

    kind: CauseKind
    text: str
    ms: float

    @property
    def is_known(self) -> bool:
        return self.kind is not CauseKind.UNEXPLAINED


class Side(Apart, frozen=True):
    """One of the two: a run, and what was run if that is known."""

    apart = ("timer", "graph")

    name: str
    profile: Profile
    program: Program | None = None
    machine: Machine | None = None
    timer: EpochTimer | None = None  # where it is kept
    graph: Graph | None = None  # what was compiled, if it was

    @property
    def is_measured(self) -> bool:
        return any(run.source in _MEASURED for run in self.profile.runs)

    @property
    def is_timed(self) -> bool:
        """Whether its epochs can be timed again: those of the program, one by one."""
        if self.program is None or self.machine is None or self.is_measured:
            return False
        numbers = [(epoch.number, epoch.last_number) for epoch in self.program.executed]
        return numbers == [(epoch.first, epoch.last) for epoch in self.profile.epochs]


class ComparedRow(Struct, frozen=True):
    """Epochs of both sides that come from the same source ops.

    `causes` add up to the difference, the largest first; `noise_ms` is the band in which a
    measured difference says nothing.
    """

    ops: tuple[str, ...]
    operators: tuple[str, ...]
    a: tuple[EpochProfile, ...]
    b: tuple[EpochProfile, ...]
    causes: tuple[Cause, ...] = ()
    noise_ms: float = 0.0

    @property
    def a_ms(self) -> float:
        return sum(epoch.ms for epoch in self.a)

    @property
    def b_ms(self) -> float:
        return sum(epoch.ms for epoch in self.b)

    @property
    def delta_ms(self) -> float:
        return self.b_ms - self.a_ms

    @property
    def is_changed(self) -> bool:
        """By more than a nanosecond per epoch: kept results are rounded to whole cycles."""
        return abs(self.delta_ms) >= LEAST_MS * max(1, len(self.a) + len(self.b))

    @property
    def cause(self) -> Cause | None:
        """The largest part; None where nothing changed."""
        return self.causes[0] if self.causes else None

    @property
    def unexplained_ms(self) -> float:
        return sum(abs(cause.ms) for cause in self.causes if not cause.is_known)


class Move(Struct, frozen=True):
    """A source op that runs elsewhere on B. `rule` and `reason` tell why it left the NPU."""

    op: str
    a: EpochKind
    b: EpochKind
    rule: str = ""
    reason: str = ""


class PoolChange(Struct, frozen=True):
    """`a` or `b` is None where that side has no such pool."""

    name: str
    a: PoolUse | None
    b: PoolUse | None

    @property
    def a_bytes(self) -> int:
        return self.a.used_bytes if self.a else 0

    @property
    def b_bytes(self) -> int:
        return self.b.used_bytes if self.b else 0


class Comparison(ShownRecord, frozen=True):
    a: Side
    b: Side
    rows: tuple[ComparedRow, ...]  # the largest difference first
    moves: tuple[Move, ...]
    pools: tuple[PoolChange, ...]
    notes: tuple[str, ...] = ()
    has_common_names: bool = True  # else ops cannot be followed by name, only rows by their work
    fidelity: Fidelity | None = None  # of our compiler to A's, where B was compiled as A was

    @property
    def delta_ms(self) -> float:
        return self.b.profile.total_ms - self.a.profile.total_ms

    @property
    def changed(self) -> tuple[ComparedRow, ...]:
        return tuple(row for row in self.rows if row.is_changed)

    @property
    def changed_ms(self) -> float:
        """Sum of all differences, whatever their sign."""
        return sum(abs(row.delta_ms) for row in self.rows)

    @property
    def unexplained_ms(self) -> float:
        """Sum over rows of what has no cause, at most each row's own difference."""
        return sum(min(row.unexplained_ms, abs(row.delta_ms)) for row in self.rows)

    @property
    def explained_share(self) -> float:
        return 1.0 - self.unexplained_ms / self.changed_ms if self.changed else 1.0

    @property
    def by_cause(self) -> tuple[tuple[CauseKind, float, int], ...]:
        """(kind, sum of milliseconds, rows), the largest sum first."""
        return sums_by_cause(self.rows)

    def told(self) -> str:
        return f"{self.delta_ms:+.3f} ms in {len(self.changed)} of {counted(len(self.rows), 'row')}"

    def table(self) -> Rows:
        """A row for epochs of both sides that come from the same source ops."""
        return [
            {
                "ops": list(row.ops),
                "a_ms": row.a_ms,
                "b_ms": row.b_ms,
                "delta_ms": row.delta_ms,
                "cause": row.causes[0].text if row.causes else None,
            }
            for row in self.rows
        ]


def sums_by_cause(rows: Iterable[ComparedRow]) -> tuple[tuple[CauseKind, float, int], ...]:
    parts_by_kind: dict[CauseKind, list[float]] = {}
    for row in rows:
        of_row: dict[CauseKind, float] = {}
        for cause in row.causes:
            of_row[cause.kind] = of_row.get(cause.kind, 0.0) + cause.ms
        for kind, ms in of_row.items():
            parts_by_kind.setdefault(kind, []).append(ms)
    sums = [(kind, sum(parts), len(parts)) for kind, parts in parts_by_kind.items()]
    return tuple(sorted(sums, key=lambda entry: -abs(entry[1])))
