"""`npuscope serve MODEL...`: the report as an application in the browser."""

from __future__ import annotations

import argparse
import json
import sys
import webbrowser

from npuscope.cli.board import stoppable
from npuscope.cli.options import add_options, api_options
from npuscope.cli.output import print_text, refuse_overwrite, working, write_file
from npuscope.shown import counted


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "serve")


def run(args: argparse.Namespace) -> int:
    for model in args.models:
        refuse_overwrite(args, model)
    from npuscope import api

    with stoppable(), working(args, "opening"):
        api.serve(
            *args.models,
            port=args.port,
            pools=args.pools,
            ready=lambda address: _announce(args, address),
            **api_options(args),
        )
    return 0


def _announce(args: argparse.Namespace, address: str) -> None:
    """One line, at once: whoever started this waits for the address."""
    line = json.dumps({"address": address, "schema": "npuscope/serve/1"})
    if args.json == "-":
        print(line, flush=True)
        return
    if args.json is not None:
        write_file(args.json, line + "\n")
    models = counted(len(args.models), "model")
    print_text(args, f"{address}: {models}, for this computer only\n  Ctrl-C ends it")
    print(end="", flush=True)
    # A script that reads the address decides for itself what to do with it.
    if sys.stdout.isatty() and not args.no_browser:
        webbrowser.open(address)
