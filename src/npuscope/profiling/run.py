"""A Profile from a Program: count, derive, add up."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.profiling.facts import ProgramFacts, program_facts
from npuscope.profiling.interval import contents, doubts, error_text, half_width, remarks
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
from npuscope.program.model import EpochKind, Program
from npuscope.sim.counters import EpochCounters
from npuscope.sim.epochs import count_epochs, count_work
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
        _epoch(index, facts, counted, machine, source, batch)
        for index, counted in enumerate(counters)
    )
    total_ms = sum(epoch.ms for epoch in epochs)
    time = _shares(epochs, machine)
    made_of = contents(facts, epochs, machine, total_ms)
    doubtful = doubts(facts, epochs, machine, total_ms)
    half = half_width(made_of, credible=not doubtful)
    unknown = facts.unknown_ops
    return Profile(
        program_hash=facts.program_hash,
        model=facts.model,
        machine=_machine(machine),
        runs=(Run(source, _clocks(machine), batch),),
        epochs=epochs,
        total_ms=total_ms,
        interval_ms=(total_ms * (1 - half), None if unknown else total_ms * (1 + half)),
        model_error=error_text(half),
        time=time,
        memory=facts.memory,
        fit=facts.fit,
        counts=dict(facts.counts),
        notes=(*doubtful, *facts.notes, *remarks(made_of, machine)),
        unknown_ops=unknown,
    )


def _epoch(
    index: int,
    facts: ProgramFacts,
    counted: EpochCounters,
    machine: Machine,
    source: Provenance,
    batch: int,
) -> EpochProfile:
    epoch = facts.epochs[index]
    ms = _milliseconds(counted, machine)
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
        counters=counted,
        ms=ms,
        provenance=source,
        # The simulation gives the same cycles in every inference.
        spread=Spread(ms, ms, ms, batch),
    )


def _milliseconds(counted: EpochCounters, machine: Machine) -> float:
    mcu_cycles = counted.pre_cycles + counted.post_cycles
    clocks = machine.clocks
    return (mcu_cycles / clocks.mcu_mhz + counted.core_cycles / clocks.npu_mhz) / 1000


def _shares(epochs: tuple[EpochProfile, ...], machine: Machine) -> TimeShares:
    """Core time of the NPU without what the epoch controller adds to it, and the rest."""
    controller = machine.generation.control.controller_cycles / machine.clocks.npu_mhz / 1000
    blobs = sum(epoch.kind is EpochKind.HW and epoch.blob is not None for epoch in epochs)
    return time_shares(epochs, machine.clocks.npu_mhz, controller * blobs)


def time_shares(
    epochs: tuple[EpochProfile, ...], npu_mhz: float, programmed_ms: float
) -> TimeShares:
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


def _machine(machine: Machine) -> MachineInfo:
    return MachineInfo(
        machine.name,
        machine.generation.name,
        machine.epoch_controller,
        machine.clocks.mcu_mhz,
        machine.clocks.npu_mhz,
    )


def _clocks(machine: Machine) -> RunClocks:
    clocks = machine.clocks
    return RunClocks(clocks.mcu_mhz, clocks.npu_mhz, clocks.noc_mhz, clocks.nic_mhz)


# --- One Program on many machines that differ in timing keys: prepare once, time often ---


@dataclass(frozen=True, slots=True)
class Retimer:
    """All of a Program that timing keys leave alone."""

    work: ProgramWork
    facts: ProgramFacts

    def estimate(self, machine: Machine) -> Profile:
        """The Profile that `profile.run.estimate` gives, for a machine with other timing keys.

        Its mapping keys have to be those that the Retimer was prepared with.
        """
        counters = count_work(self.work, machine)
        return profile_of(self.facts, counters, machine, Provenance.ESTIMATE)


def retimer(program: Program, machine: Machine, graph: Graph | None = None) -> Retimer:
    return Retimer(program_work(program, machine), program_facts(program, machine, graph))
