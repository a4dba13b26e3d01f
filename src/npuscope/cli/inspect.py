"""`npuscope inspect FILE_OR_FOLDER`: say what it is and what is in it."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_options
from npuscope.cli.output import deliver, refuse_overwrite
from npuscope.shown import counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.api_files import Inspection
    from npuscope.identify.table import Identity
    from npuscope.loadable.compare import Difference
    from npuscope.loadable.fitting import Fitting

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
    add_options(parser, "inspect")


def run(args: argparse.Namespace) -> int:
    for source in (args.source, args.compare, args.firmware_map):
        refuse_overwrite(args, source)
    from npuscope import api

    found = api.inspect(args.source, compare=args.compare, firmware_map=args.firmware_map)
    if found.image is not None:
        _deliver_image(args, found)
    else:
        deliver(args, _text(args.source, found.identity, args.verbose), _as_json(found.identity))
    return 0


def _deliver_image(args: argparse.Namespace, found: Inspection) -> None:
    """An image by itself, or the answer to the question that the options ask about it."""
    from npuscope.report.loadable import comparison_text, fitting_text, image_text

    assert found.image is not None
    texts: list[str] = []
    result = _as_json(found.identity)
    if found.fitting is not None:
        texts.append(fitting_text(args.source, found.fitting))
        result["firmware"] = _fitting_json(found.fitting)
    if found.differences is not None:
        texts.append(comparison_text(args.source, args.compare, found.differences))
        result["compare"] = _differences_json(args.compare, found.differences)
    deliver(args, "\n\n".join(texts or [image_text(args.source, found.image)]), result)


def _fitting_json(fitting: Fitting) -> dict[str, Any]:
    return {
        "name": fitting.firmware,
        "loads": fitting.loads,
        "modes": {"xip": fitting.xip_loads, "copy": fitting.copy_loads},
        "checks": [
            {"mode": mode, **asdict(check)}
            for mode in ("common", "xip", "copy")
            for check in getattr(fitting, mode)
        ],
    }


def _differences_json(other: str, differences: tuple[Difference, ...]) -> dict[str, Any]:
    rows = [asdict(difference) for difference in differences]
    return {"other": other, "same": not rows, "differences": rows}


def _as_json(found: Identity) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "kind": found.kind,
        "version": found.version,
        "summary": found.summary,
        "ignored": list(found.ignored),
    }


def _text(source: str, found: Identity, every: bool) -> str:
    # `values` holds every number of the file, which is for --json only.
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
        files = counted(counts["files"], "file")
        return f" of {files}, networks: {networks}; missing: {len(counts['missing'])}"
    if counts.get("epochs"):
        return f", {counted(counts['epochs'], 'epoch')}, {counts.get('sw_epochs', 0)} in software"
    return f", {counted(counts['pools'], 'pool')}" if counts.get("pools") else ""


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
