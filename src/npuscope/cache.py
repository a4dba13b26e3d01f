"""The cache: a folder for this user alone, bounded in size and age.

What was not used for longest goes first. Nothing goes that was used within the last hour: another
process may be about to read it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.work_folder import Work, is_work

MOST_BYTES = 256 << 20
MOST_FILES = 20_000
MOST_DAYS = 90
# Folders of a compiler, which does not expect that single files of them go.
WHOLE_FOLDERS = ("zig", "zig-local")
_IN_USE_S = 3600.0
_DAY_S = 86_400.0
TRIMMED = "trimmed"  # its time is that of the last look at what may go
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_HINT = "remove it, or name another folder with XDG_CACHE_HOME"


class Entry(Struct, frozen=True):
    """What is kept or goes as a whole."""

    path: Path
    files: int
    size_bytes: int
    used_s: float


def cache_path() -> Path:
    """`$XDG_CACHE_HOME/npuscope` or `~/.cache/npuscope`, there or not."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "npuscope"
    except RuntimeError:  # a user without a home
        raise FileError("no folder for the cache", hint="name one with XDG_CACHE_HOME") from None


def cache_folder() -> Path:
    """The cache, made for this user alone; once an hour, what is too much of it goes."""
    folder = cache_path()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        _refuse_shared(folder)
    except OSError as error:
        raise FileError(f"cannot be used as cache: {error.strerror}", where=str(folder)) from None
    with contextlib.suppress(OSError):
        trimmed = folder / TRIMMED
        if not trimmed.exists() or time.time() - trimmed.stat().st_mtime > _IN_USE_S:
            trimmed.touch()
            trim(folder)
    return folder


def _refuse_shared(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise FileError("is not a folder", where=str(folder), hint=_HINT)
    if not hasattr(os, "getuid"):
        return  # rights are not kept in these bits there
    if status.st_uid != os.getuid():
        raise FileError("belongs to another user", where=str(folder), hint=_HINT)
    if status.st_mode & _OTHERS:
        raise FileError(
            "other users can write to it, and could change what is linked into images",
            where=str(folder),
            hint=f"chmod 700 {folder}",
        )


def used(path: Path) -> None:
    """What is asked for again stays longest.

    A file keeps the time of its making. A folder does not: the other time changes with every look.
    """
    with contextlib.suppress(OSError):
        now = time.time_ns()
        os.utime(path, ns=(now, now if path.is_dir() else path.stat().st_mtime_ns))


def trim(folder: Path, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> None:
    """Entries go that are too old, then those used longest ago until the rest fits."""
    entries = sorted(kept(folder), key=lambda entry: entry.used_s, reverse=True)
    now, files, size_bytes = time.time(), 0, 0
    for entry in entries:
        files, size_bytes = files + entry.files, size_bytes + entry.size_bytes
        fits = files <= most_files and size_bytes <= most_bytes
        age_s = now - entry.used_s
        if age_s > _IN_USE_S and not (fits and age_s < MOST_DAYS * _DAY_S):
            with contextlib.suppress(OSError):  # another process was first
                if entry.path.is_dir():
                    # Out of its place first, so that nobody finds half of it.
                    work = Work(folder)
                    entry.path.rename(work.path / entry.path.name)
                    work.close()
                else:
                    entry.path.unlink()


def kept(folder: Path) -> Iterator[Entry]:
    """All of the cache; work of other processes is theirs."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_work(name)]
        if Path(place) == folder:
            for name in WHOLE_FOLDERS:
                if name in folders:
                    folders.remove(name)
                    yield _as_one(folder / name)
        for name in names:
            with contextlib.suppress(OSError):
                status = Path(place, name).lstat()
                if stat.S_ISREG(status.st_mode) and name != TRIMMED:
                    used_s = max(status.st_atime, status.st_mtime)
                    yield Entry(Path(place, name), 1, status.st_size, used_s)


def _as_one(folder: Path) -> Entry:
    sizes = []
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                sizes.append(Path(place, name).lstat().st_size)
    return Entry(folder, len(sizes), sum(sizes), folder.stat().st_mtime)
