"""`npuscope bisect SOURCE`: the first op whose NPU arithmetic leaves the reference."""

from __future__ import annotations

import argparse

from npuscope.cli.options import add_options, api_options
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.cli.validate import sample_options


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "bisect")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    samples = sample_options(args)
    from npuscope import api
    from npuscope.report.validation import bisection_json, bisection_text

    with working(args, "validating layer by layer"):
        found = api.bisect(args.source, model=args.model, **samples, **api_options(args))
    deliver(args, bisection_text(found), bisection_json(found))
    return 0
