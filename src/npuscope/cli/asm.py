"""`npuscope asm FILE -o OUT`: text to an epoch-controller blob."""

from __future__ import annotations

import argparse

from npuscope.cli.options import add_options
from npuscope.cli.output import deliver, refuse_overwrite
from npuscope.shown import counted
from npuscope.text import safe_terminal


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "asm")


def run(args: argparse.Namespace) -> int:
    from npuscope import api

    refuse_overwrite(args, args.source)
    made = api.asm(args.source, args.output, name=args.name)
    result = {
        "schema": "npuscope/asm/1",
        "file": args.output,
        "size_bytes": len(made.data),
        "instructions": made.instructions,
    }
    made_of = counted(made.instructions, "instruction")
    text = f"{made_of}, {len(made.data)} bytes in {safe_terminal(args.output)}"
    deliver(args, text, result)
    return 0
