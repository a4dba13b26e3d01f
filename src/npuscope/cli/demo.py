"""`npuscope demo`: the main job on a built-in network."""

from __future__ import annotations

import argparse

from npuscope.cli.options import add_options, api_options
from npuscope.cli.output import deliver, working


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "demo")


def run(args: argparse.Namespace) -> int:
    from npuscope import api
    from npuscope.report.estimate import estimate_text
    from npuscope.report.findings import explain_text
    from npuscope.report.json_report import profile_json
    from npuscope.report.result_files import NAMES

    with working(args, "compiling and running the built-in network"):
        found, kept = api.demonstrated(args.output, api_options(args))
    where = f"{NAMES} are in {args.output}"
    text = "\n".join((estimate_text(found.profile), explain_text(found), where, *kept))
    deliver(args, text, profile_json(found.profile, found.findings))
    return 0
