"""A private folder for what compilers leave behind: nobody else can plant an object there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from npuscope.bounded_file import OWN, read_bytes
from npuscope.errors import FileError
from npuscope.whole_file import work_folder

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_DIGITS = 16
_HINT = "remove it, or name another folder with XDG_CACHE_HOME"


def cache_path() -> Path:
    """`$XDG_CACHE_HOME/npuscope` or `~/.cache/npuscope`, there or not."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "npuscope"


def cache_folder() -> Path:
    """The cache, made for this user alone."""
    folder = cache_path()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        _refuse_shared(folder)
    except OSError as error:
        raise FileError(f"cannot be used as cache: {error.strerror}", where=str(folder)) from None
    return folder


def _refuse_shared(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise FileError("is not a folder of its own", where=str(folder), hint=_HINT)
    if not hasattr(os, "getuid"):
        return  # rights are not kept in these bits there
    if status.st_uid != os.getuid():
        raise FileError("belongs to another user", where=str(folder), hint=_HINT)
    if status.st_mode & _OTHERS:
        raise FileError(
            "others may write to it, and would decide what is linked into images",
            where=str(folder),
            hint=f"chmod 700 {folder}",
        )


def digest(*parts: bytes | str) -> str:
    """One name for all of the parts; their borders count."""
    total = sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def cached(folder: Path, key: str, ending: str, make: Callable[[Path], None]) -> Path:
    """What `make` wrote for this key, now or earlier.

    Its name carries its digest: a file that a crash or a full disk has torn is made again.
    """
    for path in folder.glob(f"{key}.*{ending}"):
        if path.name == _named(key, path, ending):
            return path
        path.unlink(missing_ok=True)
    with work_folder(folder) as work:
        made = work / f"made{ending}"
        make(made)
        return made.replace(folder / _named(key, made, ending))


def _named(key: str, made: Path, ending: str) -> str:
    return f"{key}.{sha256(read_bytes(made, OWN)).hexdigest()[:_DIGITS]}{ending}"
