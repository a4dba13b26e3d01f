"""The verbs as functions: from a model file to the nouns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from npuscope.errors import UsageError
from npuscope.graph.load import load_model
from npuscope.graph.model import Graph
from npuscope.machine.load import DEFAULT_GENERATION, DEFAULT_MACHINE, load_machine
from npuscope.machine.model import Machine
from npuscope.program.model import Program

if TYPE_CHECKING:
    import numpy as np

    from npuscope.advice.explain import Explanation
    from npuscope.board.emulated.boot import Placed
    from npuscope.loadable.build import Package
    from npuscope.loadable.options import PackageOptions
    from npuscope.machine.art_profile import ArtProfile
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

Source = str | Path | Graph


class Options(TypedDict, total=False):
    """What every verb takes: the machine it is for, and how the model is read."""

    machine: str | Machine
    machine_file: str | Path | None
    generation: str | None
    epoch_controller: bool | None
    optimization: int | None
    art_profile: str | None
    ec_single_epoch: bool
    relocatable: bool
    overrides: Mapping[str, object]
    mpool: str | Path | None
    shapes: Mapping[str, Sequence[int]]
    input_data_type: str | None
    output_data_type: str | None


@dataclass(frozen=True, slots=True)
class Build:
    """A network with the machine it was compiled for; a foreign program may come without it."""

    graph: Graph | None
    machine: Machine
    program: Program


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
    graph = made.graph or _read(original, options)
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
    made = _with_model(build(source, options), source, model, options)
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
    graph = _read(source, options)
    from npuscope.rules.finding import gravest_first
    from npuscope.rules.lint import lint_graph

    return gravest_first((*lint_graph(graph, machine), *_file_findings(source, machine)))


def _file_findings(source: Source, machine: Machine) -> tuple[Finding, ...]:
    """What only the file itself shows, before a reader has smoothed it."""
    if isinstance(source, Graph) or _is_program(source):
        return ()
    from npuscope.rules.lint_file import lint_model_file

    return lint_model_file(source, machine)


def _read(source: Source, options: Options) -> Graph:
    """The graph with the data types at its border that the options ask for."""
    graph = source if isinstance(source, Graph) else load_model(source, options.get("shapes"))
    from npuscope.compiler.passes.io_types import with_io_types

    return with_io_types(graph, options.get("input_data_type"), options.get("output_data_type"))


def _is_program(source: Source) -> bool:
    """A compiled program, ours or a vendor's; a missing file is looked at as a model."""
    if isinstance(source, Graph) or Path(source).suffix.lower() in (".tflite", ".onnx"):
        return False
    return Path(source).is_dir() or Path(source).suffix.lower() in (".c", ".json")


def _compiled(path: str | Path, options: Options) -> Build:
    """A program as it was compiled, on the machine of its generation."""
    from npuscope.program.claims import with_claims
    from npuscope.program.sources import read_program

    program = read_program(path)
    known: Options = {**options, "generation": options.get("generation") or program.generation}
    if options.get("epoch_controller") is None:
        known["epoch_controller"] = program.epoch_controller
    machine = machine_for(known)
    if not any(epoch.claims.max_cycles for epoch in program.epochs):
        program = with_claims(program, machine)
    return Build(None, machine, program)


def _with_model(made: Build, source: Source, model: str | Path | None, options: Options) -> Build:
    """A compiled program with the network it came from, if that is given or found."""
    if made.graph is not None or isinstance(source, Graph):
        return made
    found = model or _model_beside(Path(source), made.program)
    if found is None:
        return made
    from npuscope.advice.reasons import with_reasons

    graph = _read(found, options)
    return replace(made, graph=graph, program=with_reasons(made.program, graph, made.machine))


def _model_beside(path: Path, program: Program) -> Path | None:
    """The model file whose fingerprint the program names, in its folder or the one above."""
    folder = path if path.is_dir() else path.parent
    if not program.model_md5:
        return None
    files = (f for place in (folder, folder.resolve().parent) for f in sorted(place.iterdir()))
    models = (f for f in files if f.suffix.lower() in (".tflite", ".onnx") and f.is_file())
    return next((f for f in models if _md5(f) == program.model_md5), None)


def build(source: Source, options: Options) -> Build:
    """Read, compile, and note in the Program which file it came from."""
    if not isinstance(source, Graph) and _is_program(source):
        return _compiled(source, options)
    # What the user may have mistyped is looked at before the heavy parts are loaded.
    machine = machine_for(options)
    graph = _read(source, options)
    from npuscope.compiler.pipeline import CompileOptions, compile_graph

    asked = CompileOptions(_optimization(options), options.get("ec_single_epoch", False))
    program = compile_graph(graph, machine, asked)
    if isinstance(source, Graph):
        return Build(graph, machine, replace(program, model_file=source.name))
    path = Path(source)
    program = replace(program, model_file=path.name, model_md5=_md5(path))
    return Build(graph, machine, program)


def machine_for(options: Options) -> Machine:
    """The machine that the options name, with the pools that they ask for."""
    machine = _with_vendor_files(options)
    if not options.get("relocatable", False):
        return machine
    from npuscope.machine.relocatable import with_relative_pools

    return with_relative_pools(machine)


def _with_vendor_files(options: Options) -> Machine:
    profile = _art_profile(options)
    named = options.get("machine", DEFAULT_MACHINE)
    machine = named if isinstance(named, Machine) else _load(named, options, profile)
    if profile is not None:
        from npuscope.machine.art_profile import apply_art_profile

        machine = apply_art_profile(machine, profile)
    mpool = options.get("mpool")
    if mpool is None:
        return machine
    from npuscope.machine.mpool import apply_mpool

    return apply_mpool(machine, mpool)


def _load(name: str, options: Options, profile: ArtProfile | None) -> Machine:
    controller = options.get("epoch_controller")
    if controller is None:
        controller = profile.options.epoch_controller if profile else True
    return load_machine(
        name,
        generation=options.get("generation") or DEFAULT_GENERATION,
        epoch_controller=controller,
        overrides=options.get("overrides"),
        machine_file=options.get("machine_file"),
    )


def _art_profile(options: Options) -> ArtProfile | None:
    named = options.get("art_profile")
    if named is None:
        return None
    from npuscope.machine.art_profile import read_art_profile

    return read_art_profile(named)


def _optimization(options: Options) -> int | None:
    """The level asked for, else the profile's, else the generation's own."""
    level = options.get("optimization")
    profile = _art_profile(options) if level is None else None
    return profile.options.optimization if profile else level


def _md5(path: Path) -> str:
    """The fingerprint that vendor files carry too; nothing depends on it for safety."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
