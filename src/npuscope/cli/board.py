"""`npuscope board serve SOURCE...`: a virtual board for the vendor's own tools."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from npuscope.cli.options import add_options, api_options
from npuscope.cli.output import print_text, refuse_overwrite, working, write_file
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.api_boards import Listening


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "board")


def run(args: argparse.Namespace) -> int:
    for source in args.sources:
        refuse_overwrite(args, source)
    from npuscope import api

    with stoppable(), working(args, "compiling"):
        api.board_serve(
            *args.sources,
            pty=args.pty,
            tcp=args.tcp,
            host=args.host,
            emulated=args.emulated,
            ready=lambda found: _announce(args, found),
            **api_options(args),
        )
    return 0


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGINT and SIGTERM both switch off, also where SIGINT was ignored at the start, as it is
    in a script's background jobs."""
    stops = (signal.SIGINT, signal.SIGTERM)
    before = {stop: signal.signal(stop, signal.default_int_handler) for stop in stops}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, signal.SIG_DFL if handler is None else handler)


def _announce(args: argparse.Namespace, found: Listening) -> None:
    """One line, at once: whoever started this waits for the address."""
    networks = list(found.networks)
    result = {"address": found.address, "networks": networks, "schema": "npuscope/board/1"}
    line = json.dumps(result, ensure_ascii=False)
    if args.json == "-":
        print(line, flush=True)
        return
    if args.json is not None:
        write_file(args.json, line + "\n")
    listed = safe_terminal(", ".join(networks))
    kind = "an emulated" if args.emulated else "a simulated"
    print_text(
        args, f"{found.address}: {kind} board with {listed}\n  Ctrl-C or SIGTERM switches it off"
    )
    print(end="", flush=True)
