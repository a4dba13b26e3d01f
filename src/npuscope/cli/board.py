"""`npuscope board serve SOURCE...`: a virtual board for the vendor's own tools."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from npuscope.cli.options import SOURCE_HELP, add_model, add_output, add_target, api_options
from npuscope.cli.output import print_text, refuse_overwrite, working, write_file
from npuscope.errors import UsageError
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.api import Build
    from npuscope.board.emulated.board import EmulatedBoard
    from npuscope.board.listeners import PtyListener, Served, TcpListener
    from npuscope.board.simulated import SimulatedBoard


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("serve",), help="serve: answer the vendor's protocol")
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help=SOURCE_HELP)
    group = parser.add_argument_group("connection")
    way = group.add_mutually_exclusive_group(required=True)
    way.add_argument("--pty", action="store_true", help="a pseudo terminal, used as a serial port")
    way.add_argument("--tcp", type=int, metavar="PORT", help="a TCP port; 0: any free one")
    group.add_argument(
        "--host", default="127.0.0.1", help="address for --tcp (default: this computer only)"
    )
    parser.add_argument(
        "--emulated", action="store_true", help="firmware on an emulated Cortex-M answers"
    )
    add_target(parser)
    add_model(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    for source in args.sources:
        refuse_overwrite(args, source)
    _check(args)
    with _stoppable(), working(args, "compiling"), _powered(args) as (served, names):
        listener = _listener(args)
        try:
            _announce(args, listener.address, names)
            listener.serve(served)
        except KeyboardInterrupt:  # a signal is the usual way to switch a board off
            pass
        finally:
            listener.close()
    return 0


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGINT and SIGTERM both switch off, also where SIGINT was ignored at the start, as it is
    in a script's background jobs."""
    stops = (signal.SIGINT, signal.SIGTERM)
    before = {stop: signal.signal(stop, signal.default_int_handler) for stop in stops}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, signal.SIG_DFL if handler is None else handler)


@contextmanager
def _powered(args: argparse.Namespace) -> Iterator[tuple[Served, list[str]]]:
    """What answers, and the networks on it."""
    if args.emulated:
        with _emulated(args) as emulated:
            from npuscope.board.emulated.bridge import Bridge

            names = [network.name for network in emulated.info().networks]
            yield Bridge(emulated.machine), names
        return
    from npuscope.board.server import VirtualBoard

    board = _board(args)
    yield VirtualBoard(board, memory=board), [network.name for network in board.info().networks]


@contextmanager
def _emulated(args: argparse.Namespace) -> Iterator[EmulatedBoard]:
    """All sources packaged and loaded side by side."""
    from npuscope.api import build
    from npuscope.board.emulated.boot import load, side_by_side
    from npuscope.board.emulated.firmware import CPU
    from npuscope.loadable.from_program import package_program
    from npuscope.loadable.options import PackageOptions
    from npuscope.program.network_c.layout import DIALECT_2, dialect

    options = api_options(args)
    options["relocatable"] = True
    made = [build(source, options) for source in args.sources]
    _check_machines(args, made)
    images = [
        package_program(one.program, one.machine, PackageOptions(cpu=CPU, name=name))
        for one, name in zip(made, _unique(made), strict=True)
    ]
    generation = made[0].program.generation
    found = load(
        side_by_side([next(iter(image.files.values())) for image in images]),
        generation,
        made[0].machine.clocks,
        dialect=2 if dialect(generation) is DIALECT_2 else 3,
    )
    found.require_all()
    try:
        yield found.board
    finally:
        found.board.close()


def _unique(made: list[Build]) -> list[str]:
    from npuscope.board.wire.describe import unique_names

    return list(unique_names(one.program.name for one in made))


def _check(args: argparse.Namespace) -> None:
    if args.tcp is not None and not 0 <= args.tcp < 0x10000:
        raise UsageError(f"expected a port from 0 to 65535, found {args.tcp}", where="--tcp")


def _board(args: argparse.Namespace) -> SimulatedBoard:
    """All sources as the networks of one board, each under its own name."""
    from npuscope.api import build
    from npuscope.board.simulated import SimulatedBoard

    made = [build(source, api_options(args)) for source in args.sources]
    _check_machines(args, made)
    pairs = zip(_unique(made), made, strict=True)
    programs = [replace(one.program, name=name) for name, one in pairs]
    return SimulatedBoard(programs, made[0].machine)


def _check_machines(args: argparse.Namespace, made: list[Build]) -> None:
    for source, one in zip(args.sources, made, strict=True):
        if one.machine != made[0].machine:
            raise UsageError(
                f"is for generation {one.machine.generation.name}, "
                f"the first source for {made[0].machine.generation.name}",
                where=safe_terminal(source),
                hint="serve programs of one generation together, or name it with --generation",
            )


def _listener(args: argparse.Namespace) -> PtyListener | TcpListener:
    from npuscope.board.listeners import PtyListener, TcpListener

    return PtyListener() if args.pty else TcpListener(args.tcp, args.host)


def _announce(args: argparse.Namespace, address: str, networks: list[str]) -> None:
    """One line, at once: whoever started this waits for the address."""
    result = {"address": address, "networks": networks, "schema": "npuscope/board/1"}
    line = json.dumps(result, ensure_ascii=False)
    if args.json == "-":
        print(line, flush=True)
        return
    if args.json is not None:
        write_file(args.json, line + "\n")
    listed = safe_terminal(", ".join(networks))
    kind = "an emulated" if args.emulated else "a simulated"
    print_text(args, f"{address}: {kind} board with {listed}\n  Ctrl-C or SIGTERM switches it off")
    print(end="", flush=True)
