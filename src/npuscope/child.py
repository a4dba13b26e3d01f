"""The one way to start a Python of our own: code is never imported from the current folder.

A Python that is started with -m or -c looks for modules in the current folder first; a select.py
that lies there would be run in place of the real one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_SAFE = "PYTHONSAFEPATH"  # -P for those that a child starts in turn
_PATHS = "PYTHONPATH"


def start_module(
    name: str, *words: str, variables: dict[str, str] | None = None, **pipes: Any
) -> subprocess.Popen[bytes]:
    """Start one of our modules in parallel; `pipes` as in Popen."""
    return subprocess.Popen(
        [*command(), "-m", name, *words], env=environment() | (variables or {}), **pipes
    )


def run_module(
    name: str, *words: str, timeout_s: float, folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run one of our modules to its end and keep what it says; `TimeoutExpired` beyond its time."""
    return subprocess.run(
        [*command(), "-m", name, *words],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )


def command() -> list[str]:
    """This very Python, with assertions or without like this one."""
    optimized = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    return [sys.executable, "-P", *optimized]


def environment() -> dict[str, str]:
    """The child finds this very package, also where it is not installed.

    An empty entry of PYTHONPATH, as `PYTHONPATH=$PYTHONPATH:more` leaves it, is the current folder.
    """
    ours = str(Path(__file__).parents[1])
    others = os.environ.get(_PATHS, "").split(os.pathsep)
    paths = [ours, *(path for path in others if path not in ("", ours))]
    return {**os.environ, _SAFE: "1", _PATHS: os.pathsep.join(paths)}


_CHUNK = 1 << 16  # the size of a pipe


def listen(pipe: IO[bytes], hear: Callable[[bytes], None]) -> threading.Thread:
    """Hand on what comes through a pipe, b"" at its end. A thread, as Windows waits for no pipe."""

    def read() -> None:
        data = b" "
        while data:
            try:
                data = os.read(pipe.fileno(), _CHUNK)
            except (OSError, ValueError):  # closed from this side
                data = b""
            hear(data)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


@contextmanager
def safe_spawning() -> Iterator[None]:
    """For children that a library starts, which gives them our environment and no -P."""
    before = {key: os.environ.get(key) for key in (_SAFE, _PATHS)}
    os.environ |= {key: environment()[key] for key in before}
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
