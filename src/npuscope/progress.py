"""What long work is doing: lines that a terminal shows in place, and a log with --verbose."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("npuscope.progress")


def progress(text: str, *values: object) -> None:
    """One line, as for logging; nobody hears it unless somebody listens."""
    LOGGER.info(text, *values)
