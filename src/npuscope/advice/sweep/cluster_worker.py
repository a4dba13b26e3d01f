"""What a worker of our own cluster does first."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Ctrl-C is for the sweep: it decides when workers end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
