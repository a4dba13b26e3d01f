"""What to change: other set-ups of the network, and what could be had at most."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.opstats.lever import Lever, LeverKind, helpful
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.rules import unevenness
from npuscope.families.many_core.setups.model import CardSetup, SetupPrediction, predict
from npuscope.families.many_core.setups.search import MOST_BATCH
from npuscope.families.many_core.setups.work import NetworkWork
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate
from npuscope.graph.model import Graph
from npuscope.shown import significant
from npuscope.structs import replace

_ITERATIONS = 5
_BATCHES = (2, 8)  # times the inferences of a run


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


def levers(work: NetworkWork, cores: int, machine: CoreMachine) -> tuple[Lever, ...]:
    """Those that help, the best first; all are compared with one copy and one in flight.

    Times are those of the sums whose pace the simulator keeps.
    """
    setup = CardSetup(cores, batch=work.batch)
    now = predict(work, machine, setup).inferences_per_s

    def gain(row: SetupPrediction) -> float:
        return row.inferences_per_s / now

    ways: list[Lever] = []
    # Fewer cores a copy and more copies, as far as the device has cores; or more cores.
    most = machine.cores.count
    for used in sorted({cores, max(cores // 2, 1), max(cores // 4, 1), 1, most}):
        for copies in sorted({1, most // used} - {0}):
            if (used, copies) != (cores, 1):
                row = predict(work, machine, replace(setup, cores=used, copies=copies))
                way = Lever(LeverKind.CORES, gain(row), row.latency_ms, cores=used, copies=copies)
                ways.append(way)
    for times in (times for times in _BATCHES if times * work.batch <= MOST_BATCH):
        row = predict(work, machine, replace(setup, batch=times * work.batch))
        ways.append(Lever(LeverKind.BATCH, gain(row), row.latency_ms, batch=times))
    if work.batch > 1:
        rows = [predict(work, machine, replace(setup, batch=b)) for b in range(1, work.batch)]
        row = max(rows, key=lambda one: one.inferences_per_s)
        ways.append(Lever(LeverKind.SMALLER, gain(row), row.latency_ms, batch=row.setup.batch))
    for kind, other_work, other_machine in _bounds(work, machine):
        row = predict(other_work, other_machine, setup)
        ways.append(Lever(kind, gain(row), row.latency_ms, bound=True))
    return helpful(ways)


def _bounds(
    work: NetworkWork, machine: CoreMachine
) -> Iterator[tuple[LeverKind, NetworkWork, CoreMachine]]:
    """Where something takes no time: what a change could bring at most."""
    costs = machine.setups
    resident = replace(
        costs, resident_bytes=max(costs.resident_bytes, round(work.weight_bytes) + 1)
    )
    yield LeverKind.KEEP, work, replace(machine, setups=resident)
    joined = replace(costs, tile_cycles=0.0, join_cycles=0.0, gather_cycles=0.0)
    yield LeverKind.JOIN, work, replace(machine, setups=joined)
    halves = work.products & (work.macs_per_cycle < machine.hmx.int8_macs_per_cycle)
    if halves.any():
        # Half the bytes on all roads and in all vectors, a quarter over PCIe, HMX at its rate.
        rate = np.where(halves, machine.hmx.int8_macs_per_cycle, work.macs_per_cycle)
        small = replace(
            work,
            macs_per_cycle=rate,
            reads=work.reads / 2,
            writes=work.writes / 2,
            held=work.held / 2,
            weights=work.weights / 2,
            cycles=work.cycles / 2,
            input_bytes=work.input_bytes // 4,
            output_bytes=work.output_bytes // 4,
        )
        yield LeverKind.INTEGERS, small, machine
