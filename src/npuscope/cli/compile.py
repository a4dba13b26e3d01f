"""`npuscope compile MODEL -o DIR`: the program of a model, as files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.cli.vendor_flags import add_vendor, check_vendor, vendor_overrides
from npuscope.text import safe_terminal
from npuscope.whole_file import new_folder

if TYPE_CHECKING:
    from npuscope.program.model import Program


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="MODEL", help="a model: .tflite or QDQ .onnx")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the files")
    parser.add_argument(
        "--log-lowering", action="store_true", help="list the ways that rules refused, by epoch"
    )
    parser.add_argument(
        "--relocatable",
        action="store_true",
        help="external pools relative, as `npuscope package` needs them",
    )
    add_target(parser)
    add_model(parser)
    add_vendor(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    refuse_overwrite(args, args.source)
    check_vendor(args)
    from npuscope import api
    from npuscope.report.build_files import BuildNames

    names = BuildNames(args.name or "network", args.csv_file or "", args.output_info_file or "")
    options = api_options(args)
    options["overrides"] = {**vendor_overrides(args), **options["overrides"]}
    options["ec_single_epoch"] = args.ec_single_epoch
    options["relocatable"] = args.relocatable
    with working(args, "compiling"):
        made = api.build(args.source, options)
        program = made.program
        with new_folder(args.output) as folder:
            notes = api.write(made, folder.path, names)
    notes = (*notes, *folder.kept)
    lines = [_answer(program, args.output), *(f"note     {safe_terminal(note)}" for note in notes)]
    if args.log_lowering:
        lines += _trail(program)
    deliver(args, "\n".join(lines), _as_json(program, args.output, folder.files, notes))
    return 0


def _answer(program: Program, directory: str) -> str:
    counts = ", ".join(f"{number} {kind}" for kind, number in _counts(program).items())
    return f"{len(program.executed)} epochs ({counts}) in {safe_terminal(directory)}"


def _counts(program: Program) -> dict[str, int]:
    from npuscope.program.model import EpochKind

    kinds = (EpochKind.HW, EpochKind.SW, EpochKind.HYBRID)
    return {kind.value: program.count(kind) for kind in kinds}


def _trail(program: Program) -> list[str]:
    """Why each epoch is what it is: the better ways that a rule did not allow."""
    return [
        safe_terminal(
            f"epoch {epoch.number} {epoch.kind.value} {', '.join(epoch.operators)}: "
            f"not {refused.way}: {refused.reason} [{refused.rule}]"
        )
        for epoch in program.executed
        for refused in epoch.trail
    ]


def _as_json(
    program: Program, directory: str, files: tuple[str, ...], notes: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "schema": "npuscope/compile/1",
        "directory": str(Path(directory)),
        "files": list(files),
        "machine": program.machine,
        "generation": program.generation,
        "epoch_controller": program.epoch_controller,
        "counts": _counts(program),
        "notes": [*program.notes, *notes],
    }
