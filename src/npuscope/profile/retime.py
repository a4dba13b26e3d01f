"""One Program, many machines that differ in timing keys: prepare once, time often."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.profile.facts import ProgramFacts, program_facts
from npuscope.profile.model import Profile, Provenance
from npuscope.profile.run import profile_of
from npuscope.program.model import Program
from npuscope.sim.epochs import count_work
from npuscope.sim.program_work import ProgramWork, program_work


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
