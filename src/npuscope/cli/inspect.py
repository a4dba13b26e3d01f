"""`npuscope inspect FILE_OR_FOLDER`: say what it is and what is in it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_output
from npuscope.cli.output import deliver, refuse_overwrite
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.program.identify import Identity

SCHEMA = "npuscope/inspect/1"
_MOST_LINES = 20
# Kinds as a person says them; the others are their own names.
_NAMES = {
    "art_profile": "compiler profiles (neural_art.json)",
    "c_info": "network description (c_info.json)",
    "ec_blob": "epoch-controller blobs",
    "estimate": "estimate of npuscope",
    "generate_report": "generate report",
    "loadable": "runtime-loadable image",
    "mdesc": "machine description",
    "mpool": "memory pools",
    "network_c": "network source (network.c)",
    "network_csv": "epoch table (network.csv)",
    "onnx": "ONNX model",
    "profile": "profile of npuscope",
    "profiler_log": "log of the NPU profiler",
    "program": "program of npuscope",
    "qpc": "program container (QPC)",
    "quant_json": "quantization of a model (_Q.json)",
    "raw_image": "raw image of a memory",
    "stats_buffer": "stats buffer",
    "tflite": "TFLite model",
    "validate_report": "validate report",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE_OR_FOLDER", help="any file or folder of the tools")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    from npuscope.profile.inspectors import INSPECTORS
    from npuscope.program.identify import identify

    found = identify(args.source, INSPECTORS)
    deliver(args, _text(args.source, found, args.verbose), _as_json(found))
    return 0


def _as_json(found: Identity) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "kind": found.kind,
        "version": found.version,
        "summary": found.summary,
        "ignored": list(found.ignored),
    }


def _text(source: str, found: Identity, every: bool) -> str:
    rows = {k: v for k, v in found.summary.items() if k != "values" and v not in (None, "", [], {})}
    width = max((len(key) for key in rows), default=0)
    lines = [_headline(source, found)]
    for key, value in rows.items():
        if isinstance(value, list) and any(isinstance(v, str) and " " in v for v in value):
            lines += _sentences(key, value, every)
        else:
            lines.append(f"  {key.replace('_', ' '):<{width}}  {safe_terminal(_shown(value))}")
    return "\n".join([*lines, *_sentences("not read", list(found.ignored), every)])


def _headline(source: str, found: Identity) -> str:
    """What it is, its version, and the count that matters most."""
    name = _NAMES.get(found.kind, found.kind)
    version = f", version {safe_terminal(found.version)}" if found.version else ""
    return f"{safe_terminal(source)}: {name}{version}{_main_count(found)}"


def _main_count(found: Identity) -> str:
    counts = found.summary
    if found.kind == "folder":
        networks = safe_terminal(", ".join(counts["networks"])) or "none"
        return (
            f" of {counts['files']} files, networks: {networks}; missing: {len(counts['missing'])}"
        )
    if counts.get("epochs"):
        return f", {counts['epochs']} epochs, {counts.get('sw_epochs', 0)} in software"
    return f", {counts['pools']} pools" if counts.get("pools") else ""


def _sentences(key: str, lines: list[str], every: bool) -> list[str]:
    if not lines:
        return []
    shown = lines if every else lines[:_MOST_LINES]
    rest = len(lines) - len(shown)
    more = [f"    and {rest} more (-v shows them)"] if rest else []
    return [f"  {key}", *(f"    {safe_terminal(str(line))}" for line in shown), *more]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{entry} {key}" for key, entry in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
