"""`npuscope estimate SOURCE`: fit and speed in one screen."""

from __future__ import annotations

import argparse

from npuscope.cli.html_report import HTML_HELP, write_explained
from npuscope.cli.options import SOURCE_HELP, add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, print_text, refuse_overwrite, working


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument("--html", metavar="FILE", help=HTML_HELP)
    add_target(parser)
    add_model(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    from npuscope import api
    from npuscope.report.json_report import estimate_json
    from npuscope.report.text_estimate import estimate_text

    with working(args, "estimating"):
        if args.json is None and not args.html:
            print_text(args, estimate_text(api.estimate(args.source, **api_options(args))))
            return 0
        found = api.explain(args.source, **api_options(args))
        write_explained(args, found)
    deliver(args, estimate_text(found.profile), estimate_json(found.profile, found.findings))
    return 0
