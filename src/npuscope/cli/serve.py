"""`npuscope serve MODEL...`: the report as an application in the browser."""

from __future__ import annotations

import argparse
import html
import json
import os
import sys
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory

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

    with (
        stoppable(),
        working(args, "opening"),
        TemporaryDirectory(prefix="npuscope-") as private,
    ):
        api.serve(
            *args.models,
            port=args.port,
            pools=args.pools,
            ready=lambda address: _announce(args, address, Path(private)),
            **api_options(args),
        )
    return 0


def _announce(args: argparse.Namespace, address: str, private: Path) -> None:
    """One line, at once: whoever started this waits for the address."""
    line = json.dumps({"address": address, "schema": "npuscope/serve/1"})
    if args.json == "-":
        print(line, flush=True)
        return
    if args.json is not None:
        before = os.umask(0o077)  # the address opens the view: it is for this user alone
        write_file(args.json, line + "\n")
        os.umask(before)
    models = counted(len(args.models), "model")
    print_text(args, f"{address}: {models}, for this computer only\n  Ctrl-C ends it")
    print(end="", flush=True)
    # A script that reads the address decides for itself what to do with it.
    if sys.stdout.isatty() and not args.no_browser:
        webbrowser.open(_door(address, private))


def _door(address: str, private: Path) -> str:
    """A page of this user's that leads on: every user can list what a browser is started with."""
    page = private / "open.html"
    leads = f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">'
    page.write_text(f"<!doctype html>\n{leads}\n", encoding="utf-8")
    return page.as_uri()
