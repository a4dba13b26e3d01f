"""A trace as a file, by the ending that says in which form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from npuscope.report.trace.chrome import write_chrome
from npuscope.report.trace.perfetto import write_perfetto
from npuscope.trace_model import TraceModel
from npuscope.whole_file import as_file_error, fresh

TRACE_WRITERS: dict[str, Callable[[TraceModel, BinaryIO], None]] = {
    "trace.json": write_chrome,
    "perfetto-trace": write_perfetto,
}


def write_trace(path: Path, ending: str, model: TraceModel) -> Path:
    """Complete, or absent."""
    with as_file_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with fresh(path) as file:
        TRACE_WRITERS[ending](model, file)
    return path
