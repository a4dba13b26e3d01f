"""From which model, and with which options, a container was compiled: `osb.source`.

A container holds no arithmetic. Whoever computes with it compiles the model again, and finds it
here, by a path that starts at the container's folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from npuscope.bounded_file import opened
from npuscope.errors import FileError
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.qpc import read_qpc
from npuscope.text import safe_terminal

SEGMENT = "osb.source"
_BLOCK = 1 << 20


class ProgramSource(Struct, frozen=True):
    model: str
    sha256: str
    options: CoreCompileOptions


def source_segment(model: Path, folder: Path | None, options: CoreCompileOptions) -> bytes:
    """`folder` is where the container will be; the path is whole where that is not known."""
    path = str(model.resolve())
    if folder is not None:
        path = os.path.relpath(path, folder.resolve())
    return msgspec.json.encode(ProgramSource(path, _digest(model), options))


def read_source(container: bytes) -> ProgramSource | None:
    """None of a container that does not say it."""
    data = read_qpc(container).get(SEGMENT)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=ProgramSource)
    except msgspec.DecodeError as error:
        raise FileError(f"cannot be read: {error}", where=SEGMENT) from None


def source_model(source: ProgramSource, folder: Path) -> Path:
    """The model of a container in `folder`, as it was when it was compiled."""
    path = folder / source.model
    where, hint = safe_terminal(str(path)), "give the model of the program with --model"
    if not path.is_file():
        raise FileError("the model of the program is no longer there", where=where, hint=hint)
    if _digest(path) != source.sha256:
        raise FileError("has changed since the program was compiled", where=where, hint=hint)
    return path


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with opened(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
