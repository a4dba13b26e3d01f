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
from npuscope.program.generate_report.usage import pool_usage
from npuscope.program.generate_report.writer import amount, epoch_lines
from npuscope.program.model import EpochKind, Program
from npuscope.report.figures import shorten_end
from npuscope.shown import counted
from npuscope.text import safe_terminal

_MOST_HELD = 60  # characters
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
    tally = program.tally
    counts = ", ".join(f"{number} {kind}" for kind, number in tally.items())
    epochs = counted(sum(tally.values()), "epoch")
    share = tally[EpochKind.HW.value] / max(1, sum(tally.values()))
    directory = compilation.call.directory if compilation.call else "memory"
    lines = [f"{epochs} ({counts}; {share:.1%} on the NPU) in {safe_terminal(directory)}"]
    lines += [f"note     {safe_terminal(note)}" for note in notes]
    if compilation.graph is not None and verbosity:
        lines += ["", *summary_lines(program, compilation.graph, compilation.call)]
        lines += ["", *epoch_lines(program, together=verbosity < 2), *_pool_lines(program)]
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


def _pool_lines(program: Program) -> list[str]:
    """What lies in each pool that is used."""
    used = [pool for pool in pool_usage(program) if pool.holds]
    if not used:
        return []
    wide = max(len(pool.name) for pool in used)
    rows = [
        f"  {pool.name:<{wide}}  0x{pool.low:08X}-0x{pool.high:08X} "
        f"{amount(pool.weights_bytes + pool.activations_bytes)} of {amount(pool.size_bytes)}  "
        f"{shorten_end(', '.join(pool.holds), _MOST_HELD)}"
        for pool in used
    ]
    return ["", "Pools and what lies in them", *map(safe_terminal, rows)]


def _vendor_trail(program: Program, graph: Graph | None) -> list[str]:
    """The same in the words that the vendor's compiler has for it."""
    lines: list[str] = []
    ops = () if graph is None else graph.ops
    layers = {op.origin: op for op in ops if op.kind in LAYERS}
    # Numbers of operators and tensors are those of the file.
    ids = {name: number for number, op in enumerate(ops) for name in op.origin}
    tensors = {} if graph is None else {name: n for n, name in enumerate(graph.tensors)}
    for epoch in program.executed:
        name = ", ".join(epoch.origin or epoch.operators)
        number = f" id={ids[epoch.origin[0]]}" if epoch.origin and epoch.origin[0] in ids else ""
        made = epoch.call.outputs if epoch.call else ()
        results = [tensors[one] for one in made if one in tensors]
        output = f"output tensor (id={results[0]}): " if results else ""
        for refused in epoch.trail:
            lines += [
                f"Lowering {name}{number} with Lowerer HW",
                f"HW lowering not done for {', '.join(epoch.operators)} node={name} because "
                f"{output}{refused.reason} [{refused.rule}]",
                "Let's try with the next lowerer",
            ]
        lines.append(f"Lowering {name}{number} with Lowerer {epoch.kind.value}")
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
