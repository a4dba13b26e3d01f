"""A Python without the names that Windows lacks, and with its rules for open files.

`PYTHONPATH=tests/without_posix` puts it before everything that starts, children too; `make
test-portable` runs the suite so. What the standard library itself needs is loaded first.
"""

from __future__ import annotations

import errno
import os
import select
import selectors  # noqa: F401 (keeps its own way to wait)
import socket
import subprocess  # noqa: F401 (would take the lock module below for Windows)
import sys
import tempfile  # noqa: F401
import types
from collections.abc import Callable
from typing import Any

if sys.version_info >= (3, 12):
    import asyncio  # noqa: F401 (asks os.sysconf for a limit)

_MODULES = ("grp", "pty", "pwd", "resource", "termios", "tty")
# fmt: off
_NAMES = (
    "O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "fchmod", "fchown", "fork",
    "forkpty", "getegid", "geteuid", "getgid", "getloadavg", "getpgid", "getuid", "killpg",
    "lchown", "mkfifo", "nice", "openpty", "sched_getaffinity", "setsid", "statvfs", "sysconf",
    "ttyname",
)
# fmt: on


def _lock_of_bytes() -> types.ModuleType:
    """`msvcrt` as far as locks go: a held byte is a PermissionError, not a BlockingIOError."""
    import fcntl

    def locking(file: int, mode: int, n_bytes: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    module = types.ModuleType("msvcrt")
    vars(module).update(locking=locking, LK_NBLCK=2)
    return module


def _open_files() -> list[str]:
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:  # the listing's own
            continue
    return links


def _refusing(call: Callable[..., Any], n_paths: int) -> Callable[..., Any]:
    """Windows neither removes nor renames a file that is open, nor a folder that has one."""

    def refuse_open(*paths: Any, **rest: Any) -> Any:
        files = [] if rest else _open_files()
        for path in paths[:n_paths] if not rest else ():
            whole = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            if any(file == whole or file.startswith(f"{whole}/") for file in files):
                raise PermissionError(errno.EACCES, "the file is in use", path)
        return call(*paths, **rest)

    return refuse_open


def _select_sockets(reading: Any, writing: Any, failing: Any, seconds: Any = None) -> Any:
    for file in (*reading, *writing, *failing):
        number = file if isinstance(file, int) else file.fileno()
        try:
            socket.socket(fileno=os.dup(number)).close()
        except OSError:
            raise OSError(errno.ENOTSOCK, "not a socket") from None
    return _SELECT(reading, writing, failing, seconds)


_SELECT = select.select
if sys.platform == "linux":
    lock = _lock_of_bytes()
    for name in (*_MODULES, "fcntl"):
        sys.modules[name] = None  # type: ignore[assignment]
    sys.modules["msvcrt"] = lock
    for name in _NAMES:
        if hasattr(os, name):
            delattr(os, name)
    for name, n_paths in (
        ("unlink", 1),
        ("remove", 1),
        ("rmdir", 1),
        ("rename", 2),
        ("replace", 2),
    ):
        setattr(os, name, _refusing(getattr(os, name), n_paths))
    select.select = _select_sockets
