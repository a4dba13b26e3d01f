"""Files that opstats leaves: whole under their name, or not there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from npuscope.errors import FileError
from npuscope.report.trace.chrome import write_chrome
from npuscope.report.trace.perfetto import write_perfetto
from npuscope.text import file_name, safe_terminal
from npuscope.trace_model import TraceModel

TRACE_WRITERS: dict[str, Callable[[TraceModel, BinaryIO], None]] = {
    "trace.json": write_chrome,
    "perfetto-trace": write_perfetto,
}
SUMMARY = "summary.txt"


def output_path(folder: Path, stem: str, ending: str) -> Path:
    """`<buffer name>.qaic-opstats.<ending>`."""
    return folder / f"{file_name(stem)}.qaic-opstats.{ending}"


def write_text(path: Path, text: str) -> Path:
    with _fresh(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return path


def write_trace(path: Path, ending: str, model: TraceModel) -> Path:
    with _fresh(path) as file:
        TRACE_WRITERS[ending](model, file)
    return path


@contextlib.contextmanager
def _fresh(path: Path) -> Iterator[BinaryIO]:
    """A temporary file beside it that takes its name when all went well."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(handle, "wb") as file:
                yield file
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        place = safe_terminal(str(path))
        raise FileError(f"cannot be written: {error.strerror}", where=place) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
