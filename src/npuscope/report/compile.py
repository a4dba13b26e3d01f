"""What a compilation gave, as text and as JSON."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.families.interface import Compiled
from npuscope.graph.model import Graph, Op
from npuscope.machine.npu_ops import LAYERS
from npuscope.program.code_files import NO_C
from npuscope.program.generate_report.summary import BuildCall, summary_lines
from npuscope.program.model import EpochKind, Program
from npuscope.shown import counted
from npuscope.text import safe_terminal

OUTPUT_FOLDER = "st_ai_output"  # of the vendor's tool; where `package` looks


class Compilation(Struct, frozen=True):
    """A Program, the files of its folder, and notes on what could not be written."""

    program: Program
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    graph: Graph | None = None
    call: BuildCall | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """Why there is no C, without which a build cannot be run."""
        return tuple(note for note in self.notes if note.startswith(NO_C))


def compiled_text(build: Compiled, *, directory: str = OUTPUT_FOLDER) -> str:
    """Of a family that has no words of its own for it."""
    names = safe_terminal(", ".join(build.files))
    lines = [f"{counted(len(build.files), 'file')} in {safe_terminal(directory)}: {names}"]
    return "\n".join([*lines, *(f"note     {safe_terminal(note)}" for note in build.notes)])


def compiled_json(
    build: Compiled, *, directory: str = OUTPUT_FOLDER, machine: str
) -> dict[str, Any]:
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
    verbosity: int,
    log_lowering: bool,
    d_lower: int,
    unused: tuple[str, ...],
) -> str:
    notes = (*compilation.notes, *unused)
    program = compilation.program
    counts = ", ".join(f"{number} {kind}" for kind, number in program.tally.items())
    epochs = counted(sum(program.tally.values()), "epoch")
    directory = compilation.call.directory if compilation.call else "memory"
    lines = [f"{epochs} ({counts}) in {safe_terminal(directory)}"]
    lines += [f"note     {safe_terminal(note)}" for note in notes]
    if compilation.graph is not None and verbosity:
        lines += ["", *summary_lines(program, compilation.graph, compilation.call)]
    if compilation.call is not None and verbosity > 1:
        arguments = compilation.call.compiler_arguments(program)
        lines += ["", f"compiler arguments: {safe_terminal(arguments)}"]
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
        lines += _vendor_trail(program, compilation.graph)
    return "\n".join(lines)


def _vendor_trail(program: Program, graph: Graph | None) -> list[str]:
    """The same in the words that the vendor's compiler has for it."""
    lines: list[str] = []
    layers = {} if graph is None else {op.origin: op for op in graph.ops if op.kind in LAYERS}
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
        layer = layers.get(epoch.origin)
        if graph is not None and layer is not None and epoch.kind is EpochKind.SW:
            lines += _tensor_lines(graph, layer, name)
    return [safe_terminal(line) for line in lines]


def _tensor_lines(graph: Graph, layer: Op, name: str) -> list[str]:
    """The vendor's labels are swapped: `ch` counts the inputs, `chin` the outputs."""
    shape, inputs = graph.output_tensor(layer).shape, graph.first_input(layer).shape[-1]
    height, width = prod(shape[1:-2]), prod(shape[-2:-1]) if len(shape) > 2 else 1
    return [
        f"Standard Software Lowering operations for node {name}",
        f"tensor w: {width}",
        f"tensor h: {height}",
        f"tensor ch: {inputs}",
        f"tensor chin: {shape[-1]}",
    ]


def compilation_json(compilation: Compilation, *, unused: tuple[str, ...]) -> dict[str, Any]:
    program = compilation.program
    return {
        "schema": "npuscope/compile/1",
        "directory": str(Path(compilation.call.directory)) if compilation.call else "",
        "files": list(compilation.files),
        "machine": program.machine,
        "generation": program.generation,
        "epoch_controller": program.epoch_controller,
        "counts": program.tally,
        "notes": [*program.notes, *compilation.notes, *unused],
    }
