"""`npuscope estimate SOURCE`: fit and speed in one screen."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from npuscope.cli.options import add_options, api_options, clock_overrides, parse_overrides
from npuscope.cli.output import deliver, print_text, refuse_overwrite, working
from npuscope.errors import UsageError

if TYPE_CHECKING:
    from npuscope.advice.what_if import WhatIf
    from npuscope.api import Options
    from npuscope.families import Family


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "estimate")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    refuse_overwrite(args, args.model)
    from npuscope import api
    from npuscope.families import family_of
    from npuscope.machine.load import known_machines

    family = family_of(args.machine, known_machines())
    if family is not None:
        return _of_family(args, family)
    from npuscope.report.estimate import estimate_text, sensitivity_json, what_if_json

    options: Options = {**api_options(args), "compiled_from": args.model}
    with working(args, "estimating"):
        changed = _what_if(args, options) if args.set else None
        sensitive = api.sensitivity(args.source, **options) if args.sensitivity else None
        if args.json is None and not args.html:
            profile = changed.profile if changed else api.estimate(args.source, **options)
            print_text(args, estimate_text(profile, changed, sensitive, every=args.verbose))
            return 0
        from npuscope.api_advice import explained
        from npuscope.report.json_report import estimate_json
        from npuscope.report.result_files import write_explained

        found = explained(args.source, options, timed=bool(args.html))
        write_explained(args.html, found)
    result = estimate_json(found.profile, found.findings)
    result |= what_if_json(changed) if changed else {}
    result |= sensitivity_json(sensitive) if sensitive is not None else {}
    text = estimate_text(found.profile, changed, sensitive, every=args.verbose)
    deliver(args, text, result)
    return 0


def _of_family(args: argparse.Namespace, family: Family) -> int:
    """Of a machine of another family: the same first lines and keys."""
    for name in ("html", "sensitivity", "model"):
        if getattr(args, name):
            raise UsageError(f"this option is not made for {args.machine}", where=f"--{name}")
    with working(args, "estimating"):
        program = family.compile(args.source, {**api_options(args)})
        report = family.report(family.time(program))
    deliver(args, report.text, report.json)
    return 0


def _what_if(args: argparse.Namespace, options: Options) -> WhatIf:
    """Against the machine as the other options describe it."""
    from npuscope import api

    values = parse_overrides(args.set)
    others: Options = {**options, "overrides": clock_overrides(args)}
    return api.what_if(args.source, values, **others)
