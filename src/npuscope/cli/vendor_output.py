"""Output options of the verbs that follow the vendor's scripts: verbosity by number, a log."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
from collections.abc import Iterator

from npuscope.cli.output import SafeFormatter, write_file
from npuscope.whole_file import apart


def add_vendor_output(parser: argparse.ArgumentParser, default_log: str) -> None:
    """As on every verb, but -v is the verbosity of the vendor's tool."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="print the result as JSON and nothing else, or write it to FILE",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="the answer in one line")
    group.add_argument("--verbose", action="store_true", help="details and tracebacks")
    group.add_argument(
        "-v",
        "--verbosity",
        nargs="?",
        type=int,
        const=1,
        default=1,
        choices=range(3),
        help="0 the answer, 1 the usual, 2 everything",
    )
    group.add_argument(
        "--log", nargs="?", const=default_log, metavar="FILE", help=f"a log ({default_log})"
    )
    group.add_argument("--debug", action="store_true", help="the inner log on stderr")
    group.add_argument("--no-color", action="store_true", help="accepted: there are no colours")


@contextlib.contextmanager
def logged(args: argparse.Namespace) -> Iterator[io.StringIO]:
    """The inner log into a file, whatever happens, and to stderr on request."""
    stream = io.StringIO()
    logger = logging.getLogger("npuscope")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(SafeFormatter())
    if args.log is not None:
        logger.addHandler(handler)
    if args.debug or args.log is not None:
        logger.setLevel(logging.DEBUG)
        shown = logging.DEBUG if args.debug or args.verbose else logging.WARNING
        logging.getLogger().handlers[0].setLevel(shown)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        if args.log is not None:
            with apart():
                write_file(args.log, stream.getvalue())
