"""`npuscope manycore compile` and `npuscope manycore run`: the many-core machine."""

from __future__ import annotations

import argparse
from importlib import import_module

from npuscope.options import VERBS

ACTIONS = {name: VERBS[f"manycore {name}"].line for name in ("compile", "run")}


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    for name, line in ACTIONS.items():
        chosen = actions.add_parser(name, help=line, description=line, allow_abbrev=False)
        import_module(f"npuscope.cli.manycore_{name}").configure(chosen)


def run(args: argparse.Namespace) -> int:
    code: int = import_module(f"npuscope.cli.manycore_{args.action}").run(args)
    return code
