"""The time at which something is made."""

from __future__ import annotations

import os
import time


def now() -> str:
    """In UTC; whoever wants the same file again states the time in SOURCE_DATE_EPOCH."""
    return time.strftime("%a %b %d %H:%M:%S %Y", _seconds())


def compile_time() -> str:
    """The present as a C compiler writes __DATE__ and __TIME__, in UTC."""
    return time.strftime("%b %d %Y %H:%M:%S", _seconds())


def _seconds() -> time.struct_time:
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    return time.gmtime(float(stated) if stated.isdecimal() and len(stated) < 12 else time.time())
