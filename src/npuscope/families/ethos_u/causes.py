"""Why the same layer takes longer in one command stream than in another.

A layer's time is that of its products in the MAC units, and what the rest of the NPU adds: reads of
weights and scales or waits for their copies, feature maps on a port, the output stage, and the
start and the end of every kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from msgspec import Struct

from npuscope.advice.compare.model import Cause, CauseKind
from npuscope.families.ethos_u.build import EthosRun
from npuscope.families.ethos_u.machine import EthosMachine
from npuscope.families.ethos_u.timing import KernelTime
from npuscope.families.interface import Causes
from npuscope.profiling.model import EpochProfile, Profile

_CONSTANTS = 0  # region


def causes_between(a: Profile, b: Profile) -> Causes | None:
    """None for saved results, and where the machines themselves are not the same."""
    x, y = a.payload, b.payload
    if not (isinstance(x, EthosRun) and isinstance(y, EthosRun)):
        return None
    if x.build.machine.name != y.build.machine.name:
        return None

    def causes(row_a: Sequence[EpochProfile], row_b: Sequence[EpochProfile]) -> Iterator[Cause]:
        one, other = (StreamCost.of(run, row) for run, row in ((x, row_a), (y, row_b)))
        yield from _causes(one, other)

    return causes


class StreamCost(Struct, frozen=True):
    """The kernels of a layer, and cycles by what takes them."""

    machine: EthosMachine
    kernels: tuple[KernelTime, ...]
    total: float
    macs: float = 0.0  # cycles of the MAC units
    constants: float = 0.0  # what weights and scales add
    waits: float = 0.0  # until they are copied
    features: float = 0.0  # what feature maps on a port add
    output: float = 0.0  # what the output stage adds

    @classmethod
    def of(cls, run: EthosRun, parts: Sequence[EpochProfile]) -> StreamCost:
        machine = run.build.machine
        kernels = tuple(one for part in parts for one in run.parts.get(part.index, ()))
        added = dict.fromkeys(("constants", "features", "output"), 0.0)
        for one in kernels:
            work = one.work
            busy = {
                "constants": max(work.constant_cycles, _constant_port_cycles(one, machine)),
                "features": work.port_cycles(machine),
                "output": work.output_cycles,
            }
            # Of equal ones the first: a port that is busy with constants alone is theirs.
            longest = max(busy, key=busy.__getitem__)
            added[longest] += max(busy[longest] - work.mac_cycles, 0.0)
        return cls(
            machine,
            kernels,
            sum(part.counters.core_cycles for part in parts),
            sum(one.work.mac_cycles for one in kernels),
            waits=sum(one.waited for one in kernels),
            **added,
        )

    @property
    def start(self) -> float:
        """First reads and last writes of every kernel."""
        parts = (self.macs, self.constants, self.waits, self.features, self.output)
        return self.total - sum(parts)

    @property
    def clock_mhz(self) -> float:
        return self.machine.clock_mhz

    @property
    def products(self) -> int:
        return sum(one.work.macs for one in self.kernels)

    @property
    def feature_bytes(self) -> int:
        """Read and written, without weights and scales."""
        beats = constants = 0
        for one in self.kernels:
            reads = sum(n for region, n in one.work.reads.items() if region != _CONSTANTS)
            beats += reads + sum(one.work.writes.values())
            spans = (*one.kernel.weights, *one.kernel.scales)
            constants += sum(s.length * _times(one) for s in spans if s.region != _CONSTANTS)
        return max(beats * self.machine.port_bytes - constants, 0)

    @property
    def constant_bytes(self) -> int:
        """Of weights and scales as often as they are read."""
        return sum(
            span.length * _times(one)
            for one in self.kernels
            for span in (*one.kernel.weights, *one.kernel.scales)
        )

    @property
    def is_buffered(self) -> bool:
        """Weights were copied from where they are stored."""
        spans = [span for one in self.kernels for span in one.kernel.weights]
        return any(span.region != _CONSTANTS for span in spans)


def _times(one: KernelTime) -> int:
    """How often a kernel reads its weights: for every block of pixels."""
    height, width, _ = one.kernel.shape
    return ceil(height / one.kernel.block[0]) * ceil(width / one.kernel.block[1])


def _constant_port_cycles(one: KernelTime, machine: EthosMachine) -> float:
    beats = one.work.reads.get(_CONSTANTS, 0)
    rate = min(machine.port(_CONSTANTS).bytes_per_cycle, machine.read_bytes_per_cycle)
    return beats * machine.port_bytes / rate


def _causes(a: StreamCost, b: StreamCost) -> Iterator[Cause]:
    ms = 1 / (1e3 * b.clock_mhz)
    if a.clock_mhz != b.clock_mhz:
        text = f"{a.clock_mhz:g} -> {b.clock_mhz:g} MHz"
        yield Cause(CauseKind.CLOCK, text, a.total * (ms - 1 / (1e3 * a.clock_mhz)))
    weights = b.constants + b.waits - a.constants - a.waits
    yield Cause(CauseKind.WEIGHTS, _weights_text(a, b), weights * ms)
    if a.products == b.products:
        yield Cause(
            CauseKind.TILE, _blocks_text(a, b), (b.macs - a.macs + b.output - a.output) * ms
        )
    else:
        text = f"{a.products:,} -> {b.products:,} products"
        yield Cause(CauseKind.SHAPE, text, (b.macs - a.macs + b.output - a.output) * ms)
    yield Cause(CauseKind.POOL, _features_text(a, b), (b.features - a.features) * ms)
    text = (
        f"{len(a.kernels)} -> {len(b.kernels)} kernels, each with its first reads and last writes"
    )
    yield Cause(CauseKind.FUSION, text, (b.start - a.start) * ms)


def _weights_text(a: StreamCost, b: StreamCost) -> str:
    if not any(one.kernel.weights for cost in (a, b) for one in cost.kernels):
        before, after = (cost.constants + cost.waits for cost in (a, b))
        return f"constants and tables: {before:,.0f} -> {after:,.0f} cycles"
    ways = [
        f"in SRAM first, waits {cost.waits:,.0f} cycles"
        if cost.is_buffered
        else f"read as stored, {cost.constants:,.0f} cycles"
        for cost in (a, b)
    ]
    if a.is_buffered != b.is_buffered:
        return f"weight buffering: {ways[0]} -> {ways[1]}"
    if a.constant_bytes != b.constant_bytes:
        return f"weights and scales read: {a.constant_bytes:,} -> {b.constant_bytes:,} bytes"
    return f"weights {ways[0]} -> {ways[1]}"


def _blocks_text(a: StreamCost, b: StreamCost) -> str:
    blocks = [sorted({one.kernel.block for one in cost.kernels}) for cost in (a, b)]
    texts = [", ".join("x".join(map(str, block)) for block in each[:2]) for each in blocks]
    if not a.products:
        stage = f"output stage {a.output:,.0f} -> {b.output:,.0f} cycles"
        return f"{stage}, blocks {texts[0]} -> {texts[1]}"
    shares = [cost.products / max(cost.macs * cost.machine.macs, 1) for cost in (a, b)]
    filled = " -> ".join(f"{100 * share:.0f} %" for share in shares)
    return f"MAC units filled {filled}, blocks {texts[0]} -> {texts[1]}"


def _features_text(a: StreamCost, b: StreamCost) -> str:
    stripes = f"{len(a.kernels)} -> {len(b.kernels)} kernels"
    return f"feature maps: {a.feature_bytes:,} -> {b.feature_bytes:,} bytes moved, {stripes}"
