"""`npuscope deploy DIR --board B`: a network onto a real board, as a recipe or for real."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from npuscope.cli.options import add_options
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.text import safe_terminal

SCHEMA = "npuscope/deploy/1"


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "deploy")


def run(args: argparse.Namespace) -> int:
    from npuscope import api
    from npuscope.loadable.deploy import recipe

    refuse_overwrite(args, args.source)
    given = {"fsbl": args.fsbl, "application": args.application, "tool": args.tool}
    if args.run:
        with working(args, "programming"):
            ran = api.deploy(args.source, board=args.board, run=True, **given)
        steps, done = tuple(one.step for one in ran), "deployed"
    else:
        paths = {key: Path(value) if value else None for key, value in list(given.items())[:2]}
        steps = recipe(Path(args.source), args.board, tool=args.tool, **paths)
        done = "nothing was done: `--run` does it"
    lines = [f"{safe_terminal(args.source)} on {args.board}: {len(steps)} steps, {done}"]
    for number, step in enumerate(steps, 1):
        lines.append(f"{number:>3}. {safe_terminal(step.what)}")
        if step.command:
            lines.append(f"     {safe_terminal(shlex.join(step.command))}")
    told = [{"what": step.what, "command": list(step.command)} for step in steps]
    result = {"schema": SCHEMA, "board": args.board, "ran": bool(args.run), "steps": told}
    deliver(args, "\n".join(lines), result)
    return 0
