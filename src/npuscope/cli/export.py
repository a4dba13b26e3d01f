"""`npuscope export SOURCE`: what layers cost, for the viewers of others."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_options, api_options
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.report.export_drawing import Export


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "export")


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    refuse_overwrite(args, args.model)
    from npuscope import api

    with working(args, "exporting"):
        found = api.export(
            args.source,
            model_explorer=args.model_explorer,
            netron=args.netron,
            model=args.model,
            **api_options(args),
        )
    deliver(args, _text(found), _as_json(found))
    return 0


def _text(subject: Export) -> str:
    layers = f"{subject.annotated} of {len(subject.nodes)} nodes"
    name = safe_terminal(subject.path.name)
    total, rest = subject.profile.total_ms, subject.unassigned_ms
    lines = [f"{layers} of {name} with times: {total - rest:.3f} of {total:.3f} ms"]
    return "\n".join([*lines, *(f"  {file}" for file in subject.files)])


def _as_json(subject: Export) -> dict[str, Any]:
    from npuscope.report.figures import source_of

    return {
        "schema": "npuscope/export/1",
        "model": subject.path.name,
        "files": list(subject.files),
        "nodes": len(subject.nodes),
        "annotated": subject.annotated,
        "total_ms": round(subject.profile.total_ms, 6),
        "unassigned_ms": round(subject.unassigned_ms, 6),
        "provenance": source_of(subject.profile).value,
    }
