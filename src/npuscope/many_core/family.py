"""The family of many-core machines behind the verbs that all families share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.errors import UsageError
from npuscope.families import Report
from npuscope.files.load import load_model
from npuscope.graph.model import Graph
from npuscope.lean_dataclass import dataclass, replace
from npuscope.many_core.compiler.metrics import perf_metrics
from npuscope.many_core.compiler.options import CompileOptions
from npuscope.many_core.compiler.pipeline import compile_graph
from npuscope.many_core.levers import Scaling, levers, scaling
from npuscope.many_core.machine import CoreMachine, known_core_machines, load_core_machine
from npuscope.many_core.opstats.lever import Lever, helpful
from npuscope.many_core.opstats.model import Opstats
from npuscope.many_core.opstats.tables import opstats_of
from npuscope.many_core.program import CoreProgram
from npuscope.many_core.rules import core_findings
from npuscope.many_core.sim.conditions import RunOptions, RunResult
from npuscope.many_core.sim.run import simulate
from npuscope.rulebook.finding import Finding, finding_json
from npuscope.text import safe_terminal

SCHEMA = "npuscope/estimate/1"
# All of the simulator's different inferences are among so many, most likely.
_ITERATIONS = 17
_SHOWN_LEVERS = 8
_MADE_FOR_OTHERS = (
    "generation", "epoch_controller", "art_profile", "mpool", "input_data_type",
    "output_data_type", "mcu_mhz", "npu_mhz", "flash", "psram", "mdesc", "as_int8",
    "compiled_from", "ec_single_epoch", "relocatable",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CoreBuilt:
    """A program with its machine and the network that it was made of."""

    program: CoreProgram
    machine: CoreMachine
    graph: Graph
    file: str
    md5: str


@dataclass(frozen=True, slots=True)
class CoreTimed:
    built: CoreBuilt
    result: RunResult
    tables: Opstats
    levers: tuple[Lever, ...] = ()
    scaling: Scaling | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the rules find in the run, with the gains of the levers that were tried."""
        return core_findings(replace(self.tables, levers=self.levers))

    @property
    def times_ms(self) -> list[float]:
        """Of the device, without the wait for the host's input."""
        return [(one.exec_us - one.input_wait_us) / 1e3 for one in self.result.iterations]

    @property
    def total_ms(self) -> float:
        return fmean(self.times_ms)

    @property
    def inferences_per_s(self) -> float:
        return 1e3 * _batch(self.built.graph) / self.total_ms


class ManyCoreFamily:
    """Implements npuscope.families.Family."""

    name = "many-core"

    def machines(self) -> tuple[str, ...]:
        return known_core_machines()

    def described(self, machine: str) -> Report:
        found = load_core_machine(machine)
        return Report(_machine_text(found), _machine_json(found))

    def keys(self, machine: str) -> tuple[tuple[str, object], ...]:
        return tuple(_keys(load_core_machine(machine)))

    def compile(self, source: str | Path, options: Mapping[str, Any]) -> CoreBuilt:
        _check(options)
        machine = load_core_machine(
            options.get("machine") or known_core_machines()[0],
            overrides=options.get("overrides"),
            machine_file=options.get("machine_file"),
        )
        path = Path(source)
        graph = load_model(path, options.get("shapes"))
        program = compile_graph(graph, machine, CompileOptions(stats_level=70, ddr_stats=True))
        md5 = hashlib.md5(read_bytes(path, MODEL), usedforsecurity=False).hexdigest()
        return CoreBuilt(program, machine, graph, path.name, md5)

    def time(self, program: CoreBuilt) -> CoreTimed:
        asked = RunOptions(iterations=_ITERATIONS, start_iteration=1)
        result = simulate(program.program, program.machine, asked)
        tables = opstats_of(result.stats[0])
        found = levers(program.graph, program.program, program.machine)
        # Another batch needs another file; what it would bring is read off the run.
        batch = [lever for lever in tables.levers if lever.most is not None]
        halves = scaling(program.graph, program.program, program.machine)
        fewer = [] if halves is None else [halves.lever]
        return CoreTimed(program, result, tables, helpful([*found, *batch, *fewer]), halves)

    def report(self, timed: CoreTimed) -> Report:
        return Report("\n".join(_lines(timed)), _json(timed))


FAMILY = ManyCoreFamily()


def _check(options: Mapping[str, Any]) -> None:
    for name in _MADE_FOR_OTHERS:
        if options.get(name) not in (None, False):
            raise UsageError(
                f"this option is not made for {options.get('machine')}",
                where=f"--{name.replace('_', '-')}",
                hint="--set KEY=VALUE changes the machine; npuscope machines --keys lists the keys",
            )


# --- Text and JSON ---


def _lines(timed: CoreTimed) -> Iterator[str]:
    built, metrics = timed.built, perf_metrics(timed.built.program)
    times, batch = timed.times_ms, _batch(built.graph)
    fit = f"activations {'leave' if built.program.spilled else 'stay in'} VTCM"
    speed = f"{timed.total_ms:.4g} ms, {1e3 * batch / timed.total_ms:.4g} inf/s"
    yield f"{fit}; {speed} (predicted)"
    ops = sum(len(part.all_ops()) for part in built.program.devices)
    macs, params = metrics.macs / 1e6, built.graph.parameters() / 1e6
    millions = f"{macs:,.2f} M MACs, {params:,.2f} M parameters"
    yield f"model    {safe_terminal(built.file)}: {millions}, {ops:,} ops"
    cores = f"{built.program.layout.cores} of {built.machine.cores.count} cores"
    yield f"machine  {built.machine.name}, {cores}, batch {batch}"
    yield f"range    {min(times):.4g} to {max(times):.4g} ms with the clock"
    yield ""
    yield "Engine       at work"
    for name, share in timed.tables.verdict.shares:
        yield f"  {name:<8}{100 * share:>10.1f}%"
    yield ""
    traffic = (timed.tables.ddr_bytes or 0) / 1e6
    rate = traffic / timed.total_ms
    peak = built.machine.ddr.peak_gb_per_s
    yield f"DDR      {traffic:,.1f} MB per run, {rate:.1f} GB/s of {peak:g}"
    most = max(core.vtcm_bytes for core in metrics.cores) / 1024
    room = built.machine.memory.vtcm_bytes / 1024
    yield f"VTCM     {most:,.0f} of {room:,.0f} KB on the fullest core"
    if timed.tables.roofline is not None:
        yield f"roofline {timed.tables.roofline.sentence}"
    if timed.tables.path:
        told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in timed.tables.path)
        yield f"path     {told}"
    yield f"verdict  {timed.tables.verdict.sentence}"
    if timed.scaling is not None:
        yield f"cores    {timed.scaling.sentence}"
    yield from (f"lever    {lever.sentence}" for lever in timed.levers[:_SHOWN_LEVERS])
    yield from (f"note     {safe_terminal(note)}" for note in built.program.layout.notes)


def _batch(graph: Graph) -> int:
    """Inferences in one run: the first size that all inputs have."""
    sizes = {graph.tensors[name].shape[0] for name in graph.inputs if graph.tensors[name].shape}
    return sizes.pop() if len(sizes) == 1 else 1


def _json(timed: CoreTimed) -> dict[str, Any]:
    built, times = timed.built, timed.times_ms
    metrics = perf_metrics(built.program)
    batch = _batch(built.graph)
    return {
        "schema": SCHEMA,
        "model": {
            "file": built.file,
            "md5": built.md5,
            "inputs": [asdict(binding) for binding in built.program.inputs],
            "outputs": [asdict(binding) for binding in built.program.outputs],
            "macs": metrics.macs,
            "params": built.graph.parameters(),
        },
        "machine": {
            "name": built.machine.name,
            "family": FAMILY.name,
            "cores": built.program.layout.cores,
            "core_mhz": built.machine.clocks.core_mhz,
        },
        "total_ms": round(timed.total_ms, 6),
        "interval_ms": [round(min(times), 6), round(max(times), 6)],
        "unknown_ops": [],
        "model_error": "",
        "inferences_per_s": round(1e3 * batch / timed.total_ms, 3),
        "memory": {
            "vtcm_bytes": [core.vtcm_bytes for core in metrics.cores],
            "ddr_bytes": timed.tables.ddr_bytes,
            "constant_bytes": metrics.constant_bytes,
        },
        "engines": {name: round(share, 6) for name, share in timed.tables.verdict.shares},
        "verdict": timed.tables.verdict.bound.name,
        "levers": [lever.plain() for lever in timed.levers],
        "scaling": None if timed.scaling is None else asdict(timed.scaling),
        "path": dict(timed.tables.path),
        "modules": [asdict(row) for row in timed.tables.modules],
        "nodes": [asdict(row) for row in timed.tables.nodes],
        "findings": [finding_json(finding) for finding in timed.findings],
        "notes": [*built.program.layout.notes, *built.program.warnings],
    }


def _machine_text(machine: CoreMachine) -> str:
    memory = machine.memory
    return "\n".join(
        [
            f"{machine.name}: {machine.description}",
            f"  units        {machine.cores.count} cores: {len(machine.cores.hvx_threads)} HVX, "
            "1 HMX and 1 DMA thread each",
            f"  clocks, MHz  CORE {machine.clocks.core_mhz:g}",
            "  pools",
            f"    {'VTCM':<10} {memory.vtcm_bytes >> 10:>8} KiB a core",
            f"    {'L2':<10} {memory.l2_bytes >> 10:>8} KiB a core",
        ]
    )


def _machine_json(machine: CoreMachine) -> dict[str, Any]:
    memory, cores = machine.memory, machine.cores
    return {
        "name": machine.name,
        "family": FAMILY.name,
        "description": machine.description,
        "units": {"core": cores.count, "hvx_thread": len(cores.hvx_threads)},
        "clocks": {"core_mhz": machine.clocks.core_mhz},
        "pools": [
            {"name": "VTCM", "size_bytes": memory.vtcm_bytes},
            {"name": "L2", "size_bytes": memory.l2_bytes},
        ],
        "generations": [],
    }


def _keys(record: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Values of tables; name and description of the machine are not for change."""
    assert is_dataclass(record)
    for field in fields(record):
        value = getattr(record, field.name)
        place = f"{path}{field.name}"
        if is_dataclass(value):
            yield from _keys(value, f"{place}.")
        elif isinstance(value, dict):
            yield from ((f"{place}.{key}", one) for key, one in value.items())
        elif path:
            yield place, value
