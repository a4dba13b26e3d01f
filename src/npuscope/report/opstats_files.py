"""Files that opstats leaves: whole under their name, or not there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from npuscope.report.trace.chrome import write_chrome
from npuscope.report.trace.perfetto import write_perfetto
from npuscope.text import file_name
from npuscope.trace_model import TraceModel
from npuscope.whole_file import as_file_error, fresh

TRACE_WRITERS: dict[str, Callable[[TraceModel, BinaryIO], None]] = {
    "trace.json": write_chrome,
    "perfetto-trace": write_perfetto,
}
SUMMARY = "summary.txt"


def output_path(folder: Path, stem: str, ending: str) -> Path:
    """`<buffer name>.qaic-opstats.<ending>`."""
    return folder / f"{file_name(stem)}.qaic-opstats.{ending}"


def write_text(path: Path, text: str) -> Path:
    with _in_its_folder(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return path


def write_trace(path: Path, ending: str, model: TraceModel) -> Path:
    with _in_its_folder(path) as file:
        TRACE_WRITERS[ending](model, file)
    return path


@contextlib.contextmanager
def _in_its_folder(path: Path) -> Iterator[BinaryIO]:
    with as_file_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with fresh(path) as file:
        yield file
