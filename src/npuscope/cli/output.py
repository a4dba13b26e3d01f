"""What a verb leaves behind: text and JSON on stdout, files that are whole or not there."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from npuscope.progress import LOGGER
from npuscope.text import safe_lines, without_middle
from npuscope.whole_file import apart, appear, write_whole

_SPINNER = 16  # columns before a line of progress


def print_text(args: argparse.Namespace, text: str) -> None:
    """The answer never names files that do not exist yet."""
    appear()
    print(safe_lines(text.partition("\n")[0] if args.quiet else text.rstrip("\n")))


class SafeFormatter(logging.Formatter):
    """Log lines without control characters: names in them come from files."""

    def format(self, record: logging.LogRecord) -> str:
        return safe_lines(super().format(record))


def dump(result: Mapping[str, Any]) -> str:
    # NaN and Infinity are not JSON: a figure that is not finite is a bug, not an output.
    return json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_file(path: str | Path, text: str) -> None:
    """A lone surrogate in a name becomes an escape, which JSON reads as the same again."""
    write_whole(path, text.encode("utf-8", "backslashreplace"))


@contextlib.contextmanager
def working(args: argparse.Namespace, what: str) -> Iterator[None]:
    """What long work is doing, on stderr: in place on a terminal, as a log with --verbose."""
    # Logs of build servers keep every frame of an animation, so only terminals get one.
    if args.quiet or args.json == "-" or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(what) as status:
        screen = _Shown(lambda text: status.update(f"{what}: {escape(text)}"))
        screen.setFormatter(SafeFormatter())
        LOGGER.addHandler(screen)
        before, LOGGER.propagate = LOGGER.propagate, bool(args.verbose)
        LOGGER.setLevel(logging.INFO)
        try:
            yield
        finally:
            LOGGER.setLevel(logging.NOTSET)
            LOGGER.propagate = before
            LOGGER.removeHandler(screen)


class _Shown(logging.Handler):
    """The last line of what is going on, cut to the terminal."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        import shutil

        width = shutil.get_terminal_size().columns
        self._show(without_middle(self.format(record), max(20, width - _SPINNER)))


# --- The log of verbs that follow the vendor's scripts ---


@contextlib.contextmanager
def logged(args: argparse.Namespace) -> Iterator[io.StringIO]:
    """The inner log into a file, also when the verb fails, and to stderr on request."""
    stream = io.StringIO()
    logger = logging.getLogger("npuscope")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(SafeFormatter())
    if args.log is not None:
        logger.addHandler(handler)
    if args.debug or args.log is not None:
        logger.setLevel(logging.DEBUG)
        level = logging.DEBUG if args.debug or args.verbose else logging.WARNING
        logging.getLogger().handlers[0].setLevel(level)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        if args.log is not None:
            # Not together with the results: after a failure the log is what explains it.
            with apart():
                write_file(args.log, stream.getvalue())
