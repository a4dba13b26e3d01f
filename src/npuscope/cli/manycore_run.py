"""`npuscope manycore run`: run a compiled program and save what it and its host recorded."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_options, parse_overrides
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.many_core.runner import RunReport


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "manycore run")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.test_data)
    from npuscope import api
    from npuscope.many_core.runner import run_lines

    with working(args, "running"):
        report = api.manycore_run(
            args.test_data,
            num_iter=args.num_iter,
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
    deliver(args, "\n".join([*run_lines(report), *_files(report)]), _as_json(report))
    return 0


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
