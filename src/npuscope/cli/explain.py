"""`npuscope explain SOURCE`: why it is slow or off the NPU, and what to change."""

from __future__ import annotations

import argparse

from npuscope.cli.options import add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, refuse_overwrite, working

_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a model: .tflite or QDQ .onnx")
    parser.add_argument(
        "--strict", action="store_true", help="exit code 1 when there are errors or warnings"
    )
    add_target(parser)
    add_model(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    from npuscope import api
    from npuscope.advice.explain import explain
    from npuscope.profile.run import estimate
    from npuscope.report.json_findings import explain_json
    from npuscope.report.text_explain import explain_text
    from npuscope.rules.lint_file import lint_model_file

    with working(args, "explaining"):
        made = api.build(args.source, api_options(args))
        profile = estimate(made.program, made.machine, made.graph)
        file_findings = lint_model_file(args.source, made.machine)
        result = explain(made, profile, file_findings)
    deliver(args, explain_text(result, every=args.verbose), explain_json(result))
    return _FOUND if args.strict and result.has_problems else 0
