"""`npuscope disasm FILE`: epoch-controller blobs as text."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.bounded_file import BLOBS, read_bytes
from npuscope.cli.options import add_output
from npuscope.cli.output import deliver, refuse_overwrite, write_file
from npuscope.errors import FileError, UsageError
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.program.ec_blob.binary import EcBinary


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE", help="a *_ecblobs.h, or the bytes of one blob")
    parser.add_argument("--blob", metavar="NAME", help="one blob of a header (default: all)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the text to FILE")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from npuscope.program.ec_blob.text import disassemble

    refuse_overwrite(args, args.source)
    blobs = _chosen(_read(args.source), args.blob)
    texts = [f"; {safe_terminal(name)}\n{disassemble(blob)}" for name, blob in blobs.items()]
    text = "\n".join(texts)
    if args.output is not None:
        if len(blobs) > 1:
            raise UsageError(
                f"{len(blobs)} blobs do not fit one file that can be assembled again",
                where=f"-o {args.output}",
                hint=f"choose one with --blob: {_names(blobs)}",
            )
        write_file(args.output, text)
        text = f"{_count(blobs)} in {safe_terminal(args.output)}"
    deliver(args, text, _as_json(blobs))
    return 0


def _read(path: str) -> dict[str, EcBinary]:
    """Blobs by name; a file that does not start with a blob's magic is a header."""
    from npuscope.program.ec_blob.binary import read_binary
    from npuscope.program.ec_blob.header import read_header

    data = read_bytes(path, BLOBS)
    try:
        if not path.lower().endswith(".h"):
            return {Path(path).name: read_binary(data)}
        arrays = read_header(data.decode("utf-8", "replace"))
    except FileError as error:
        raise _in_file(error, path) from None
    blobs: dict[str, EcBinary] = {}
    for name, array in arrays.items():
        try:
            blobs[name] = read_binary(array)
        except FileError as error:
            raise _in_file(error, f"{path}, {name}") from None
    return blobs


def _in_file(error: FileError, path: str) -> FileError:
    where = f"{safe_terminal(path)}, {error.where}" if error.where else safe_terminal(path)
    return FileError(error.message, where=where, hint=error.hint)


def _chosen(blobs: dict[str, EcBinary], name: str | None) -> dict[str, EcBinary]:
    if name is None:
        return blobs
    if name not in blobs:
        raise UsageError(f"no blob '{safe_terminal(name)}'", hint=f"blobs: {_names(blobs)}")
    return {name: blobs[name]}


def _names(blobs: dict[str, EcBinary]) -> str:
    return safe_terminal(", ".join(blobs))


def _count(blobs: dict[str, EcBinary]) -> str:
    words = sum(i.words for blob in blobs.values() for i in blob.instructions)
    return f"{len(blobs)} blob{'s' if len(blobs) != 1 else ''}, {words} words"


def _as_json(blobs: dict[str, EcBinary]) -> dict[str, Any]:
    from npuscope.program.ec_blob.listing import binary_json

    return {
        "schema": "npuscope/disasm/1",
        "blobs": [{"name": name, **binary_json(blob)} for name, blob in blobs.items()],
    }
