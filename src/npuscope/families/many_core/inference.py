"""A network on a many-core machine: compiled, simulated, as the Profile that all verbs share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.bounded_file import CORE_PROGRAM, opened, read_bytes
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.compiler.depth_first import batch_of
from npuscope.families.many_core.compiler.metrics import perf_metrics
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.container import FILE_NAME
from npuscope.families.many_core.machine import CoreMachine, known_core_machines, load_core_machine
from npuscope.families.many_core.opstats.lever import Lever
from npuscope.families.many_core.opstats.model import CoreBound, CoreVerdict, Opstats
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.families.many_core.rules import FAMILY, core_findings
from npuscope.families.many_core.scaling import Scaling, scaling
from npuscope.families.many_core.setups.levers import levers
from npuscope.families.many_core.setups.model import (
    MODEL_ERROR,
    CardSetup,
    SetupLimit,
    SetupPrediction,
    predict,
)
from npuscope.families.many_core.setups.network import compilable_graph
from npuscope.families.many_core.setups.search import Objective, search
from npuscope.families.many_core.setups.work import NetworkWork, network_work
from npuscope.families.many_core.sim.conditions import RunOptions, RunResult
from npuscope.families.many_core.sim.run import simulate
from npuscope.families.many_core.sources import read_source, source_model
from npuscope.families.many_core.specializations import read_programs
from npuscope.graph.model import Graph
from npuscope.profiling.model import (
    Fit,
    MachineInfo,
    MemoryUse,
    ModelInfo,
    PoolUse,
    Profile,
    TensorInfo,
)
from npuscope.profiling.plain import plain_part, plain_profile
from npuscope.rulebook.finding import Finding, Severity
from npuscope.structs import replace
from npuscope.text import safe_terminal

# All of the simulator's different inferences are among so many, most likely.
_ITERATIONS = 17
_BLOCK = 1 << 20  # bytes of a file that are read at once
_MS = 1e3 / UTIMER_HZ


# Of programs that are compiled to be timed: all records, so that all tables have their rows.
OPTIONS = CoreCompileOptions(stats_level=70, ddr_stats=True)


class CoreBuild(Struct, frozen=True):
    """A program with its machine and the network that it was made of."""

    program: CoreProgram
    machine: CoreMachine
    graph: Graph
    file: str
    md5: str
    path: Path | None = None  # of the model, where it is a file

    @property
    def batch(self) -> int:
        return batch_of(self.graph)

    @property
    def work(self) -> NetworkWork:
        return network_work(self.graph, self.machine, self.batch)

    @property
    def prediction(self) -> SetupPrediction:
        """Of one copy on its cores, one inference in flight: the set-up that is simulated."""
        setup = CardSetup(self.program.layout.cores, batch=self.batch)
        return predict(self.work, self.machine, setup)

    @property
    def machine_words(self) -> str:
        cores = f"{self.program.layout.cores} of {self.machine.cores.count} cores"
        return f"{cores}, batch {self.batch}"


class CoreInference(Struct, frozen=True):
    """A simulated run with its tables and what changes of it would give."""

    build: CoreBuild
    result: RunResult
    tables: Opstats
    prediction: SetupPrediction
    levers: tuple[Lever, ...] = ()
    scaling: Scaling | None = None

    @property
    def setups(self) -> dict[Objective, SetupPrediction]:
        """The best of a whole card, by what it is best for."""
        work, machine = self.build.work, self.build.machine
        return {one: search(work, machine, one).best for one in Objective}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the rules find in the run, with the gains of the levers that were tried."""
        return core_findings(replace(self.tables, levers=self.levers))


def compiled(source: str | Path | Graph, options: Mapping[str, Any]) -> CoreBuild:
    machine = load_core_machine(
        options.get("machine") or known_core_machines()[0],
        overrides=options.get("overrides"),
        machine_file=options.get("machine_file"),
    )
    shapes = options.get("shapes")
    graph = source if isinstance(source, Graph) else compilable_graph(Path(source), shapes)
    program = compile_graph(graph, machine, OPTIONS)
    if isinstance(source, Graph):
        return CoreBuild(program, machine, graph, graph.name, "")
    return CoreBuild(program, machine, graph, Path(source).name, _md5(source), Path(source))


def stored(path: Path, options: Mapping[str, Any]) -> CoreBuild:
    """The program of a container, or of the folder that holds one, compiled again from its model.

    A container says which model and options it was compiled from; only ids that agree are the same
    program.
    """
    file = path / FILE_NAME if path.is_dir() else path
    data = read_bytes(file, CORE_PROGRAM)
    known = known_core_machines()
    hint = f"give the model, with --machine {known[0]}"
    where = safe_terminal(str(file))
    try:
        source, program = read_source(data), read_programs(data)[0]
        if source is None:
            raise FileError("does not say from which model it was compiled", where=where)
        model = source_model(source, file.parent)
    except FileError as error:
        raise FileError(error.message, where=error.where or where, hint=hint) from None
    # Verbs whose machine nobody named say that of the first family.
    name = options.get("machine")
    machine = load_core_machine(
        str(name) if name in known else known[0],
        overrides=options.get("overrides"),
        machine_file=options.get("machine_file"),
    )
    graph = compilable_graph(model, {one.name: one.shape for one in program.inputs})
    asked = replace(source.options, network=program.layout.network)
    again = compile_graph(graph, machine, asked)
    if again.layout.program_uuid != program.layout.program_uuid:
        raise UsageError(
            "the program was compiled for another machine, or by another version",
            where=where,
            hint="give --set and --machine as when it was compiled, or compile it again",
        )
    timed = replace(asked, stats_level=OPTIONS.stats_level, ddr_stats=OPTIONS.ddr_stats)
    if timed != asked:
        again = compile_graph(graph, machine, timed)
    return CoreBuild(again, machine, graph, file.name, _md5(file), model)


def _md5(path: str | Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with opened(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def inference(build: CoreBuild) -> Profile:
    """Simulated, with the levers that were tried; its Inference is the payload."""
    options = RunOptions(iterations=_ITERATIONS, start_iteration=1)
    result = simulate(build.program, build.machine, options)
    timing = build.prediction
    tables = opstats_of(result.stats[0])
    roof = tables.roofline and replace(tables.roofline, ddr_bytes=round(timing.ddr_bytes))
    tables = replace(tables, verdict=_verdict(timing), roofline=roof)
    ways = levers(build.work, build.program.layout.cores, build.machine)
    halves = scaling(build.graph, build.program, build.machine)
    run = CoreInference(build, result, tables, timing, ways, halves)
    low, high = timing.interval
    metrics = perf_metrics(build.program)
    # VTCM of all cores, and DDR for the constants.
    used = [core.vtcm_bytes for core in metrics.cores]
    room = build.machine.memory.vtcm_bytes * len(used)
    vtcm = PoolUse("VTCM", sum(used), room, 0, sum(used), sum(used))
    return plain_profile(
        ModelInfo(
            build.file,
            build.md5,
            _tensors(build.graph, build.graph.inputs),
            _tensors(build.graph, build.graph.outputs),
            metrics.macs,
            build.graph.parameters(),
        ),
        core_machine_info(build.machine),
        [
            plain_part(number, row.node, (row.end_uc - row.start_uc) * _MS, origin=row.origin)
            for number, row in enumerate(tables.nodes)
        ],
        total_ms=timing.latency_ms,
        interval_ms=(low * timing.latency_ms, high * timing.latency_ms),
        model_error=MODEL_ERROR,
        memory=MemoryUse(sum(used), 0, metrics.constant_bytes, 0, (vtcm,)),
        fit=Fit(False, False, True, "constants are in DDR"),
        notes=build.program.layout.notes,
        family=FAMILY,
        machine_words=build.machine_words,
        fit_words=f"activations {'leave' if build.program.spilled else 'stay in'} VTCM",
        batch=build.batch,
        figures=core_figures(timing.ddr_bytes, dict(tables.verdict.shares), run.findings),
        payload=run,
    )


def _verdict(timing: SetupPrediction) -> CoreVerdict:
    """What the set-up waits for most, as `manycore setups` says it; shares of the time of a run."""
    always = (SetupLimit.HMX, SetupLimit.HVX, SetupLimit.DDR, SetupLimit.HOST)
    shares = {
        str(limit): ms / timing.period_ms
        for limit, ms in timing.parts_ms.items()
        if ms or limit in always
    }
    ranked = tuple(sorted(shares.items(), key=lambda pair: -pair[1]))
    return CoreVerdict(CoreBound[timing.limit.name], ranked)


def core_machine_info(machine: CoreMachine) -> MachineInfo:
    mhz = machine.clocks.core_mhz
    return MachineInfo(
        machine.name, "", False, mhz, mhz, chip=machine.chip, compiler="npuscope's own compiler"
    )


def core_figures(
    ddr_bytes: float | None, shares: Mapping[str, float], findings: tuple[Finding, ...] | None
) -> dict[str, float]:
    """What only this family counts, by the names that limits take."""
    figures = {} if ddr_bytes is None else {"ddr_bytes": float(ddr_bytes)}
    figures |= {f"{name.lower()}_share": share for name, share in shares.items()}
    if findings is not None:
        severities = [finding.severity for finding in findings]
        figures |= {f"findings.{one}": float(severities.count(one)) for one in Severity}
    return figures


def _tensors(graph: Graph, names: tuple[str, ...]) -> tuple[TensorInfo, ...]:
    tensors = (graph.tensor(name) for name in names)
    return tuple(
        TensorInfo(t.name, t.shape, t.dtype.value, None, None, t.size_bytes) for t in tensors
    )
