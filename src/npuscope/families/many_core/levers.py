"""What to change: each lever is tried, by compiling again or by timing the program again."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from msgspec import Struct

from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.opstats.lever import Lever, LeverKind, helpful
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.rules import unevenness
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate
from npuscope.graph.model import Graph
from npuscope.shown import significant
from npuscope.structs import replace

_ITERATIONS = 5
_FAST = 1e3  # a road that is never waited for


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
    def lever(self) -> Lever:
        """Fewer cores, which helps only where more of them cost more than they bring."""
        gain = self.all.ms / self.half.ms
        return Lever(LeverKind.CORES, gain, self.half.ms, cores=self.half.cores)

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


def levers(graph: Graph, program: CoreProgram, machine: CoreMachine) -> tuple[Lever, ...]:
    """Those that help, the best first; all are compared with one copy of the program."""
    before = _ms(program, machine)
    ways = [*_copies(graph, program, machine, before), *_retimed(program, machine, before)]
    return helpful(ways)


def _ms(program: CoreProgram, machine: CoreMachine, copies: int = 1) -> float:
    options = RunOptions(_ITERATIONS, collect=False, activations=copies)
    ran = simulate(program, machine, options).iterations[1:]
    return fmean(one.exec_us - one.input_wait_us for one in ran) / 1e3


def _copies(
    graph: Graph, program: CoreProgram, machine: CoreMachine, before: float
) -> Iterator[Lever]:
    """Fewer cores a copy and more copies, as far as the device has cores; or more cores."""
    most, cores = machine.cores.count, program.layout.cores
    for fewer in sorted({cores, max(cores // 4, 1), 1, most} - {0}):
        copies = most // fewer
        if (fewer, copies) == (cores, 1):
            continue
        build = program
        if fewer != cores:
            build = compile_graph(graph, machine, CoreCompileOptions(cores=fewer))
            fewer = build.layout.cores
            copies = most // fewer
        after = _ms(build, machine, copies)
        gain = before * copies / after
        yield Lever(LeverKind.CORES, gain, after, cores=fewer, copies=copies)


def _retimed(program: CoreProgram, machine: CoreMachine, before: float) -> Iterator[Lever]:
    """The same program where something takes no time: what a change could bring at most."""
    free = replace(
        machine,
        ddr=replace(machine.ddr, effective_gb_per_s=machine.ddr.effective_gb_per_s * _FAST),
        dma=replace(machine.dma, ddr_ucycles_per_kb=machine.dma.ddr_ucycles_per_kb / _FAST),
    )
    joined = replace(
        machine,
        sync=replace(
            machine.sync,
            hvx_barrier_share=0.0,
            hmx_barrier_share=0.0,
            dma_barrier_share=0.0,
            hand_over_cycles=0.0,
        ),
    )
    tried = {LeverKind.KEEP: free, LeverKind.JOIN: joined}
    ops = (op.info for part in program.devices for op in part.all_ops())
    if any(info.macs and info.dtypes[:1] == ("float16",) for info in ops):
        tried[LeverKind.INTEGERS] = _integers(machine)
    for kind, other in tried.items():
        after = _ms(program, other)
        yield Lever(kind, before / after, after, bound=True)


def _integers(machine: CoreMachine) -> CoreMachine:
    """Half the bytes on all roads and in all vectors, and HMX at its integer rate."""
    hmx, dma = machine.hmx, machine.dma
    return replace(
        machine,
        hmx=replace(
            hmx,
            float16_macs_per_cycle=hmx.int8_macs_per_cycle,
            store_bytes_per_cycle=2 * hmx.store_bytes_per_cycle,
        ),
        ddr=replace(machine.ddr, effective_gb_per_s=2 * machine.ddr.effective_gb_per_s),
        noc=replace(machine.noc, gb_per_s=2 * machine.noc.gb_per_s),
        dma=replace(
            dma,
            ddr_ucycles_per_kb=dma.ddr_ucycles_per_kb / 2,
            multicast_ucycles_per_kb=dma.multicast_ucycles_per_kb / 2,
        ),
        pcycles_per_kb={kind: rate / 2 for kind, rate in machine.pcycles_per_kb.items()},
    )
