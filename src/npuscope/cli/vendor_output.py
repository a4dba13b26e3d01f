"""The log of the verbs that follow the vendor's scripts."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
from collections.abc import Iterator

from npuscope.cli.output import SafeFormatter, write_file
from npuscope.whole_file import apart


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
