"""Files of a package: all of them appear, or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from npuscope.errors import FileError, OutputError


def write_files(folder: Path, files: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write under temporary names in the same folder, then rename; others' files stay."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".npuscope-", dir=folder) as work:
            for name, data in files.items():
                _no_folder(folder / name)
                (Path(work) / name).write_bytes(data)
            for name in files:
                os.replace(Path(work) / name, folder / name)
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", where=str(folder)) from None
    return tuple(folder / name for name in files)


def _no_folder(path: Path) -> None:
    if path.is_dir():
        raise FileError("is a folder, a file is to be written", where=str(path))
