"""What a compilation gave, as text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.families.interface import Compiled
from npuscope.graph.model import Graph
from npuscope.program.code_files import NO_C
from npuscope.program.generate_report.summary import summary_lines
from npuscope.program.model import EpochKind, Program
from npuscope.shown import counted
from npuscope.text import safe_terminal


class Compilation(Struct, frozen=True):
    """A Program, the files of its folder, and notes on what could not be written."""

    program: Program
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    graph: Graph | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """Why there is no C, without which a build cannot be run."""
        return tuple(note for note in self.notes if note.startswith(NO_C))


def compiled_text(build: Compiled, *, directory: str) -> str:
    """Of a family that has no words of its own for it."""
    names = safe_terminal(", ".join(build.files))
    lines = [f"{counted(len(build.files), 'file')} in {safe_terminal(directory)}: {names}"]
    return "\n".join([*lines, *(f"note     {safe_terminal(note)}" for note in build.notes)])


def compiled_json(build: Compiled, *, directory: str, machine: str) -> dict[str, Any]:
    return {
        "schema": "npuscope/compile/1",
        "directory": str(Path(directory)),
        "files": list(build.files),
        "machine": machine,
        "notes": list(build.notes),
    }


def compilation_text(
    compilation: Compilation,
    *,
    directory: str,
    name: str,
    verbosity: int,
    log_lowering: bool,
    d_lower: int,
    unused: tuple[str, ...],
) -> str:
    notes = (*compilation.notes, *unused)
    program = compilation.program
    counts = ", ".join(f"{number} {kind}" for kind, number in _counts(program).items())
    epochs = counted(len(program.executed), "epoch")
    lines = [f"{epochs} ({counts}) in {safe_terminal(directory)}"]
    lines += [f"note     {safe_terminal(note)}" for note in notes]
    if compilation.graph is not None and verbosity:
        lines += ["", *summary_lines(program, compilation.graph, directory, name)]
    if log_lowering or verbosity > 1:
        # Why each epoch is what it is: the better ways that a rule did not allow.
        lines += [
            safe_terminal(
                f"epoch {epoch.number} {epoch.kind.value} {', '.join(epoch.operators)}: "
                f"not {refused.way}: {refused.reason} [{refused.rule}]"
            )
            for epoch in program.executed
            for refused in epoch.trail
        ]
    if d_lower > 0:
        lines += _vendor_trail(program)
    return "\n".join(lines)


def _counts(program: Program) -> dict[str, int]:
    kinds = (EpochKind.HW, EpochKind.SW, EpochKind.HYBRID)
    return {kind.value: program.count(kind) for kind in kinds}


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


def compilation_json(
    compilation: Compilation, *, directory: str, unused: tuple[str, ...]
) -> dict[str, Any]:
    program = compilation.program
    return {
        "schema": "npuscope/compile/1",
        "directory": str(Path(directory)),
        "files": list(compilation.files),
        "machine": program.machine,
        "generation": program.generation,
        "epoch_controller": program.epoch_controller,
        "counts": _counts(program),
        "notes": [*program.notes, *compilation.notes, *unused],
    }
