"""`npuscope completion SHELL`: a script that completes verbs, options and values."""

from __future__ import annotations

import argparse

from npuscope.cli.options import add_options
from npuscope.cli.output import deliver


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "completion")


def run(args: argparse.Namespace) -> int:
    from npuscope import api

    script = api.completion(args.shell)
    deliver(
        args, script, {"schema": "npuscope/completion/1", "shell": args.shell, "script": script}
    )
    return 0
