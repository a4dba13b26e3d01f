"""`npuscope manycore compile`: a network to programqpc.bin for a many-core device."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_options, parse_overrides, parse_shapes
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.many_core.machine import CoreMachine
    from npuscope.many_core.program import CoreProgram


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "manycore compile")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.model)
    from npuscope import api

    with working(args, "compiling"):
        made = api.manycore_compile(
            args.model,
            args.binary_dir,
            stats_level=args.stats_level,
            stats_batchsize=args.stats_batchsize,
            ddr_stats=args.ddr_stats,
            pmu_recipe=args.pmu_recipe,
            pmu_events=args.pmu_events,
            cores=args.aic_num_cores,
            devices=args.devices,
            machine=args.machine,
            machine_file=args.machine_file,
            overrides=parse_overrides(args.set),
            shapes=parse_shapes(args.shape),
        )
    assert made.file is not None
    lines = _lines(args, made.program, made.machine, made.file)
    deliver(args, "\n".join(lines), _as_json(made.program, made.machine, made.file))
    return 0


def _lines(
    args: argparse.Namespace,
    program: CoreProgram,
    machine: CoreMachine,
    path: Path,
) -> list[str]:
    lines = [_answer(program, path), _assumptions(program, machine)]
    lines += [f"note     {note}" for note in program.layout.notes]
    if args.perf_warnings:
        lines += [f"warning  {safe_terminal(text)}" for text in program.warnings]
    if args.perf_metrics:
        from npuscope.many_core.compiler.metrics import metrics_lines, perf_metrics

        lines += metrics_lines(perf_metrics(program))
    return lines


def _answer(program: CoreProgram, path: Path) -> str:
    layout = program.layout
    ops = sum(len(part.all_ops()) for part in program.devices)
    where = _count(layout.cores, "core")
    if len(program.devices) > 1:
        where = f"{_count(len(program.devices), 'device')} of {where}"
    return f"{layout.network}: {_count(ops, 'op')} on {where} in {safe_terminal(str(path))}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _assumptions(program: CoreProgram, machine: CoreMachine) -> str:
    layout = program.layout
    flags = ["DDR stats"] * layout.ddr_stats
    if layout.pmu.events:
        flags.append(f"PMU {layout.pmu.recipe or ','.join(f'{e:X}' for e in layout.pmu.events)}")
    rest = "".join(f", {flag}" for flag in flags)
    mhz = machine.clocks.core_mhz
    return f"machine  {machine.name} at {mhz:g} MHz, stats level {layout.stats_level}{rest}"


def _as_json(program: CoreProgram, machine: CoreMachine, path: Path) -> dict[str, Any]:
    from npuscope.many_core.compiler.metrics import perf_metrics

    layout = program.layout
    kinds = Counter(op.info.kind for part in program.devices for op in part.all_ops())
    return {
        "schema": "npuscope/manycore-compile/1",
        "file": str(path),
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
        "metrics": asdict(perf_metrics(program)),
        "warnings": list(program.warnings),
        "notes": list(layout.notes),
    }
