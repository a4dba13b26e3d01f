"""`npuscope lint MODEL`: risks that the model file alone shows."""

from __future__ import annotations

import argparse
from pathlib import Path

from npuscope.cli.options import add_options, looked_at
from npuscope.cli.output import deliver, refuse_overwrite, working

_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "lint")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    from npuscope import api
    from npuscope.machine.load import DEFAULT_GENERATION
    from npuscope.report.findings import lint_json, lint_text

    with working(args, "looking"):
        findings = api.lint(args.source, sarif=args.sarif, junit=args.junit, **looked_at(args))
    name, generation = Path(args.source).name, args.generation or DEFAULT_GENERATION
    text = lint_text(name, findings, generation, every=args.verbose)
    deliver(args, text, lint_json(name, findings, generation))
    return _FOUND if any(finding.is_problem for finding in findings) else 0
