"""Programs for many cores and their runs, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from npuscope.families.many_core.compiler.metrics import metrics_lines
from npuscope.families.many_core.compiler.metrics import perf_metrics as metrics_of
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.runner import RunReport, run_lines
from npuscope.records import encode
from npuscope.shown import ShownRecord, counted
from npuscope.text import safe_terminal


class CompiledPrograms(ShownRecord, frozen=True):
    """A program for many cores, its machine, and its file if one was written."""

    program: CoreProgram
    machine: CoreMachine
    file: Path | None
    others: tuple[CoreProgram, ...] = ()  # for other sets of sizes, in the same file

    @property
    def several(self) -> tuple[CoreProgram, ...]:
        """All programs, where there is one for each of several sets of sizes."""
        return (self.program, *self.others) if self.others else ()

    def told(self) -> str:
        layout = self.program.layout
        return f"{layout.network} on {counted(layout.cores, 'core')} of {self.machine.name}"


def compile_text(
    build: CompiledPrograms, *, perf_warnings: bool, perf_metrics: bool, unused: tuple[str, ...]
) -> str:
    program, layout = build.program, build.program.layout
    ops = sum(len(part.all_ops()) for part in program.devices)
    where = counted(layout.cores, "core")
    if len(program.devices) > 1:
        where = f"{counted(len(program.devices), 'device')} of {where}"
    file = safe_terminal(str(build.file))
    flags = ["DDR stats"] * layout.ddr_stats
    if layout.pmu.events:
        flags.append(f"PMU {layout.pmu.recipe or ','.join(f'{e:X}' for e in layout.pmu.events)}")
    machine = f"{build.machine.name} at {build.machine.clocks.core_mhz:g} MHz"
    lines = [
        f"{layout.network}: {counted(ops, 'op')} on {where} in {file}",
        f"machine  {', '.join((machine, f'stats level {layout.stats_level}', *flags))}",
    ]
    lines += [f"note     {note}" for note in (*_notes(build), *unused)]
    if perf_warnings:
        lines += [f"warning  {safe_terminal(text)}" for text in program.warnings]
    if perf_metrics:
        lines += metrics_lines(metrics_of(program))
    for number, one in enumerate(build.several):
        ops = sum(len(part.all_ops()) for part in one.devices)
        shapes = (f"{b.name} {'x'.join(map(str, b.shape)) or '1'}" for b in one.inputs)
        inputs = safe_terminal(", ".join(shapes))
        lines.append(f"program  {number}: {one.layout.network}, {inputs}, {counted(ops, 'op')}")
    return "\n".join(lines)


def _notes(build: CompiledPrograms) -> Iterator[str]:
    """Each once; where it is true of some programs only, with their names."""
    programs = (build.program, *build.others)
    for note in dict.fromkeys(note for one in programs for note in one.layout.notes):
        names = [one.layout.network for one in programs if note in one.layout.notes]
        yield note if len(names) == len(programs) else f"{', '.join(names)}: {note}"


def compile_json(build: CompiledPrograms) -> dict[str, Any]:
    program, machine = build.program, build.machine
    layout = program.layout
    kinds = Counter(op.info.kind for part in program.devices for op in part.all_ops())
    return {
        "schema": "npuscope/manycore-compile/1",
        "file": str(build.file),
        "program_uuid": layout.program_uuid,
        "network": layout.network,
        "machine": machine.name,
        "core_mhz": machine.clocks.core_mhz,
        "cores": layout.cores,
        "devices": len(program.devices),
        "stats_level": layout.stats_level,
        "stats_batch": layout.stats_batch,
        "ddr_stats": layout.ddr_stats,
        "pmu": {"recipe": layout.pmu.recipe, "events": list(layout.pmu.events)},
        "ops": dict(sorted(kinds.items())),
        "inputs": [asdict(binding) for binding in program.inputs],
        "outputs": [asdict(binding) for binding in program.outputs],
        "metrics": encode(metrics_of(program), whole=True),
        "warnings": list(program.warnings),
        "notes": list(layout.notes),
        "specializations": [
            {
                "network": program.layout.network,
                "program_uuid": program.layout.program_uuid,
                "cores": program.layout.cores,
                "inputs": [asdict(binding) for binding in program.inputs],
                "notes": list(program.layout.notes),
            }
            for program in build.several
        ],
    }


# --- Runs ---


def run_text(report: RunReport, *, unused: tuple[str, ...] = ()) -> str:
    lines = [f"Writing file:{safe_terminal(str(path))}" for path in report.files]
    lines += [f"note     {safe_terminal(note)}" for note in (*report.notes, *unused)]
    return "\n".join([*run_lines(report), *([""] if lines else []), *lines])


def run_json(report: RunReport) -> dict[str, Any]:
    return {
        "schema": "npuscope/manycore-run/1",
        "network": report.network,
        "inferences": report.inferences,
        "total_us": report.total_us,
        "batch": report.batch,
        "inferences_per_s": report.inferences_per_s,
        "metrics": {
            row.name: {
                "avg": row.average,
                "min": row.least,
                "max": row.most,
                "std": row.deviation,
            }
            for row in report.metrics
        },
        "sampled": list(report.result.sampled),
        "files": [str(path) for path in report.files],
        "notes": list(report.notes),
    }
