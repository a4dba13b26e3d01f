"""What long work is doing: lines that a terminal shows in place, and a log with --verbose."""

from __future__ import annotations

import logging

from npuscope.text import safe_terminal

LOGGER = logging.getLogger("npuscope.progress")


def progress(text: str, *values: object) -> None:
    """One line, as for logging; nobody hears it unless somebody listens."""
    # Names come from files and from the command line.
    safe = (safe_terminal(value) if isinstance(value, str) else value for value in values)
    LOGGER.info(text, *safe)
