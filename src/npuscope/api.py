"""The verbs as functions: from a model file to the nouns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.building import (
    Build,
    Options,
    Source,
    build,
    is_program,
    machine_for,
    read_graph,
)
from npuscope.errors import UsageError
from npuscope.graph.load import load_model
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.program.model import Program

if TYPE_CHECKING:
    import numpy as np

    from npuscope.advice.explain import Explanation
    from npuscope.board.emulated.boot import Placed
    from npuscope.loadable.build import Package
    from npuscope.loadable.options import PackageOptions
    from npuscope.profile.load_and_run import LoadAndRun
    from npuscope.profile.measure import Measurement, Subject
    from npuscope.profile.model import Profile
    from npuscope.profile.validate import Validation
    from npuscope.report.build_files import BuildNames
    from npuscope.rules.finding import Finding

__all__ = [
    "Build",
    "Options",
    "Source",
    "build",
    "compile",
    "estimate",
    "explain",
    "lint",
    "load_machine",
    "load_model",
    "machine_for",
    "measure",
    "package",
    "profile",
    "run",
    "validate",
]


def estimate(source: Source, **options: Unpack[Options]) -> Profile:
    """Fit and speed of a model, from the timing model alone."""
    made = build(source, options)
    from npuscope.profile.run import estimate as run_estimate

    return run_estimate(made.program, made.machine, made.graph)


def profile(source: Source, *, batch: int = 1, **options: Unpack[Options]) -> Profile:
    """Run a model on the simulated device and count what happens, epoch by epoch."""
    made = build(source, options)
    from npuscope.profile.run import profile as run_profile

    return run_profile(made.program, made.machine, made.graph, batch=batch)


def measure(
    source: Source | None = None,
    *,
    connect: str = "simulated",
    network: str = "",
    batch: int | None = None,
    vendor_plan: bool = False,
    **options: Unpack[Options],
) -> Measurement:
    """Profile a device block by block, as the firmware of a board counts.

    `connect` names the device: simulated, emulated, serial[:PORT][:BAUD], socket:HOST:PORT or
    log:FILE. The `source` of what runs on it adds what its compiler knows.
    """
    from npuscope.board.descriptor import DescriptorKind, parse_descriptor
    from npuscope.profile.measure import measure as run_measure
    from npuscope.profile.measure import opened

    descriptor = parse_descriptor(connect)
    if descriptor.kind is DescriptorKind.EMULATED:
        options = {**options, "relocatable": True}  # it loads images
    subject = _subject(source, options)
    with opened(descriptor, subject) as device:
        return run_measure(device, subject, network=network, batch=batch, vendor_plan=vendor_plan)


def _subject(source: Source | None, options: Options) -> Subject:
    from npuscope.profile.measure import Subject

    if source is None:
        return Subject()
    made = build(source, options)
    return Subject(made.program, made.machine, made.graph)


def compile(
    source: Source, directory: str | Path | None = None, **options: Unpack[Options]
) -> Program:
    """The Program of a model; with `directory`, its files are written there."""
    made = build(source, options)
    if directory is not None:
        write(made, Path(directory))
    return made.program


def write(made: Build, folder: Path, names: BuildNames | None = None) -> tuple[str, ...]:
    """All files of a build: the program, and what the vendor's tools would have written.

    Gives notes on what could not be written.
    """
    from npuscope.profile.run import estimate as run_estimate
    from npuscope.report.build_files import write_build

    if made.graph is None:
        raise UsageError("this is a compiled program already", hint="give a .tflite or .onnx model")
    profile = run_estimate(made.program, made.machine, made.graph)
    folder.mkdir(parents=True, exist_ok=True)
    return write_build(folder, made.program, made.machine, made.graph, profile, names)


def package(
    source: str | Path,
    directory: str | Path | None = None,
    options: PackageOptions | None = None,
) -> Package:
    """A compiled network's folder as a runtime-loadable image; with `directory`, as files there."""
    from npuscope.loadable.build import package as run_package
    from npuscope.loadable.build_files import write_files
    from npuscope.loadable.options import PackageOptions

    made = run_package(Path(source), options or PackageOptions())
    if directory is not None:
        write_files(Path(directory), made.files)
    return made


def run(
    placed: Placed,
    *,
    generation: str = "",
    batch: int = 1,
    inputs: Sequence[np.ndarray] | None = None,
    mcu_mhz: float | None = None,
    npu_mhz: float | None = None,
) -> LoadAndRun:
    """Load an image on the emulated board and run it."""
    from npuscope.profile.load_and_run import load_and_run

    told = {"clocks.mcu_mhz": mcu_mhz, "clocks.npu_mhz": npu_mhz}
    overrides = {name: value for name, value in told.items() if value is not None}
    clocks = load_machine(overrides=overrides).clocks
    return load_and_run(placed, clocks, generation=generation, batch=batch, inputs=inputs)


def validate(
    source: Source,
    *,
    inputs: Sequence[np.ndarray] | None = None,
    seeds: int = 1,
    model: str | Path | None = None,
    **options: Unpack[Options],
) -> Validation:
    """NPU arithmetic against the reference, on `inputs` or on random data of `seeds` seeds.

    A compiled program is compared with the `model` it was made from.
    """
    made = build(source, options)
    from npuscope.profile.validate import validate as run_validation

    original = model if made.graph is None else source
    if original is None:
        raise UsageError(
            "a compiled program is validated against its model",
            where="--model",
            hint="give the .tflite or .onnx file it was compiled from",
        )
    graph = made.graph or read_graph(original, options)
    converted = options.get("input_data_type") or options.get("output_data_type")
    # An outside runtime knows the model file as it is, without conversions at its border.
    file = None if converted or isinstance(original, Graph) else Path(original)
    return run_validation(made.program, graph, made.machine, inputs=inputs, seeds=seeds, model=file)


def explain(
    source: Source,
    *,
    batch: int = 0,
    model: str | Path | None = None,
    **options: Unpack[Options],
) -> Explanation:
    """Why a network is slow or off the NPU, and what to change.

    Without a `batch` it is estimated, with one it is run that many times. The reasons of a
    compiled program come from its `model`, which is looked for beside it.
    """
    from npuscope.advice.model_beside import with_model

    made = with_model(build(source, options), source, model, options)
    from npuscope.advice.explain import explain as run_explain
    from npuscope.profile.run import estimate as run_estimate
    from npuscope.profile.run import profile as run_profile

    if batch:
        found = run_profile(made.program, made.machine, made.graph, batch=batch)
    else:
        found = run_estimate(made.program, made.machine, made.graph)
    return run_explain(made, found, _file_findings(source, made.machine))


def lint(source: Source, **options: Unpack[Options]) -> tuple[Finding, ...]:
    """Risks that the model alone shows, the gravest first."""
    machine = machine_for(options)
    graph = read_graph(source, options)
    from npuscope.rules.finding import gravest_first
    from npuscope.rules.lint import lint_graph

    return gravest_first((*lint_graph(graph, machine), *_file_findings(source, machine)))


def _file_findings(source: Source, machine: Machine) -> tuple[Finding, ...]:
    """What only the file itself shows, before a reader has smoothed it."""
    if isinstance(source, Graph) or is_program(source):
        return ()
    from npuscope.rules.lint_file import lint_model_file

    return lint_model_file(source, machine)
