"""`npuscope disasm FILE`: epoch-controller blobs as text."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_options
from npuscope.cli.output import deliver, refuse_overwrite
from npuscope.shown import counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.api_files import Disassembly


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "disasm")


def run(args: argparse.Namespace) -> int:
    from npuscope import api

    refuse_overwrite(args, args.source)
    found = api.disasm(args.source, blob=args.blob, output=args.output)
    text = found.text
    if args.output is not None:
        text = f"{_count(found)} in {safe_terminal(args.output)}"
    deliver(args, text, _as_json(found))
    return 0


def _count(found: Disassembly) -> str:
    return f"{counted(len(found.blobs), 'blob')}, {counted(found.words, 'word')}"


def _as_json(found: Disassembly) -> dict[str, Any]:
    from npuscope.program.ec_blob.assembly import binary_json

    return {
        "schema": "npuscope/disasm/1",
        "blobs": [{"name": name, **binary_json(blob)} for name, blob in found.blobs.items()],
    }
