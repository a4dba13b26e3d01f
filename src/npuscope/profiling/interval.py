"""How far a prediction may be off, from what the network is made of, and what to warn of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import log2
from typing import Protocol

from msgspec import Struct

from npuscope.machine.load import (
    VARIANTS,
    generations,
    known_machines,
    load_machine,
    road_of,
)
from npuscope.machine.model import Machine
from npuscope.profiling.facts import ProgramFacts
from npuscope.profiling.ranges import MOST_TILE, Sides, Tile, ranges
from npuscope.program.model import Epoch, EpochKind
from npuscope.program.units import Convacc, Streng
from npuscope.sim.counters import Bound, PoolTraffic

# Shares of parts that no set of published networks has enough of. They say what single runs showed
# and what nobody measured; the other parts are calibrated.
STATED = {
    "external_calls": Sides(0.70, 0.30),  # library calls there: one run took 0.4 of the prediction
    "pieces": Sides(0.40, 0.20),  # large kernels in pieces: one layer took 0.65 of it
    "reported": Sides(0.20, 0.20),  # epochs known from a report, not from registers
    "unnamed": Sides(0.20, 0.60),  # nor by their operators: products with a vector look like sums
    "unmeasured": Sides(0.60, 0.80),  # kernels without a measured cost
    # Layers cut otherwise than any measured one, as far as they are: the vendor may pad channels.
    "unlike": Sides(0.95, 0.60),
}
# Placeholder scales: 44 int8 models and their float copies (without QuantizeLinear and
# DequantizeLinear) with --as-int8, at 4.0 and 2.2. The int8 file takes 0.93 to 1.15 times as long
# in 43 of 44 comparisons. Where parts are joined, which share the placeholder and need no
# requantization, or activations are in external RAM, it takes up to 2.6 times as long in 40 of 44,
# and 3.6 times at most.
PLACEHOLDERS = Sides(0.10, 0.15)
JOINED_PLACEHOLDERS = Sides(0.10, 1.60)
LARGEST = 0.97  # also where a part is not credible
# A first inference takes longer: caches are cold, and code may lie in flash [board: seven networks,
# the first of ten runs and the only run of another firmware]. Slower flash, more of it.
COLD_MS = 0.010
# Three halvings or doublings of a tile are as far as it gets from what was measured.
_FAR_OCTAVES = 3.0
_SMALL_MS = 0.25
_NO_EVIDENCE_MS = 1.0

# What a prediction is made of mostly: the first kind whose part is that large. Coverage is counted
# by kind, and the part is calibrated on the rows of its kind.
KINDS = (
    ("with external RAM", "external", 0.05),
    ("at other clocks or with another flash", "set_up", 0.5),
    ("without the epoch controller", "started", 0.05),
    ("of less than 1 ms", "small", _SMALL_MS / _NO_EVIDENCE_MS),
    ("with a tail of floats", "floats", 0.05),
    ("with much work on the CPU", "cpu", 0.10),
    ("with many epochs without a convolution", "combining", 0.15),
)
ON_CHIP = "on chip"

# An epoch that only moves or combines cannot need so much more than it makes: where it takes a
# large part of the time, the program was misread or will not run as it stands.
_READS_TO_WRITES = 1000
_REDUCING = {"CONVACC", "POOL"}
_LARGE_PART = 0.10
_FAR_FROM_ROOFLINE = 100
_NOTED_PART = 0.05
_FAR_PART = 0.02  # time of layers unlike any measured, times how far they are
_SUM_BITS = 16


class Counted(Protocol):
    """Of the counters of an epoch, what is looked at here."""

    @property
    def bound(self) -> Bound: ...
    @property
    def core_cycles(self) -> float: ...
    @property
    def traffic(self) -> tuple[PoolTraffic, ...]: ...


class TimedEpoch(Protocol):
    """Of an EpochProfile, what is looked at here."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> EpochKind: ...
    @property
    def units(self) -> Mapping[str, int]: ...
    @property
    def ms(self) -> float: ...
    @property
    def counters(self) -> Counted: ...


class Contents(Struct, frozen=True):
    """What the predicted time consists of: shares from 0 to 1."""

    combining: float  # epochs of the NPU without a convolution
    cpu: float  # kernels and library calls whose cost was measured
    unmeasured: float  # the other ones
    external: float  # epochs that wait for external RAM
    kernels: tuple[str, ...]  # the ones without a measurement, slowest first
    reported: float = 0.0  # epochs of the NPU without registers, and not described whole
    unnamed: float = 0.0  # and without operators
    external_calls: float = 0.0  # library calls that wait for external RAM
    pieces: float = 0.0  # epochs that store sums of a part of a kernel
    started: float = 0.0  # the CPU starting and ending epochs
    floats: float = 0.0  # kernels of the CPU that read or write floats; not in `cpu`
    small: float = 0.0  # how much of the time a fixed quarter of a millisecond is
    set_up: float = 0.0  # 1 with clocks or roads to memories that nobody measured with
    unlike: float = 0.0  # layers cut as no measured one was, by how far they are from those
    far_layers: float = 0.0  # the same, whole
    tiles: tuple[str, ...] = ()  # how those are cut, slowest first


# Measured or not, by field of Contents: what widens a range.
PARTS = (
    *("combining", "cpu", "unmeasured", "external", "reported", "unnamed", "external_calls"),
    *("pieces", "started", "floats", "small", "set_up", "unlike"),
)


def contents(
    facts: ProgramFacts, epochs: Sequence[TimedEpoch], machine: Machine, total_ms: float
) -> Contents:
    whole = total_ms or 1.0
    spent: dict[str, float] = defaultdict(float)  # by field of Contents
    unmeasured: dict[str, float] = defaultdict(float)
    cuts: dict[str, float] = defaultdict(float)
    npu_khz = machine.clocks.npu_mhz * 1000
    for epoch, facts_of_epoch in zip(epochs, facts.epochs, strict=True):
        kernel = facts_of_epoch.call.kernel if facts_of_epoch.call else ""
        ms, on_npu = epoch.ms, epoch.kind is EpochKind.HW
        if on_npu and facts_of_epoch.blob is None:
            started = max(0.0, ms - epoch.counters.core_cycles / npu_khz)
            spent["started"] += started
            ms -= started
        if epoch.counters.bound is Bound.EXTERNAL_RAM:
            spent["external" if on_npu else "external_calls"] += ms
        elif (
            on_npu
            and facts_of_epoch.groups is None
            and facts_of_epoch.number not in facts.described
        ):
            spent["reported" if facts_of_epoch.operators else "unnamed"] += ms
        elif on_npu and "CONVACC" not in epoch.units:
            spent["combining"] += ms
        elif on_npu and _stores_sums(facts_of_epoch):
            spent["pieces"] += ms
        elif on_npu:
            far, cut = _farthest(facts_of_epoch, machine)
            spent["unlike"] += ms * far
            if far:
                spent["far_layers"] += ms
                cuts[cut] += ms
        elif not kernel or kernel in machine.software:
            spent["floats" if facts_of_epoch.number in facts.floats else "cpu"] += ms
        else:
            unmeasured[kernel] += ms
    slowest = tuple(sorted(unmeasured, key=lambda name: -unmeasured[name]))
    spent["unmeasured"] = sum(unmeasured.values())
    spent["small"] = min(whole, _SMALL_MS)
    spent["set_up"] = whole if _changed_set_up(machine) else 0.0
    shares = {name: spent[name] / whole for name in (*PARTS, "far_layers")}
    tiles = tuple(sorted(cuts, key=lambda name: -cuts[name]))
    return Contents(kernels=slowest, tiles=tiles, **shares)


def tile_of(unit: Convacc, machine: Machine) -> Tile:
    """How the unit's layer is cut; tiles of MOST_TILE and more are not told apart."""
    if unit.kernelHeight == unit.kernelWidth == 1:
        kernel = "1x1"
    elif unit.kernelWidth > machine.convacc.max_kernel_width:
        kernel = "wide"
    else:
        kernel = "row" if unit.kernelHeight == 1 else "k x k"
    depth, kernels = min(unit.batchDepth, MOST_TILE), min(unit.nKernels, MOST_TILE)
    return Tile(kernel, bool(unit.accumulate), depth, kernels)


def _farthest(epoch: Epoch, machine: Machine) -> tuple[float, str]:
    """How far the epoch's layers are from measured ones, 0 to 1, and how the farthest is cut."""
    tiles = {tile_of(unit, machine) for unit in epoch.units if isinstance(unit, Convacc)}
    if not tiles:  # described whole, but not by its registers
        return 0.0, ""
    far, tile = max(((distance(tile), tile) for tile in tiles), key=lambda pair: pair[0])
    return far, f"{tile.kernel}, {tile.depth} of the channels for {tile.kernels} kernels at a time"


@lru_cache(maxsize=256)
def distance(tile: Tile) -> float:
    """From the nearest measured layer of the same sort, as a share of what is called far."""
    # Builds and boards show 1x1 layers down to single channels, with factors up to 29.
    if tile.kernel == "1x1":
        return 0.0
    octaves = [
        abs(log2(tile.depth / known.depth)) + abs(log2(tile.kernels / known.kernels))
        for known in ranges().tiles
        if known.kernel == tile.kernel and known.accumulates == tile.accumulates
    ]
    return min(1.0, min(octaves, default=_FAR_OCTAVES) / _FAR_OCTAVES)


def _stores_sums(epoch: Epoch) -> bool:
    """Convolutions of the same features side by side, whose 16-bit sums a later epoch reads."""
    engines = [unit for unit in epoch.units if isinstance(unit, Streng)]
    read = Counter(engine.addr_base.buffer for engine in engines if not engine.dir)
    stores = any(
        engine.dir and engine.nbits_out == _SUM_BITS and engine.addr_base.buffer not in read
        for engine in engines
    )
    return stores and epoch.operators.count("Conv") > 1 and max(read.values()) > 1


def widths(part: str) -> Sides:
    """By how much of a part the device may be faster, and slower, than predicted."""
    return STATED.get(part) or ranges().parts.get(part, Sides(0.0, 0.0))


def sides(of: Contents, credible: bool = True) -> Sides:
    """Both widths of the interval, as shares of the total."""
    if not credible:
        return Sides(LARGEST, LARGEST)
    parts = [(1.0, widths("")), *((getattr(of, name), widths(name)) for name in PARTS)]
    faster, slower = (sum(share * width[side] for share, width in parts) for side in (0, 1))
    return Sides(min(LARGEST, faster), slower)


def kind_of(of: Contents) -> str:
    """What decides how often ranges of such predictions held."""
    large = (name for name, part, least in KINDS if getattr(of, part) > least)
    return next(large, ON_CHIP)


def cold_ms(machine: Machine) -> float:
    """What an inference whose caches are cold takes besides."""
    road = road_of(machine, "flash")
    if not road:
        return COLD_MS
    usual = load_machine(machine.name)
    rates = [m.clocks.npu_mhz / m.cycles_per_byte(road) for m in (usual, machine)]
    return COLD_MS * max(1.0, rates[0] / rates[1])


def bounds_ms(total_ms: float, widths: Sides, cold: float = COLD_MS) -> tuple[float, float]:
    return total_ms * (1 - widths.faster), total_ms * (1 + widths.slower) + cold


def with_placeholders(
    interval_ms: tuple[float, float | None], joins: bool
) -> tuple[float, float | None]:
    """The range where nobody knows the scales of activations yet; `joins`: parts with scales of
    their own are joined, or lie in external RAM."""
    low, high = interval_ms
    widths = JOINED_PLACEHOLDERS if joins else PLACEHOLDERS
    return low * (1 - widths.faster), None if high is None else high * (1 + widths.slower)


def error_text(
    total_ms: float, low_ms: float, high_ms: float, of: Contents, credible: bool = True
) -> str:
    return f"{span_text(total_ms, low_ms, high_ms)}, {coverage_text(of, credible)}"


def span_text(total_ms: float, low_ms: float, high_ms: float) -> str:
    whole = total_ms or 1.0
    faster, slower = 1 - low_ms / whole, high_ms / whole - 1
    return f"-{faster:.0%} to +{slower:.0%}"


def coverage_text(of: Contents, credible: bool = True) -> str:
    """How often ranges of this kind held, or that nothing of the kind was measured."""
    kind = kind_of(of)
    held = ranges().kinds.get(kind)
    unknown = max(of.unmeasured, of.reported, of.unnamed, 2 * of.unlike)
    if held is None or unknown >= _LARGE_PART or not credible:
        return "partly without measurements"
    return f"held for {held.held} of {held.rows} left-out measurements {kind}"


def doubts(
    facts: ProgramFacts, epochs: Sequence[TimedEpoch], machine: Machine, total_ms: float
) -> tuple[str, ...]:
    """Why the prediction is not credible; empty where nothing speaks against it."""
    large = [
        epoch
        for epoch in epochs
        if epoch.ms > _LARGE_PART * total_ms
        if epoch.kind is EpochKind.HW and not epoch.units.keys() & _REDUCING
    ]
    sentences = [
        f"not credible: epoch {epoch.name} reads {ratio:,} times what it writes "
        f"and takes {epoch.ms / total_ms:.0%} of the time"
        for epoch in large
        if (ratio := _reads_to_writes(epoch.counters, machine)) >= _READS_TO_WRITES
    ]
    return (*sentences, *_far_from_roofline(facts, epochs, machine))


def _reads_to_writes(counters: Counted, machine: Machine) -> int:
    """Bytes read for every byte written; weights in flash do not count."""
    read_only = {memory.name for memory in machine.pools if not memory.writable}
    rows = [row for row in counters.traffic if row.pool not in read_only]
    write_bytes = sum(row.write_bytes for row in rows)
    return sum(row.read_bytes for row in rows) // write_bytes if write_bytes else 0


def _far_from_roofline(
    facts: ProgramFacts, epochs: Sequence[TimedEpoch], machine: Machine
) -> tuple[str, ...]:
    """Waiting for external RAM is slow by nature, and so is starting small epochs."""
    hardware = [
        epoch.counters
        for epoch in epochs
        if epoch.kind is EpochKind.HW and epoch.counters.bound is not Bound.EXTERNAL_RAM
    ]
    timing, control = machine.timing, machine.generation.control
    starts = len(hardware) * (timing.epoch_start_cycles + control.controller_cycles)
    core = sum(counters.core_cycles for counters in hardware)
    # The larger of all MACs at the peak rate and all weights out of their memory.
    window = machine.convacc.max_kernel_height**2
    peak = machine.units["CONVACC"] * machine.convacc.tiles["dense8x8"].kernels * window
    stored = {pool.name: pool.weights_bytes for pool in facts.memory.pools}
    fetches = (stored.get(m.name, 0) * machine.cycles_per_byte(m.path) for m in machine.pools)
    bound = max(facts.model.macs / peak, *fetches) + starts
    if not facts.model.macs or core <= _FAR_FROM_ROOFLINE * bound:
        return ()
    return (
        f"not credible: the NPU takes {core / bound:,.0f} times as long as all products at its "
        "peak rate, or fetching all weights, would take",
    )


def remarks(of: Contents, machine: Machine) -> tuple[str, ...]:
    """What a reader has to know of a prediction that is credible."""
    sentences = []
    if of.unmeasured >= _NOTED_PART:
        kernels = ", ".join(of.kernels)
        sentences.append(
            f"{of.unmeasured:.0%} of the time is in CPU kernels whose cost was not measured: "
            f"{kernels}"
        )
    outside = of.external + of.external_calls
    if of.far_layers >= _NOTED_PART and of.unlike >= _FAR_PART:
        sentences.append(
            f"{of.far_layers:.0%} of the time is in layers cut as in no network that was measured "
            f"({'; '.join(of.tiles[:2])}): the vendor's compiler may do something else, such as "
            "adding channels, so the time may be far off; a number of channels with small factors "
            "avoids it"
        )
    if of.pieces >= _NOTED_PART:
        sentences.append(
            f"{of.pieces:.0%} of the time is in large kernels that are cut into pieces; the only "
            "such layer measured by itself took two thirds of what was predicted"
        )
    if outside >= _NOTED_PART:
        sentences.append(
            f"{outside:.0%} of the time waits for external RAM; its cost comes from published "
            "totals only: no such run was measured epoch by epoch"
        )
    if of.reported >= _NOTED_PART:
        sentences.append(
            f"{of.reported:.0%} of the time is in epochs of which the compiler's report does not "
            "say enough (how many results a layer computes at once, or which tensors an operator "
            "reads): network.c of the same build gives a more exact time"
        )
    return (*sentences, *_other_setup(machine))


def other_export(facts: ProgramFacts, machine: Machine) -> tuple[str, ...]:
    """For a file that the vendor published with a latency of another export, that it did."""
    return tuple(
        f"the latency that the vendor publishes for this network with {known.version}, "
        f"{known.published_ms:g} ms, was measured on another export of it, which resizes "
        "bilinearly: it is no measurement of this file"
        for known in ranges().other_exports
        if known.md5 == facts.model.md5 and known.version.startswith(f"{machine.generation.name}.")
    )


def _other_setup(machine: Machine) -> tuple[str, ...]:
    """Clocks and flash that differ from those of the measurements behind the constants."""
    changed = _changed_set_up(machine)
    if not changed:
        return ()
    return (
        f"the constants were measured with another set-up ({', '.join(changed)}): with "
        "other clocks, boards often run the flash slower too; see --flash in docs/machine.md",
    )


def _changed_set_up(machine: Machine) -> list[str]:
    names = (*generations(), *VARIANTS)
    if machine.name not in known_machines() or machine.generation.name not in names:
        return []
    usual = load_machine(machine.name, generation=machine.generation.name)
    changed = [
        name
        for name in usual.clocks.__struct_fields__
        if getattr(usual.clocks, name) != getattr(machine.clocks, name)
    ]
    roads = usual.paths.items()
    return changed + [f"path {name}" for name, road in roads if machine.paths.get(name) != road]
