"""What the second half of the cores brings to a program, and why not more."""

from __future__ import annotations

from statistics import fmean

from msgspec import Struct

from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.rules import unevenness
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate
from npuscope.graph.model import Graph
from npuscope.shown import significant

_ITERATIONS = 5


class CoresAtWork(Struct, frozen=True):
    """One copy on so many cores: where the time of its critical path goes."""

    cores: int
    ms: float
    path_us: dict[str, float]
    unevenness: float  # work of the busiest core, times the mean

    @property
    def engines_us(self) -> float:
        return self.path_us.get("HVX", 0.0) + self.path_us.get("HMX", 0.0)


class Scaling(Struct, frozen=True):
    """What the second half of the cores brings, and why not more."""

    half: CoresAtWork
    all: CoresAtWork

    @property
    def sentence(self) -> str:
        a, b = self.half, self.all
        parts = {
            "engines": (a.engines_us, b.engines_us),
            **{
                name: (a.path_us.get(name, 0.0), b.path_us.get(name, 0.0))
                for name in ("DDR", "transfers", "synchronisation")
            },
        }
        moved = ", ".join(f"{name} {x:.0f} -> {y:.0f}" for name, (x, y) in parts.items() if x or y)
        return (
            f"{a.cores} -> {b.cores} cores: {significant(a.ms, 4)} -> {significant(b.ms, 4)} ms; "
            "on the critical path, us: "
            f"{moved}; busiest core {a.unevenness:.2f} -> {b.unevenness:.2f} times the mean work"
        )


def scaling(graph: Graph, program: CoreProgram, machine: CoreMachine) -> Scaling | None:
    """The program against one for half of its cores."""
    cores = program.layout.cores
    if cores < 2 or len(program.devices) > 1:
        return None
    options = CoreCompileOptions(cores // 2, stats_level=70, ddr_stats=True)
    half = _cores(compile_graph(graph, machine, options), machine)
    return Scaling(half, _cores(program, machine))


def _cores(program: CoreProgram, machine: CoreMachine) -> CoresAtWork:
    result = simulate(program, machine, RunOptions(_ITERATIONS, start_iteration=1))
    times = [one.exec_us - one.input_wait_us for one in result.iterations[1:]]
    tables = opstats_of(result.stats[0])
    us = tables.totals.seconds * 1e6
    # The time of a copy is without the wait for the host.
    path = {name: share * us for name, share in tables.path if name != "waiting"}
    return CoresAtWork(program.layout.cores, fmean(times) / 1e3, path, unevenness(tables))
