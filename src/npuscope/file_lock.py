"""Locks on open files, by whichever call the system has. A lock ends with its process."""

from __future__ import annotations

import os

# Windows locks bytes against reading too, so the locked one lies where no file has any.
_FAR = 1 << 30


def try_lock(file: int) -> bool | None:
    """Whether the lock is ours now; None where the system or the file system has none."""
    try:
        import fcntl
    except ImportError:
        return _try_lock_byte(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _try_lock_byte(file: int) -> bool | None:
    try:
        import msvcrt
    except ImportError:
        return None
    position = os.lseek(file, 0, os.SEEK_CUR)
    try:
        os.lseek(file, _FAR, os.SEEK_SET)
        locking, at_once = msvcrt.locking, msvcrt.LK_NBLCK  # type: ignore[attr-defined,unused-ignore]
        locking(file, at_once, 1)
    except PermissionError:
        return False
    except OSError:
        return None
    finally:
        os.lseek(file, position, os.SEEK_SET)
    return True
