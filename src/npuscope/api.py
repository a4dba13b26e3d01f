"""The verbs as functions, from a model file to the nouns; those of other themes stand beside it.

Each function has the name of its verb and takes what the table of options lists for it; another
keyword is an error with a suggestion. Heavy parts are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from npuscope.api_advice import bisect, explain, fix, lint, quantize, serve, validate
from npuscope.api_boards import board_serve, deploy, package, run
from npuscope.api_files import (
    asm,
    checklist,
    completion,
    disasm,
    doctor,
    inspect,
    machines,
    rules,
)
from npuscope.api_manycore import manycore_compile, manycore_run, opstats
from npuscope.api_nouns import load
from npuscope.api_profile import measure, profile
from npuscope.api_runs import compare, export, gate, sweep, sweep_report
from npuscope.errors import UsageError
from npuscope.lean_dataclass import dataclass
from npuscope.options.check import verb
from npuscope.whole_file import as_file_error, new_folder

if TYPE_CHECKING:
    from npuscope.advice.explain import Explanation
    from npuscope.advice.what_if import Sensitivity, WhatIf
    from npuscope.building import Build, Options, ReadOptions, Source
    from npuscope.graph.model import Graph
    from npuscope.machine.model import Machine
    from npuscope.profiling.model import Profile
    from npuscope.program.model import Program
    from npuscope.report.build_files import BuildNames

__all__ = [
    "Build",
    "Options",
    "Source",
    "asm",
    "bisect",
    "board_serve",
    "build",
    "checklist",
    "compare",
    "compile",
    "completion",
    "demo",
    "deploy",
    "disasm",
    "doctor",
    "estimate",
    "explain",
    "export",
    "fix",
    "gate",
    "inspect",
    "lint",
    "load",
    "load_machine",
    "load_model",
    "machine_for",
    "machines",
    "manycore_compile",
    "manycore_run",
    "measure",
    "opstats",
    "package",
    "profile",
    "quantize",
    "rules",
    "run",
    "sensitivity",
    "serve",
    "sweep",
    "sweep_report",
    "validate",
    "what_if",
]
_BUILDING = ("Build", "Options", "Source")


def __getattr__(name: str) -> Any:
    """Types for those who annotate: what they stand in loads numpy."""
    if name in _BUILDING:
        from npuscope import building

        return getattr(building, name)
    raise AttributeError(f"module 'npuscope.api' has no attribute '{name}'")


def build(source: Source, options: Options) -> Build:
    """A network with its machine and its program, from a model or what a compiler made."""
    from npuscope.building import build as run_build

    return run_build(source, options)


def machine_for(options: ReadOptions) -> Machine:
    """The machine that options name, with the pools and values that they ask for."""
    from npuscope.building import machine_for as run_machine_for

    return run_machine_for(options)


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


@verb
def estimate(
    source: Source,
    *,
    model: str | Path | None = None,
    html: str | Path | None = None,
    **options: Unpack[Options],
) -> Profile:
    """Fit and speed of a model, from the timing model alone.

    In: a model or a compiled program, with its `model` where a changed machine needs a new
    mapping. Out: a Profile with times, memory and what bounds each epoch.

    For a machine of another family (`machine="cloudai100"`) it is what that family timed, with
    `total_ms` and `inferences_per_s` too.

    >>> npuscope.estimate("model.tflite", generation="2.2", npu_mhz=800).total_ms
    """
    from npuscope.families import family_of
    from npuscope.machine.load import known_machines

    family = family_of(options.get("machine"), known_machines())
    if family is not None:
        if model or html:
            raise UsageError(f"not made for {family.name} machines", where="model, html")
        timed: Any = family.time(family.compile(str(source), dict(options)))
        return timed  # type: ignore[no-any-return]
    from npuscope.building import without_collector

    if html:
        from npuscope.report.result_files import write_explained

        with without_collector():
            found = explain(source, model=model, **options)
            write_explained(html, found)
            return found.profile
    with without_collector():
        made = build(source, {**options, "compiled_from": model or options.get("compiled_from")})
        from npuscope.profiling.run import estimate as run_estimate

        return run_estimate(made.program, made.machine, made.graph)


@verb
def what_if(
    source: Source | Build, values: Mapping[str, object], **options: Unpack[Options]
) -> WhatIf:
    """The network before and after keys of the machine changed.

    In: a source and the keys with their new values. Timing keys re-time what is built. A mapping
    key compiles the model again, which for a compiled program is `compiled_from` or lies beside
    it. For a Build the machine and how the model is read are known; only `optimization` is looked
    at then. Out: both profiles.

    >>> npuscope.what_if("model.tflite", {"clocks.npu_mhz": 800}).profile.total_ms
    """
    from npuscope.advice.what_if import what_if as run_what_if

    return run_what_if(source, values, options)


@verb
def sensitivity(source: Source | Build, **options: Unpack[Options]) -> tuple[Sensitivity, ...]:
    """Timing keys that save time when they are a tenth better, the largest saving first.

    In: a source. Out: keys with what they save.

    >>> npuscope.sensitivity("model.tflite")[0].key
    """
    from npuscope.advice.what_if import sensitivity as run_sensitivity
    from npuscope.building import Build

    return run_sensitivity(source if isinstance(source, Build) else build(source, options))


@verb
def compile(
    source: Source,
    directory: str | Path | None = None,
    *,
    name: str = "network",
    csv_file: str | Path | None = None,
    output_info_file: str | Path | None = None,
    max_ca_pipe: int | None = None,
    application: str = "",
    **options: Unpack[Options],
) -> Program:
    """The Program of a model; with `directory`, its files are written there.

    In: a model, and the names of what is written. Out: what the device executes.

    >>> npuscope.compile("model.tflite", "net", relocatable=True).executed
    """
    return compiled(
        source,
        directory,
        name=name,
        csv_file=csv_file,
        output_info_file=output_info_file,
        max_ca_pipe=max_ca_pipe,
        application=application,
        options=options,
    ).program


@dataclass(frozen=True, slots=True)
class Compiled:
    """A Program, the files of its folder, and notes on what could not be written."""

    program: Program
    files: tuple[str, ...]
    notes: tuple[str, ...]
    graph: Graph | None = None


def compiled(
    source: Source,
    directory: str | Path | None,
    *,
    name: str,
    csv_file: str | Path | None,
    output_info_file: str | Path | None,
    max_ca_pipe: int | None,
    options: Options,
    application: str = "",
) -> Compiled:
    from npuscope.building import refuse_stand_ins
    from npuscope.report.build_files import BuildNames

    if max_ca_pipe is not None:
        if not 1 <= max_ca_pipe <= 4:
            raise UsageError(f"expected 1 to 4 units, found {max_ca_pipe}", where="--Omax-ca-pipe")
        told = {"convacc.max_pipe": max_ca_pipe, **(options.get("overrides") or {})}
        options = {**options, "overrides": told}
    if directory is not None:
        refuse_stand_ins(options, "compile")
    made = build(source, options)
    if directory is None:
        return Compiled(made.program, (), (), made.graph)
    names = BuildNames(name, str(csv_file or ""), str(output_info_file or ""), application)
    with new_folder(directory) as folder:
        notes = write(made, folder.path, names)
    return Compiled(made.program, folder.files, (*notes, *folder.kept), made.graph)


def write(made: Build, folder: Path, names: BuildNames | None = None) -> tuple[str, ...]:
    """All files of a build: the program, and what the vendor's tools would have written.

    Returns notes on what could not be written.
    """
    from npuscope.profiling.run import estimate as run_estimate
    from npuscope.report.build_files import write_build

    if made.graph is None:
        raise UsageError("this is already a compiled program", hint="give a .tflite or .onnx model")
    profile = run_estimate(made.program, made.machine, made.graph)
    with as_file_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return write_build(folder, made.program, made.machine, made.graph, profile, names)


@verb
def demo(directory: str | Path = "npuscope-demo", **options: Unpack[Options]) -> Explanation:
    """The main job on a built-in network: compile, simulate, profile, explain.

    In: the folder for the reports. Out: the run with its findings.

    >>> npuscope.demo("demo").verdict
    """
    return demonstrated(directory, options)[0]


def demonstrated(directory: str | Path, options: Options) -> tuple[Explanation, tuple[str, ...]]:
    """The run with its findings, and notes on files that were kept."""
    from npuscope.advice.explain import explain
    from npuscope.demo_network import demo_graph
    from npuscope.profiling.run import profile as run_profile
    from npuscope.report.result_files import write_demo

    made = build(demo_graph(), options)
    found = explain(made, run_profile(made.program, made.machine, made.graph))
    with new_folder(directory) as folder:
        write_demo(folder.path, made.program, found)
    return found, folder.kept
