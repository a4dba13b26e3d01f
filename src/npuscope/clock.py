"""The time at which something is made."""

from __future__ import annotations

import os
import time


def now() -> str:
    """In UTC; whoever wants the same file again states the time in SOURCE_DATE_EPOCH."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = float(stated) if stated.isdecimal() and len(stated) < 12 else time.time()
    return time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime(seconds))
