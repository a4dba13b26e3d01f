"""`npuscope checklist DIR`: what a build needs on the board, from its own files."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_options
from npuscope.cli.output import deliver, refuse_overwrite

if TYPE_CHECKING:
    from npuscope.loadable.checklist import Checklist

SCHEMA = "npuscope/checklist/1"


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "checklist")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    from npuscope import api
    from npuscope.report.loadable import checklist_text

    found = api.checklist(args.source)
    deliver(args, checklist_text(found), _as_json(found))
    return 0


def _as_json(found: Checklist) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "network": found.network,
        "source": found.source,
        "files": [_file(row) for row in found.initialisers],
        "memories": [asdict(memory) for memory in found.memories],
        "buffers": [{**asdict(work), "aligned": work.aligned} for work in found.caches],
        "alignment": list(found.alignment),
        "notes": list(found.notes),
    }


def _file(row: Any) -> dict[str, Any]:
    crc = None if row.crc32 is None else f"{row.crc32:08x}"
    return {**asdict(row), "crc32": crc, "problem": row.problem}
