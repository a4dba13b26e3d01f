"""Files that are whole or not there: written under a temporary name beside, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from npuscope.errors import OutputError


@contextlib.contextmanager
def fresh(path: str | Path) -> Iterator[BinaryIO]:
    """A file to fill; it takes its name when all went well. A device such as /dev/stderr is
    written as it is."""
    path = Path(path)
    with as_file_error(path):
        if path.exists() and not path.is_file():
            with path.open("wb") as device:
                yield device
            return
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(handle, "wb") as file:
                yield file
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def write_whole(path: str | Path, data: bytes) -> None:
    with fresh(path) as file:
        file.write(data)


@contextlib.contextmanager
def as_file_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", where=str(path)) from None


def _umask() -> int:
    """mkstemp makes private files; a result should have the usual rights."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
