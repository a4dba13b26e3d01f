"""How far a prediction may be off, from what the network is made of, and what to warn of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from npuscope.machine.load import generations, known_machines, load_machine
from npuscope.machine.model import Machine
from npuscope.profiling.facts import ProgramFacts
from npuscope.program.model import EpochKind
from npuscope.sim.counters import Bound, PoolTraffic

# Widths as shares of the total. They are the narrowest that would have held for 90 % of the
# families of networks in docs/accuracy.md, with constants fitted without the family; of a family
# that the widths were chosen without as well, 89 % (benchmarks/accuracy.py --intervals). Those of
# external RAM and of kernels without a measurement are wider than that: few families have them, so
# that all families together would hold without them.

BASE = 0.10
COMBINING_SHARE = 0.40  # epochs without a convolution: the vendor may have grouped them otherwise
CPU_SHARE = 0.30  # software and library calls are known by few measurements
EXTERNAL_SHARE = 0.40  # external RAM is bound by accesses: placement decides
REPORTED_SHARE = 0.20  # epochs known from a report, not from registers: builds timed both ways
UNMEASURED_SHARE = 0.80  # kernels without a measured cost
LARGEST = 0.90  # also where a part is not credible
HOLDS = "83 %"

# An epoch that only moves or combines cannot need so much more than it makes: where it takes a
# large part of the time, the program was misread or will not run as it stands.
_READS_TO_WRITES = 1000
_REDUCING = {"CONVACC", "POOL"}
_LARGE_PART = 0.10
_FAR_FROM_ROOFLINE = 100
_NOTED_PART = 0.05


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
    reported: float = 0.0  # epochs of the NPU without registers


def contents(
    facts: ProgramFacts, epochs: Sequence[TimedEpoch], machine: Machine, total_ms: float
) -> Contents:
    whole = total_ms or 1.0
    cpu = combining = outside = reported = 0.0
    unmeasured: dict[str, float] = {}
    for epoch, facts_of_epoch in zip(epochs, facts.epochs, strict=True):
        kernel = facts_of_epoch.call.kernel if facts_of_epoch.call else ""
        if epoch.counters.bound is Bound.EXTERNAL_RAM:
            outside += epoch.ms
        elif epoch.kind is EpochKind.HW and facts_of_epoch.groups is None:
            reported += epoch.ms
        elif epoch.kind is EpochKind.HW:
            combining += 0.0 if "CONVACC" in epoch.units else epoch.ms
        elif not kernel or kernel in machine.software:
            cpu += epoch.ms
        else:
            unmeasured[kernel] = unmeasured.get(kernel, 0.0) + epoch.ms
    slowest = tuple(sorted(unmeasured, key=lambda name: -unmeasured[name]))
    rest = sum(unmeasured.values())
    return Contents(
        combining / whole, cpu / whole, rest / whole, outside / whole, slowest, reported / whole
    )


def half_width(of: Contents, credible: bool = True) -> float:
    """Half of the interval, as a share of the total."""
    if not credible:
        return LARGEST
    half = BASE + COMBINING_SHARE * of.combining + CPU_SHARE * of.cpu
    half += REPORTED_SHARE * of.reported
    return min(LARGEST, half + EXTERNAL_SHARE * of.external + UNMEASURED_SHARE * of.unmeasured)


def error_text(half: float) -> str:
    return f"±{half:.0%}, expected to hold for {HOLDS} of new networks"


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
    if of.external >= _NOTED_PART:
        sentences.append(
            f"{of.external:.0%} of the time waits for external RAM; its cost comes from published "
            "totals only: no such run was measured epoch by epoch"
        )
    if of.reported >= _NOTED_PART:
        sentences.append(
            "timed from the compiler's report, which holds no registers: the network.c of the same "
            "build gives a more exact time"
        )
    return (*sentences, *_other_setup(machine))


def _other_setup(machine: Machine) -> tuple[str, ...]:
    """Clocks and flash that differ from those of the measurements behind the constants."""
    if machine.name not in known_machines() or machine.generation.name not in generations():
        return ()
    usual = load_machine(machine.name, generation=machine.generation.name)
    changed = [
        name
        for name in usual.clocks.__struct_fields__
        if getattr(usual.clocks, name) != getattr(machine.clocks, name)
    ]
    roads = usual.paths.items()
    changed += [f"path {name}" for name, road in roads if machine.paths.get(name) != road]
    if not changed:
        return ()
    return (
        f"the constants were measured with another set-up ({', '.join(changed)}): with "
        "other clocks, boards often run the flash slower too; see --flash in docs/machine.md",
    )
