"""`npuscope manycore run`: run a compiled program and save what it and its host recorded."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_output, parse_overrides
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.errors import UsageError
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.manycore.runner import RunReport

_TYPES = ("stats", "trace", "raw_device_stats")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--test-data",
        "-t",
        required=True,
        metavar="DIR",
        help="the folder that the compiler wrote, with programqpc.bin",
    )
    parser.add_argument(
        "--num-iter", "-n", type=int, default=1, metavar="N", help="inferences to run (1)"
    )
    _add_profiling(parser.add_argument_group("profiling"))
    group = parser.add_argument_group("simulation")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of clocks and spreads (0)")
    group.add_argument(
        "--stats-overhead", action="store_true", help="storing records takes time (it does not)"
    )
    group.add_argument(
        "--devices", "-d", metavar="LIST", help="numbers of the devices, such as 0,1 (from 0 on)"
    )
    group.add_argument("--machine", default="cloudai100", metavar="NAME", help="(cloudai100)")
    group.add_argument("--machine-file", metavar="FILE", help="a machine of your own (TOML)")
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="what-if: replace one value of the machine, e.g. ddr.effective_gb_per_s=100",
    )
    add_output(parser)


def _add_profiling(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--aic-profiling-type", choices=_TYPES, help="what to save; nothing if not given"
    )
    group.add_argument(
        "--aic-profiling-out-dir",
        default=".",
        metavar="DIR",
        help="where to; the folder must exist (the current one)",
    )
    group.add_argument(
        "--aic-profiling-num-samples", type=int, default=1, metavar="N", help="inferences saved (1)"
    )
    group.add_argument(
        "--aic-profiling-start-iter", type=int, default=0, metavar="N", help="from which on (0)"
    )
    group.add_argument(
        "--aic-profiling-start-delay",
        type=float,
        default=0.0,
        metavar="MS",
        help="milliseconds of the run before the first (0)",
    )
    group.add_argument(
        "--want",
        default="",
        metavar="LIST",
        help="views that the buffers must allow: threads, pmu, ddr, ports, semaphores, ops, op-pmu",
    )


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.test_data)
    from npuscope.manycore.machine import load_core_machine
    from npuscope.manycore.runner import run_lines, run_program
    from npuscope.manycore.sim.options import RunOptions

    options = RunOptions(
        iterations=args.num_iter,
        samples=args.aic_profiling_num_samples,
        start_iteration=args.aic_profiling_start_iter,
        start_delay_ms=args.aic_profiling_start_delay,
        seed=args.seed,
        stats_overhead=args.stats_overhead,
        devices=_devices(args.devices),
        collect=args.aic_profiling_type == "raw_device_stats",
    )
    overrides = parse_overrides(args.set)
    machine = load_core_machine(args.machine, overrides=overrides, machine_file=args.machine_file)
    with working(args, "running"):
        report = run_program(
            args.test_data,
            profiling=args.aic_profiling_type,
            out_dir=args.aic_profiling_out_dir,
            options=options,
            wanted=[word.strip() for word in args.want.split(",") if word.strip()],
            machine=machine,
        )
    deliver(args, "\n".join([*run_lines(report), *_files(report)]), _as_json(report))
    return 0


def _devices(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise UsageError(
            f"expected numbers such as 0,1, found '{safe_terminal(text)}'", where="--devices"
        ) from None


def _files(report: RunReport) -> list[str]:
    lines = [f"wrote    {safe_terminal(str(path))}" for path in report.files]
    lines += [f"note     {safe_terminal(note)}" for note in report.notes]
    return ["", *lines] if lines else []


def _as_json(report: RunReport) -> dict[str, Any]:
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
