"""`npuscope explain SOURCE`: why it is slow or off the NPU, and what to change."""

from __future__ import annotations

import argparse

from npuscope.cli.findings_files import add_findings_files, write_findings
from npuscope.cli.options import SOURCE_HELP, add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, refuse_overwrite, working

_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument(
        "--strict", action="store_true", help="exit code 1 when there are errors or warnings"
    )
    parser.add_argument(
        "--model", metavar="M", help="the model that a compiled program was made from"
    )
    add_target(parser)
    add_model(parser)
    add_findings_files(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    refuse_overwrite(args, args.model)
    from npuscope import api
    from npuscope.report.json_findings import explain_json
    from npuscope.report.text_explain import explain_text

    with working(args, "explaining"):
        result = api.explain(args.source, model=args.model, **api_options(args))
    write_findings(args, result.findings, result.profile.machine.generation)
    deliver(args, explain_text(result, every=args.verbose), explain_json(result))
    return _FOUND if args.strict and result.has_problems else 0
