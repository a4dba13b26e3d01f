"""A Profile from a Program: count, derive, add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from npuscope.graph.model import Graph
from npuscope.machine.load import road_of, set_up_of
from npuscope.machine.model import Machine
from npuscope.profiling.facts import ProgramFacts, program_facts
from npuscope.profiling.interval import (
    TimedEpoch,
    bounds_ms,
    cold_ms,
    contents,
    doubts,
    error_text,
    other_export,
    remarks,
    sides,
)
from npuscope.profiling.model import (
    EpochProfile,
    MachineInfo,
    Profile,
    Provenance,
    Run,
    RunClocks,
    Spread,
    TimeShares,
)
from npuscope.program.conv_modes import conv_modes
from npuscope.program.model import EpochKind, Program
from npuscope.sim.counters import Bound, EpochCounters, PoolTraffic
from npuscope.sim.epochs import Phases, count_epochs, count_many, count_work
from npuscope.sim.many import alike
from npuscope.sim.program_work import ProgramWork, program_work


def estimate(program: Program, machine: Machine, graph: Graph | None = None) -> Profile:
    """Timing model alone: no data is run."""
    counters = count_work(program_work(program, machine), machine)
    facts = program_facts(program, machine, graph)
    return profile_of(facts, counters, machine, Provenance.ESTIMATE)


def profile(
    program: Program, machine: Machine, graph: Graph | None = None, batch: int = 1
) -> Profile:
    """Run on the simulated device; its counters are the same in every inference."""
    counters = count_epochs(program, machine)
    facts = program_facts(program, machine, graph)
    return profile_of(facts, counters, machine, Provenance.SIMULATION, batch)


def profile_of(
    facts: ProgramFacts,
    counters: tuple[EpochCounters, ...],
    machine: Machine,
    source: Provenance,
    batch: int = 1,
) -> Profile:
    """What was counted, with what is known of the program and what follows from both."""
    epochs = tuple(
        _epoch(index, facts, row, machine, source, batch) for index, row in enumerate(counters)
    )
    total_ms = sum(epoch.ms for epoch in epochs)
    time = _shares(facts, epochs, machine)
    interval_ms, notes, error = _judged(facts, epochs, machine, total_ms)
    clocks = machine.clocks
    run_clocks = RunClocks(clocks.mcu_mhz, clocks.npu_mhz, clocks.noc_mhz, clocks.nic_mhz)
    return Profile(
        program_hash=facts.program_hash,
        model=facts.model,
        machine=MachineInfo(
            machine.name,
            machine.generation.name,
            machine.epoch_controller,
            clocks.mcu_mhz,
            clocks.npu_mhz,
            set_up_of(machine, "flash"),
            set_up_of(machine, "psram"),
            _assumed(facts, machine),
            machine.chip,
            machine.board,
            machine.generation.title,
        ),
        runs=(Run(source, run_clocks, batch),),
        epochs=epochs,
        total_ms=total_ms,
        interval_ms=interval_ms,
        model_error=error,
        time=time,
        memory=facts.memory,
        fit=facts.fit,
        counts=dict(facts.counts),
        notes=notes,
        unknown_ops=facts.unknown_ops,
    )


def _assumed(facts: ProgramFacts, machine: Machine) -> tuple[str, ...]:
    """Set-ups of external memories that the time depends on and nobody stated."""
    used = {pool.name for pool in facts.memory.pools if pool.used_bytes}
    paths = {pool.path for pool in machine.pools if pool.name in used}
    return tuple(memory for memory in machine.assumed if road_of(machine, memory) in paths)


def _judged(
    facts: ProgramFacts, epochs: Sequence[TimedEpoch], machine: Machine, total_ms: float
) -> tuple[tuple[float, float | None], tuple[str, ...], str]:
    """The interval, what a reader has to know, and the interval in words."""
    made_of = contents(facts, epochs, machine, total_ms)
    doubtful = doubts(facts, epochs, machine, total_ms)
    widths = sides(made_of, credible=not doubtful)
    low, high = bounds_ms(total_ms, widths, cold_ms(machine))
    # A verdict of "fits" says nothing of use for what the NPU has no part in.
    works = any(epoch.kind is EpochKind.HW for epoch in facts.epochs)
    idle = () if works else ("the NPU computes nothing of this network",)
    known = other_export(facts, machine)
    notes = (*doubtful, *facts.notes, *idle, *known, *remarks(made_of, machine))
    error = error_text(total_ms, low, high, made_of, not doubtful) if total_ms else ""
    return (low, None if facts.unknown_ops else high), notes, error


def _epoch(
    index: int,
    facts: ProgramFacts,
    counters: EpochCounters,
    machine: Machine,
    source: Provenance,
    batch: int,
) -> EpochProfile:
    epoch = facts.epochs[index]
    mcu_cycles = counters.pre_cycles + counters.post_cycles
    ms = _milliseconds(mcu_cycles, counters.core_cycles, machine)
    return EpochProfile(
        index=index,
        name=facts.names[index],
        first=epoch.number,
        last=epoch.last_number,
        kind=epoch.kind,
        blob=epoch.blob,
        operators=epoch.operators,
        origin=epoch.origin,
        units=dict(facts.units[index]),
        claims=epoch.claims,
        counters=counters,
        ms=ms,
        provenance=source,
        # The simulation gives the same cycles in every inference.
        spread=Spread(ms, ms, ms, batch),
        modes=conv_modes(epoch.units),
    )


def _milliseconds(mcu_cycles: float, core_cycles: float, machine: Machine) -> float:
    clocks = machine.clocks
    return (mcu_cycles / clocks.mcu_mhz + core_cycles / clocks.npu_mhz) / 1000


def _shares(facts: ProgramFacts, epochs: Sequence[TimedEpoch], machine: Machine) -> TimeShares:
    """Core time of the NPU without what the epoch controller adds to it, and the rest."""
    controller = machine.generation.control.controller_cycles / machine.clocks.npu_mhz / 1000
    blobs = sum(epoch.kind is EpochKind.HW and epoch.blob is not None for epoch in facts.epochs)
    return time_shares(epochs, machine.clocks.npu_mhz, controller * blobs)


def time_shares(epochs: Sequence[TimedEpoch], npu_mhz: float, programmed_ms: float) -> TimeShares:
    hardware = [epoch for epoch in epochs if epoch.kind is EpochKind.HW]
    core = sum(e.counters.core_cycles for e in hardware) / npu_mhz / 1000
    # What the epoch controller adds to the core phase is control, not work.
    core = max(0.0, core - programmed_ms)
    return TimeShares(
        npu_core_ms=core,
        control_ms=sum(epoch.ms for epoch in hardware) - core,
        software_ms=sum(epoch.ms for epoch in epochs if epoch.kind is EpochKind.SW),
        hybrid_ms=sum(epoch.ms for epoch in epochs if epoch.kind is EpochKind.HYBRID),
    )


# --- One Program on many machines that differ in timing keys: prepare once, time often ---


class Retimer(Struct, frozen=True):
    """All of a Program that timing keys leave alone."""

    work: ProgramWork
    facts: ProgramFacts

    def estimate(self, machine: Machine) -> Profile:
        """The Profile that `profile.run.estimate` gives, for a machine with other timing keys.

        Its mapping keys have to be those that the Retimer was prepared with.
        """
        counters = count_work(self.work, machine)
        return profile_of(self.facts, counters, machine, Provenance.ESTIMATE)

    def times(self, machines: Sequence[Machine]) -> tuple[RunTimes, ...]:
        """The times that `estimate` gives for each of the machines, all computed together."""
        by_number: dict[int, RunTimes] = {}
        for numbers in alike(machines):
            part = [machines[number] for number in numbers]
            phases = count_many(self.work, part)
            for number, machine, epochs in zip(numbers, part, phases, strict=True):
                by_number[number] = _times(self, machine, epochs)
        return tuple(by_number[number] for number in range(len(machines)))


class RunTimes(Struct, frozen=True):
    """Of a Profile, what the machine's timing keys decide, without the epochs."""

    total_ms: float
    interval_ms: tuple[float, float | None]
    time: TimeShares
    notes: tuple[str, ...]

    @property
    def inferences_per_s(self) -> float:
        return 1000.0 / self.total_ms if self.total_ms else 0.0


class _Counted(NamedTuple):
    bound: Bound
    core_cycles: float
    traffic: tuple[PoolTraffic, ...]


class _TimedEpoch(NamedTuple):
    name: str
    kind: EpochKind
    units: Mapping[str, int]
    ms: float
    counters: _Counted


def _times(timer: Retimer, machine: Machine, phases: Sequence[Phases]) -> RunTimes:
    facts = timer.facts
    epochs = [
        _TimedEpoch(
            facts.names[index],
            work.epoch.kind,
            facts.units[index],
            _milliseconds(pre + post, core, machine),
            _Counted(bound, core, work.traffic),
        )
        for index, (work, (pre, core, post, bound)) in enumerate(
            zip(timer.work.epochs, phases, strict=True)
        )
    ]
    total_ms = sum(epoch.ms for epoch in epochs)
    interval_ms, notes, _ = _judged(facts, epochs, machine, total_ms)
    return RunTimes(total_ms, interval_ms, _shares(facts, epochs, machine), notes)


def retimer(program: Program, machine: Machine, graph: Graph | None = None) -> Retimer:
    return Retimer(program_work(program, machine), program_facts(program, machine, graph))
