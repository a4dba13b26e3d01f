"""Epoch-controller blobs as text, and back: what `disasm` and `asm` ask for."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from npuscope.bounded_file import BLOBS, read_bytes
from npuscope.errors import FileError
from npuscope.families.interface import Assembled, CodePart
from npuscope.program.ec_blob.assembly import assemble, binary_json, disassemble
from npuscope.program.ec_blob.binary import (
    EcBinary,
    array_name,
    read_binary,
    read_header,
    write_binary,
    write_header,
)


def disassemble_blobs(path: Path) -> dict[str, CodePart]:
    """Blobs by name: arrays of a header, or the bytes of one."""
    data = read_bytes(path, BLOBS)
    if path.suffix.lower() != ".h":
        return {path.name: _part(read_binary(data))}
    parts = {}
    for name, array in read_header(data.decode("utf-8", "replace")).items():
        try:
            parts[name] = _part(read_binary(array))
        except FileError as error:
            error.where = ", ".join(filter(None, (name, error.where)))
            raise
    return parts


def _part(blob: EcBinary) -> CodePart:
    words = sum(instruction.words for instruction in blob.instructions)
    return CodePart(partial(disassemble, blob), partial(binary_json, blob), words, blob)


def assemble_blob(text: str, output: str, name: str) -> Assembled:
    """A C header if the file ends in .h, else the blob's bytes."""
    blob = assemble(text)
    data = write_binary(blob)
    file = data
    if output.lower().endswith(".h"):
        file = write_header({array_name(name): data}).encode("utf-8", "backslashreplace")
    return Assembled(data, file, len(blob.instructions), blob)
