"""What long work is doing: lines that a terminal shows in place, and a log with --verbose."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from npuscope.text import safe_terminal

log = logging.getLogger(__name__)
LOGGER = logging.getLogger("npuscope.progress")


def progress(text: str, *values: object) -> None:
    """One line, as for logging; nobody hears it unless somebody listens."""
    # Names come from files and from the command line.
    safe = (safe_terminal(value) if isinstance(value, str) else value for value in values)
    LOGGER.info(text, *safe)


@contextmanager
def kept_at_interrupt(what: str) -> Iterator[None]:
    """For work that goes on where it was when it is started again."""
    try:
        yield
    except KeyboardInterrupt:
        log.warning("%s: the same command continues from there", what)
        raise
