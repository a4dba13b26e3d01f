"""`npuscope manycore compile` and `npuscope manycore run`: the many-core machine."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_options, parse_overrides, parse_shapes, without_effect
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.options.verbs import VERBS
from npuscope.shown import counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.many_core.machine import CoreMachine
    from npuscope.many_core.program import CoreProgram
    from npuscope.many_core.runner import RunReport


ACTIONS = {name: VERBS[f"manycore {name}"].line for name in ("compile", "run")}


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    for name, line in ACTIONS.items():
        chosen = actions.add_parser(name, help=line, description=line, allow_abbrev=False)
        add_options(chosen, f"manycore {name}")


def run(args: argparse.Namespace) -> int:
    return compile_network(args) if args.action == "compile" else run_program(args)


# --- `npuscope manycore compile` ---


def compile_network(args: argparse.Namespace) -> int:
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
            batchsize=args.batchsize,
            onnx_define_symbol=args.onnx_define_symbol,
            network_specialization_config=args.network_specialization_config,
            mos=args.mos,
            machine=args.machine,
            machine_file=args.machine_file,
            overrides=parse_overrides(args.set),
            shapes=parse_shapes(args.shape),
        )
    assert made.file is not None
    lines = _lines(args, made.program, made.machine, made.file)
    several = (made.program, *made.others) if made.others else ()
    lines += [_specialization(number, program) for number, program in enumerate(several)]
    result = _as_json(made.program, made.machine, made.file)
    result["specializations"] = [_sizes_json(program) for program in several]
    deliver(args, "\n".join(lines), result)
    return 0


def _lines(
    args: argparse.Namespace,
    program: CoreProgram,
    machine: CoreMachine,
    path: Path,
) -> list[str]:
    lines = [_answer(program, path), _assumptions(program, machine)]
    lines += [f"note     {note}" for note in program.layout.notes]
    lines += [f"note     {note}" for note in without_effect(args, "manycore compile")]
    if args.perf_warnings:
        lines += [f"warning  {safe_terminal(text)}" for text in program.warnings]
    if args.perf_metrics:
        from npuscope.many_core.compiler.metrics import metrics_lines, perf_metrics

        lines += metrics_lines(perf_metrics(program))
    return lines


def _answer(program: CoreProgram, path: Path) -> str:
    layout = program.layout
    ops = sum(len(part.all_ops()) for part in program.devices)
    where = counted(layout.cores, "core")
    if len(program.devices) > 1:
        where = f"{counted(len(program.devices), 'device')} of {where}"
    return f"{layout.network}: {counted(ops, 'op')} on {where} in {safe_terminal(str(path))}"


def _specialization(number: int, program: CoreProgram) -> str:
    ops = sum(len(part.all_ops()) for part in program.devices)
    return f"program  {number}: {program.layout.network}, {_inputs(program)}, {counted(ops, 'op')}"


def _inputs(program: CoreProgram) -> str:
    """Names and shapes, as one reads them."""
    shapes = (f"{b.name} {'x'.join(map(str, b.shape)) or '1'}" for b in program.inputs)
    return safe_terminal(", ".join(shapes))


def _sizes_json(program: CoreProgram) -> dict[str, Any]:
    return {
        "network": program.layout.network,
        "program_uuid": program.layout.program_uuid,
        "cores": program.layout.cores,
        "inputs": [asdict(binding) for binding in program.inputs],
    }


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


# --- `npuscope manycore run` ---


def run_program(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.test_data)
    from npuscope import api
    from npuscope.many_core.runner import run_lines

    with working(args, "running"):
        report = api.manycore_run(
            args.test_data,
            num_iter=args.num_iter,
            time=args.time,
            activations=args.activations,
            specialization=args.specialization,
            program=args.program,
            set_size=args.set_size,
            aic_profiling_type=args.aic_profiling_type,
            aic_profiling_out_dir=args.aic_profiling_out_dir,
            aic_profiling_num_samples=args.aic_profiling_num_samples,
            aic_profiling_start_iter=args.aic_profiling_start_iter,
            aic_profiling_start_delay=args.aic_profiling_start_delay,
            want=args.want,
            seed=args.seed,
            stats_overhead=args.stats_overhead,
            devices=args.devices,
            machine=args.machine,
            machine_file=args.machine_file,
            overrides=parse_overrides(args.set),
        )
    deliver(args, "\n".join([*run_lines(report), *_files(report)]), _run_as_json(report))
    return 0


def _files(report: RunReport) -> list[str]:
    lines = [f"wrote    {safe_terminal(str(path))}" for path in report.files]
    lines += [f"note     {safe_terminal(note)}" for note in report.notes]
    return ["", *lines] if lines else []


def _run_as_json(report: RunReport) -> dict[str, Any]:
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
