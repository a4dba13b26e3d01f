"""`npuscope lint MODEL`: risks that the model file alone shows."""

from __future__ import annotations

import argparse
from pathlib import Path

from npuscope.cli.options import add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, refuse_overwrite, working

_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="MODEL", help="a model: .tflite or .onnx")
    add_target(parser)
    add_model(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    options = api_options(args)
    from npuscope import api
    from npuscope.compiler.passes.io_types import with_io_types
    from npuscope.report.json_findings import lint_json
    from npuscope.report.text_explain import lint_text
    from npuscope.rules.lint import lint_graph
    from npuscope.rules.lint_file import lint_model_file

    with working(args, "looking"):
        machine = api.machine_for(options)
        graph = api.load_model(args.source, options["shapes"])
        graph = with_io_types(graph, args.input_data_type, args.output_data_type)
        found = (*lint_graph(graph, machine), *lint_model_file(args.source, machine))
    findings = tuple(sorted(found, key=lambda finding: finding.severity.rank))
    name, generation = Path(args.source).name, machine.generation.name
    text = lint_text(name, findings, generation, every=args.verbose)
    deliver(args, text, lint_json(name, findings, generation))
    return _FOUND if any(finding.is_problem for finding in findings) else 0
