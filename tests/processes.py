"""Processes that tests start: each has a limit, and none outlives its test."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# For what takes seconds at most; only a process that hangs on a busy host gets here.
LIMIT_S = 300.0


@contextmanager
def started(
    command: Sequence[str | Path], *, limit_s: float = LIMIT_S, **options: Any
) -> Iterator[subprocess.Popen[Any]]:
    """A process that is killed when its time is over or the block is left."""
    with subprocess.Popen(command, **options) as process:
        stop = threading.Timer(limit_s, process.kill)
        stop.start()
        try:
            yield process
        finally:
            stop.cancel()
            process.kill()
