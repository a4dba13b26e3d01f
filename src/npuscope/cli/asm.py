"""`npuscope asm FILE -o OUT`: text to an epoch-controller blob."""

from __future__ import annotations

import argparse
import os

from npuscope.bounded_file import ASSEMBLY, read_text
from npuscope.cli.options import add_output
from npuscope.cli.output import deliver, refuse_overwrite, write_file
from npuscope.errors import FileError, NpuscopeError, UsageError
from npuscope.text import safe_terminal
from npuscope.whole_file import write_whole


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE", help="text, as `disasm` writes it")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="a C header if it ends in .h, else the blob's bytes",
    )
    parser.add_argument(
        "--name", metavar="NAME", default="1", help="ends the array's name in a header (default 1)"
    )
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from npuscope.program.ec_blob.assembler import assemble
    from npuscope.program.ec_blob.binary import write_binary

    refuse_overwrite(args, args.source)
    _refuse_same(args.source, args.output)
    try:
        binary = assemble(read_text(args.source, ASSEMBLY, errors="replace"))
        data = write_binary(binary)
    except NpuscopeError as error:
        where = ", ".join(filter(None, (safe_terminal(args.source), error.where)))
        raise FileError(error.message, where=where, hint=error.hint) from None
    _write(args.output, data, args.name)
    result = {
        "schema": "npuscope/asm/1",
        "file": args.output,
        "size_bytes": len(data),
        "instructions": len(binary.instructions),
    }
    where = safe_terminal(args.output)
    text = f"{len(binary.instructions)} instructions, {len(data)} bytes in {where}"
    deliver(args, text, result)
    return 0


def _refuse_same(source: str, output: str) -> None:
    if os.path.exists(output) and os.path.samefile(source, output):
        raise UsageError("this is the file to read", where=f"-o {safe_terminal(output)}")


def _write(path: str, data: bytes, name: str) -> None:
    from npuscope.program.ec_blob.header import array_name, write_header

    if path.lower().endswith(".h"):
        write_file(path, write_header({array_name(name): data}))
        return
    write_whole(path, data)
