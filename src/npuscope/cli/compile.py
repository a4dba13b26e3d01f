"""`npuscope compile MODEL -o DIR`: the program of a model, as files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_options, api_options, without_effect
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.errors import TargetError, UsageError
from npuscope.shown import counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.program.model import Program

_TARGETS = ("stm32n6",)


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "compile")


def _source(args: argparse.Namespace) -> str:
    if bool(args.source) == bool(args.model):
        what = "the model is given twice" if args.model else "there is no model to compile"
        raise UsageError(
            what, where="MODEL", hint="give it as MODEL or with -m, as the vendor's tool"
        )
    return str(args.source or args.model)


def run(args: argparse.Namespace) -> int:
    args.source = _source(args)
    refuse_overwrite(args, args.source)
    if args.target is not None and args.target not in _TARGETS:
        raise UsageError(f"unknown target '{args.target}'", where="--target", hint="stm32n6")
    from npuscope import api
    from npuscope.program.code_files import NO_C

    options = api_options(args)
    options["ec_single_epoch"] = args.ec_single_epoch
    options["relocatable"] = args.relocatable
    options["no_secure"] = args.no_secure
    with working(args, "compiling"):
        made = api.compiled(
            args.source,
            args.output,
            name=args.name,
            csv_file=args.csv_file,
            output_info_file=args.output_info_file,
            max_ca_pipe=args.Omax_ca_pipe,
            application=args.application or "",
            options=options,
        )
    program = made.program
    notes = (*made.notes, *without_effect(args, "compile"))
    lines = [_answer(program, args.output), *(f"note     {safe_terminal(note)}" for note in notes)]
    if made.graph is not None and args.verbosity:
        from npuscope.program.generate_report.summary import summary_lines

        lines += ["", *summary_lines(program, made.graph, args.output, args.name)]
    if args.log_lowering or args.verbosity > 1:
        lines += _trail(program)
    if args.d_lower > 0:
        lines += _vendor_trail(program)
    deliver(args, "\n".join(lines), _as_json(program, args.output, made.files, notes))
    missing = [note for note in made.notes if note.startswith(NO_C)]
    for note in missing:  # everything else was written; but a build without C cannot be run
        print(f"npuscope: {safe_terminal(note)}", file=sys.stderr)
    return TargetError.exit_code if missing else 0


def _answer(program: Program, directory: str) -> str:
    counts = ", ".join(f"{number} {kind}" for kind, number in _counts(program).items())
    return f"{counted(len(program.executed), 'epoch')} ({counts}) in {safe_terminal(directory)}"


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


def _vendor_trail(program: Program) -> list[str]:
    """The same in the words that the vendor's compiler has for it."""
    lines: list[str] = []
    for epoch in program.executed:
        name = ", ".join(epoch.origin or epoch.operators)
        for refused in epoch.trail:
            lines += [
                f"Lowering {name} with Lowerer HW",
                f"HW lowering not done for {', '.join(epoch.operators)} node={name} because "
                f"{refused.reason} [{refused.rule}]",
                "Let's try with the next lowerer",
            ]
        lines.append(f"Lowering {name} with Lowerer {epoch.kind.value}")
    return [safe_terminal(line) for line in lines]


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
