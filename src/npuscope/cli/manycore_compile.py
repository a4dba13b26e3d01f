"""`npuscope manycore compile`: a network to programqpc.bin for a many-core device."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_output, parse_overrides, parse_shapes
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.errors import FileError, OutputError
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.manycore.compiler.options import CompileOptions
    from npuscope.manycore.machine import CoreMachine
    from npuscope.manycore.program import CoreProgram


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-model",
        "--model",
        required=True,
        metavar="FILE",
        help="a network, float or int8: .onnx or .tflite",
    )
    parser.add_argument(
        "-aic-binary-dir",
        "--binary-dir",
        "-o",
        required=True,
        metavar="DIR",
        help="folder for programqpc.bin",
    )
    _add_stats(parser.add_argument_group("stats"))
    _add_machine(parser.add_argument_group("machine"))
    add_output(parser)


def _add_stats(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-stats-level",
        "--stats-level",
        type=int,
        default=40,
        metavar="LEVEL",
        help="what is collected: 40 (default) threads, 50 ports, 70 ops, 100 counters by op",
    )
    group.add_argument(
        "-stats-batchsize",
        "--stats-batchsize",
        type=int,
        default=1,
        metavar="N",
        help="inferences in one run of the network (1)",
    )
    group.add_argument(
        "-ddr-stats", "--ddr-stats", action="store_true", help="DDR traffic by core; level >= 40"
    )
    group.add_argument(
        "-aic-pmu-recipe",
        "--pmu-recipe",
        metavar="NAME",
        help="counters: AxiRd, AxiWr, AxiRdWr, KernelUtil or HmxMacs",
    )
    group.add_argument(
        "-aic-pmu-events",
        "--pmu-events",
        metavar="HEX,...",
        help="counters by number, up to 8, such as 3F,70,200",
    )
    group.add_argument(
        "-aic-perf-warnings",
        "--perf-warnings",
        action="store_true",
        help="what makes the program slower than it need be",
    )
    group.add_argument(
        "-aic-perf-metrics",
        "--perf-metrics",
        action="store_true",
        help="traffic, VTCM, barriers and MACs by core",
    )


def _add_machine(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-aic-num-cores",
        "--aic-num-cores",
        "--cores",
        type=int,
        metavar="N",
        help="cores of a device (all that have work)",
    )
    group.add_argument(
        "--devices", type=int, default=1, metavar="N", help="devices that share the network (1)"
    )
    group.add_argument("--machine", default="cloudai100", metavar="NAME", help="(cloudai100)")
    group.add_argument("--machine-file", metavar="FILE", help="a machine of your own (TOML)")
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="what-if: replace one value of the machine, e.g. clocks.core_mhz=1000",
    )
    group.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,128",
        help="pin an input whose size the file leaves open",
    )


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.model)
    from npuscope.files.load import load_model
    from npuscope.manycore.compiler.pipeline import compile_graph
    from npuscope.manycore.machine import load_core_machine

    options = _options(args)
    what_if = parse_overrides(args.set)
    machine = load_core_machine(args.machine, overrides=what_if, machine_file=args.machine_file)
    options.check(machine)
    with working(args, "compiling"):
        graph = load_model(args.model, parse_shapes(args.shape))
        program = compile_graph(graph, machine, options)
        path = _write(Path(args.binary_dir), program)
    lines = _lines(args, program, machine, path)
    deliver(args, "\n".join(lines), _as_json(program, machine, path))
    return 0


def _options(args: argparse.Namespace) -> CompileOptions:
    from npuscope.manycore.compiler.options import CompileOptions, pmu_of

    return CompileOptions(
        cores=args.aic_num_cores,
        devices=args.devices,
        stats_level=args.stats_level,
        stats_batch=args.stats_batchsize,
        ddr_stats=args.ddr_stats,
        pmu=pmu_of(args.pmu_recipe, args.pmu_events),
    )


def _write(folder: Path, program: CoreProgram) -> Path:
    from npuscope.manycore.container import FILE_NAME, write_program
    from npuscope.whole_file import write_files

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError("is a file, expected a folder", where=str(folder)) from None
    except OSError as error:
        raise OutputError(f"cannot be made: {error.strerror}", where=str(folder)) from None
    write_files(folder, {FILE_NAME: write_program(program)})
    return folder / FILE_NAME


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
        from npuscope.manycore.compiler.metrics import metrics_lines, perf_metrics

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
    from npuscope.manycore.compiler.metrics import perf_metrics

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
