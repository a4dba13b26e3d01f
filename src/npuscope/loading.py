"""Nouns from files: whatever was saved, or came from a compiler or an exporter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import FileError

if TYPE_CHECKING:
    from npuscope.graph.model import Graph
    from npuscope.machine.model import Machine
    from npuscope.profiling.model import Profile
    from npuscope.program.model import Program
    from npuscope.rulebook.finding import Findings


def load(path: str | Path) -> Graph | Machine | Program | Profile | Findings:
    """A noun from its file.

    In: what `.save` of a noun wrote, a model (.tflite, .onnx), a machine (.toml), or what a
    compiler made. Out: the noun that it is. A Graph has no file of its own: the model that it was
    read from is one, complete and known to every tool.

    >>> npuscope.load("run.json").total_ms
    """
    file = Path(path)
    ending = file.suffix.lower()
    if ending in (".tflite", ".onnx"):
        return load_model(file)
    if ending == ".toml":
        return load_machine(machine_file=file)
    return _saved(file) if ending == ".json" and file.is_file() else _program(file)


def _saved(file: Path) -> Machine | Program | Profile | Findings:
    """A record that npuscope saved, by its schema; other JSON comes from a compiler."""
    from npuscope.machine.load import is_saved_machine, read_machine
    from npuscope.profiling.saved import is_saved_profile, read_profile
    from npuscope.rulebook.finding import are_saved_findings, read_findings

    if is_saved_profile(file):
        return read_profile(file)
    if is_saved_machine(file):
        return read_machine(file)
    if are_saved_findings(file):
        return read_findings(file)
    return _program(file)


def _program(file: Path) -> Program:
    from npuscope.program.sources import read_program

    if not file.exists():
        raise FileError("no such file", where=str(file))
    return read_program(file)


def load_model(path: str | Path, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The quantized network of a model file.

    In: a .tflite or .onnx file; `shapes` pins open sizes by input name. Out: a Graph.

    >>> npuscope.load_model("model.onnx", {"input": (1, 3, 224, 224)}).ops
    """
    from npuscope.files.load import load_model as run_load_model

    return run_load_model(path, shapes)


def load_machine(
    name: str = "stm32n6",
    *,
    generation: str = "4.0",
    epoch_controller: bool = True,
    overrides: Mapping[str, object] | None = None,
    machine_file: str | Path | None = None,
) -> Machine:
    """A machine, programmed by compilers of a generation.

    In: its name, or a `machine_file` that is read instead; `overrides` replaces single values by
    their path in the TOML. Out: a Machine.

    >>> npuscope.load_machine(overrides={"npu.clock_mhz": 800}).clocks
    """
    from npuscope.machine.load import load_machine as run_load_machine

    return run_load_machine(
        name,
        generation=generation,
        epoch_controller=epoch_controller,
        overrides=overrides,
        machine_file=machine_file,
    )
