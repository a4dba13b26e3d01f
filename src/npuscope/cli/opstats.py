"""`npuscope opstats`: stats buffers to summaries and traces."""

from __future__ import annotations

import argparse
import sys

from npuscope.cli.options import add_options
from npuscope.cli.output import deliver, refuse_overwrite
from npuscope.errors import FileError, UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "opstats")


def run(args: argparse.Namespace) -> int:
    if not (args.summary or args.trace or args.perfetto or args.json or args.html):
        raise UsageError(
            "nothing to make",
            hint="ask for --summary, --trace, --perfetto, --html or --json; any of them together",
        )
    from npuscope import api
    from npuscope.report.opstats import opstats_text
    from npuscope.report.opstats_json import opstats_json

    refuse_overwrite(args, args.qpc)
    refuse_overwrite(args, args.input_dir)
    outcome = api.opstats(
        args.input_dir,
        qpc=args.qpc,
        output_dir=args.output_dir,
        summary=args.summary,
        trace=args.trace,
        perfetto=args.perfetto,
        html=args.html,
        host_trace=args.host_trace,
        select_cores=args.select_cores,
        select_devices=args.select_devices,
        merge_mq_traces=args.merge_mq_traces,
        merge_thread_groups=args.merge_thread_groups,
        flow_events=args.flow_events,
        show_barrier_events=args.show_barrier_events,
        ignore_uuid=args.ignore_uuid,
        adapter=args.adapter,
        raw_layout=args.raw_layout,
        descriptors=args.descriptors,
    )
    result = opstats_json(outcome.tables, outcome.files, outcome.inventories)
    result["notes"] = list(outcome.notes)
    result["damaged"] = list(outcome.damaged)
    deliver(args, opstats_text(outcome.tables, outcome.written, outcome.notes), result)
    for text in outcome.damaged:
        print(f"npuscope: {text}", file=sys.stderr)
    return FileError.exit_code if outcome.damaged else 0
