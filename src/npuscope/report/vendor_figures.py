"""The vendor's profiler report of a recorded run, recomputed from the counters.

It follows the vendor where our own report does not: an engine used both ways has one line, the
mean over samples of both directions; bursts are those of the first sample; means are rounded up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from npuscope.boards.device import BoardClocks, Inference, NodeCounters
from npuscope.errors import FileError, UsageError
from npuscope.profiling.collect import ENGINES_PER_BUSIF, added_claims
from npuscope.profiling.measure import Measurement
from npuscope.profiling.model import PrintedTotals
from npuscope.profiling.printed import CompilerText
from npuscope.profiling.profiler_log import ProfilerLog
from npuscope.profiling.recorded import LogDevice
from npuscope.program.model import Claims, Epoch, EpochKind, Program
from npuscope.program.network_c.layout import Flag
from npuscope.program.units import Streng
from npuscope.sim.counters import BusTraffic
from npuscope.structs import replace
from npuscope.text import safe_terminal

Cycles = tuple[int, int, int]  # pre, core, post
Pools = dict[str, tuple[int, int]]  # bytes read, bytes written

_NONE: Cycles = (0, 0, 0)
_NO_BURSTS = (0, 0, 0, 0)


class VendorEngine(Struct, frozen=True):
    """`direction` is that of the first sample; `data` is empty where no register is known."""

    id: int
    direction: str
    busif: int
    active_cycles: int
    data: tuple[tuple[str, int], ...] = ()


class CompilerFigures(Struct, frozen=True):
    """What the compiler said of an epoch, or of all epochs of a blob together."""

    type: str
    operations: dict[str, int]
    units: dict[str, int]
    claims: Claims


class VendorEpoch(Struct, frozen=True):
    """One block of the report; DMA epochs of a hybrid are part of it (`extra` of them)."""

    name: str
    index: int
    first: int
    last: int
    kind: str
    extra: int
    own_mcu_cycles: Cycles
    extra_mcu_cycles: Cycles
    npu_cycles: Cycles
    buses: tuple[BusTraffic, ...]
    engines: tuple[VendorEngine, ...]
    cache_read: tuple[int, ...]
    cache_write: tuple[int, ...]
    compiled: CompilerFigures | None = None

    @property
    def mcu_cycles(self) -> Cycles:
        return _added((self.own_mcu_cycles, self.extra_mcu_cycles))

    @property
    def read_bytes(self) -> int:
        return sum(bus.read_bytes for bus in self.buses)

    @property
    def write_bytes(self) -> int:
        return sum(bus.write_bytes for bus in self.buses)

    @property
    def claims(self) -> Claims:
        return self.compiled.claims if self.compiled else Claims()

    @property
    def busiest(self) -> VendorEngine | None:
        return max(self.engines, key=lambda engine: engine.active_cycles, default=None)


class VendorReport(Struct, frozen=True):
    clocks: BoardClocks
    epochs: tuple[VendorEpoch, ...]
    printed: PrintedTotals | None = None

    @property
    def mcu_cycles(self) -> Cycles:
        return _added(epoch.mcu_cycles for epoch in self.epochs)

    @property
    def npu_cycles(self) -> Cycles:
        return _added(epoch.npu_cycles for epoch in self.epochs)

    @property
    def claims(self) -> Claims:
        return added_claims(epoch.claims for epoch in self.epochs)

    @property
    def total_ms(self) -> float:
        """Beside each epoch."""
        if self.printed is not None and self.printed.epochs_ms is not None:
            return self.printed.epochs_ms
        return sum(self.mcu_cycles) * 1000 / self.clocks.mcu_hz

    @property
    def npu_core_ms(self) -> float:
        return self.npu_cycles[1] * 1000 / self.clocks.npu_hz

    @property
    def inferences_per_s(self) -> float:
        return per(self.clocks.mcu_hz, sum(self.mcu_cycles))


def vendor_report(
    source: ProfilerLog | Sequence[Inference],
    clocks: BoardClocks | None = None,
    program: Program | None = None,
    *,
    network: str = "",
    said: Mapping[tuple[int, int], CompilerText] | None = None,
) -> VendorReport:
    """All per-layer inferences of one network, whatever each pass counted.

    `said` is what a printed report has of the compiler, for a run without its program.
    """
    if isinstance(source, ProfilerLog):
        device = LogDevice(source, clocks=clocks)
        rows = [row for row in device.recorded if row.per_layer]
        names = dict.fromkeys(row.network for row in rows)
        if not network and len(names) > 1:
            listing = ", ".join(safe_terminal(name) for name in names)
            raise UsageError(f"the log holds several networks: {listing}", hint="give `network`")
        clocks, said = device.clocks, said or device.said
        source = tuple(row.inference for row in rows if row.network == network or not network)
    if clocks is None:
        raise UsageError("the clocks cannot be derived from inferences", hint="give `clocks`")
    folded = [_folded(inference.nodes) for inference in source if inference.nodes]
    if not folded:
        raise FileError("no inference with counters by epoch was recorded")
    # Counters of different inferences are averaged by position, so the nodes must be the same.
    if len({tuple((node.name, len(extras)) for _, node, extras in run) for run in folded}) > 1:
        raise FileError("the inferences do not have the same nodes: more than one network?")
    epochs = (_epoch(rows, program) for rows in zip(*folded, strict=True))
    return VendorReport(clocks, tuple(_with_text(epoch, said or {}) for epoch in epochs))


def measured_vendor_report(measured: Measurement) -> VendorReport:
    inferences = [row.inference for row in measured.recorded]
    report = vendor_report(inferences, measured.info.clocks, measured.program, said=measured.said)
    return replace(report, printed=measured.profile.printed)


def _with_text(epoch: VendorEpoch, said: Mapping[tuple[int, int], CompilerText]) -> VendorEpoch:
    text = said.get((epoch.first, epoch.last))
    if text is None or epoch.compiled is not None:
        return epoch
    engines = tuple(replace(row, data=text.data.get(row.id, ())) for row in epoch.engines)
    compiled = CompilerFigures(text.type, text.operations, text.units, text.claims)
    return replace(epoch, index=text.c_idx, engines=engines, compiled=compiled)


# A node with its index in the inference and the DMA nodes merged into it.
Folded = tuple[int, NodeCounters, tuple[NodeCounters, ...]]


def _folded(nodes: tuple[NodeCounters, ...]) -> list[Folded]:
    rows: list[Folded] = []
    for index, node in enumerate(nodes):
        if node.extra and rows:
            first, own, extras = rows[-1]
            rows[-1] = first, own, (*extras, node)
        else:
            rows.append((index, node, ()))
    return rows


def _epoch(samples: tuple[Folded, ...], program: Program | None) -> VendorEpoch:
    index, node, extras = samples[0]
    own = [row for _, row, _ in samples]
    # Each extra epoch has its own mean; the means are added, not the samples.
    more = list(zip(*(rows for _, _, rows in samples), strict=True))
    executed = program.executed if program else ()
    covered = tuple(e for e in executed if node.number <= e.number <= node.last)
    return VendorEpoch(
        name=f"EpochBlock_{node.number}",
        index=index,
        first=node.number,
        last=node.last,
        kind="EC" if node.flags & Flag.blob else node.kind.value,
        extra=len(extras),
        own_mcu_cycles=_mean_mcu(own),
        extra_mcu_cycles=_added(_mean_mcu(rows) for rows in more),
        npu_cycles=_added(_mean_npu(rows) for rows in (own, *more)),
        buses=_buses(samples),
        engines=_engines(own, covered, program),
        cache_read=_mean([row.cache_read for row in own if row.cache_read]),
        cache_write=_mean([row.cache_write for row in own if row.cache_write]),
        compiled=_compiled(covered, program),
    )


def _buses(samples: tuple[Folded, ...]) -> tuple[BusTraffic, ...]:
    """Of the first sample that counted any, as the vendor does; the counts hardly vary."""
    samples_with_bursts = [(row, *more) for _, row, more in samples if row.bursts]
    if not samples_with_bursts:
        return ()
    return tuple(
        BusTraffic(
            i, _bursts(samples_with_bursts[0], i, "r"), _bursts(samples_with_bursts[0], i, "w")
        )
        for i in (0, 1)
    )


def _bursts(nodes: Iterable[NodeCounters], bus: int, way: str) -> tuple[int, int, int, int]:
    rows = [node.bursts.get((bus, way), _NO_BURSTS) for node in nodes]
    one, two, four, eight = (sum(column) for column in zip(*rows, strict=True))
    return one, two, four, eight


def _engines(
    nodes: list[NodeCounters], covered: tuple[Epoch, ...], program: Program | None
) -> tuple[VendorEngine, ...]:
    cycles: dict[int, list[int]] = {}
    ways: dict[int, str] = {}
    for node in nodes:
        for (engine, way), active in node.engines.items():
            cycles.setdefault(engine, []).append(active)
            ways.setdefault(engine, way)
    return tuple(
        VendorEngine(
            engine,
            ways[engine],
            engine // ENGINES_PER_BUSIF,
            _ceiling(values),
            _data(engine, ways[engine], covered, program),
        )
        for engine, values in sorted(cycles.items())
    )


def _data(
    engine: int, way: str, covered: tuple[Epoch, ...], program: Program | None
) -> tuple[tuple[str, int], ...]:
    """Pool and buffer of the engine; a blob gives it one after the other, so none."""
    if program is None or len(covered) != 1:
        return ()
    buffers = program.buffer_map()
    streams = [unit for unit in covered[0].units if isinstance(unit, Streng)]
    used = [s.addr_base.buffer for s in streams if (s.id, "io"[s.dir]) == (engine, way)]
    return tuple((buffers[n].pool, buffers[n].size_bytes) for n in used if n in buffers)


def _compiled(epochs: tuple[Epoch, ...], program: Program | None) -> CompilerFigures | None:
    if not epochs or program is None:
        return None
    units = Counter[str]()
    for epoch in epochs:
        units.update(program.unit_counts(epoch))
    # Stream engines last, as the vendor lists them.
    ordered = sorted(units, key=lambda unit: unit == Streng.unit)
    hardware = any(epoch.kind is EpochKind.HW for epoch in epochs)
    return CompilerFigures(
        "BLOB" if epochs[0].blob is not None else epochs[0].kind.value,
        dict(sum((_operations(epoch, program) for epoch in epochs), Counter())),
        {_unit_name(unit): units[unit] for unit in ordered}
        or ({} if hardware else {"PROCESSOR": len(epochs)}),
        added_claims(epoch.claims for epoch in epochs),
    )


def _unit_name(unit: str) -> str:
    return "STR_ENG" if unit == "STRENG" else f"{unit.removesuffix('ACC')}_ACC"


def _operations(epoch: Epoch, program: Program) -> Counter[str]:
    """A convolution counts once for every accelerator that works on it."""
    where = epoch.kind.value.lower()
    counts = Counter(f"{where}.{name.lower()}" for name in epoch.operators)
    convolutions = program.unit_counts(epoch).get("CONVACC", 0)
    if f"{where}.conv" in counts:
        counts[f"{where}.conv"] = max(convolutions, counts[f"{where}.conv"])
    reads, writes = program.streams(epoch)
    return counts + Counter({"hw.dmain": reads, "hw.dmaout": writes})


def _added(rows: Iterable[Cycles]) -> Cycles:
    pre, core, post = (sum(column) for column in zip(_NONE, *rows, strict=True))
    return pre, core, post


def _mean_mcu(nodes: Sequence[NodeCounters]) -> Cycles:
    pre, core, post = _mean([node.mcu_cycles for node in nodes])
    return pre, core, post


def _mean_npu(nodes: Sequence[NodeCounters]) -> Cycles:
    """Over the samples that have them: a pass that counts bursts has no counter left."""
    cycles = [node.npu_cycles for node in nodes if node.npu_cycles is not None]
    pre, core, post = _mean(cycles) or _NONE
    return pre, core, post


def _mean(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(_ceiling(column) for column in zip(*rows, strict=True))


def _ceiling(values: Sequence[int]) -> int:
    """The mean, rounded up."""
    return -(-sum(values) // len(values))


def per(amount: float, cycles: float) -> float:
    return amount / cycles if cycles else 0.0
