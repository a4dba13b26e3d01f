"""The verbs as functions: from a model file to the nouns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from npuscope.files.load import load_model
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.program.model import Program
from npuscope.whole_file import as_file_error

if TYPE_CHECKING:
    import numpy as np

    from npuscope.advice.compare.model import Comparison, Side
    from npuscope.advice.explain import Explanation
    from npuscope.advice.fix.step import Fixed
    from npuscope.advice.gate import Gate
    from npuscope.advice.sensitivity import Sensitivity
    from npuscope.advice.sweep.drive import Sweep, Watch
    from npuscope.advice.sweep.options import SweepOptions
    from npuscope.advice.what_if import WhatIf
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
    "compare",
    "compile",
    "estimate",
    "explain",
    "fix",
    "gate",
    "lint",
    "load_machine",
    "load_model",
    "machine_for",
    "measure",
    "package",
    "profile",
    "run",
    "sensitivity",
    "sweep",
    "validate",
    "what_if",
]


def estimate(source: Source, **options: Unpack[Options]) -> Profile:
    """Fit and speed of a model, from the timing model alone."""
    made = build(source, options)
    from npuscope.profile.run import estimate as run_estimate

    return run_estimate(made.program, made.machine, made.graph)


def what_if(
    source: Source | Build, values: Mapping[str, object], **options: Unpack[Options]
) -> WhatIf:
    """The network before and after keys of the machine changed.

    Timing keys re-time what is built. A mapping key compiles the model again, which for a
    compiled program is `compiled_from` or lies beside it. For a Build the machine and how the
    model is read are known; only `optimization` is looked at then.
    """
    from npuscope.advice.what_if import what_if as run_what_if

    return run_what_if(source, values, options)


def sensitivity(source: Source | Build, **options: Unpack[Options]) -> tuple[Sensitivity, ...]:
    """Timing keys that save time when they are a tenth better, the largest saving first."""
    from npuscope.advice.sensitivity import sensitivity as run_sensitivity

    return run_sensitivity(source if isinstance(source, Build) else build(source, options))


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
    with as_file_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return write_build(folder, made.program, made.machine, made.graph, profile, names)


def package(
    source: str | Path,
    directory: str | Path | None = None,
    options: PackageOptions | None = None,
) -> Package:
    """A compiled network's folder as a runtime-loadable image; with `directory`, as files there."""
    from npuscope.loadable.build import package as run_package
    from npuscope.loadable.options import PackageOptions
    from npuscope.whole_file import write_files

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
    made = build(source, {**options, "compiled_from": model or options.get("compiled_from")})
    from npuscope.profile.validate import validate as run_validation

    compiled = not isinstance(source, Graph) and is_program(source)
    original = model if compiled else source
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
    from npuscope.advice.reasons import with_model

    made = build(source, {**options, "compiled_from": model or options.get("compiled_from")})
    made = with_model(made, source, model, options)
    from npuscope.advice.explain import explain as run_explain
    from npuscope.profile.run import estimate as run_estimate
    from npuscope.profile.run import profile as run_profile

    if batch:
        found = run_profile(made.program, made.machine, made.graph, batch=batch)
    else:
        found = run_estimate(made.program, made.machine, made.graph)
    return run_explain(made, found, _file_findings(source, made.machine))


def fix(
    model: str | Path,
    *,
    only: Iterable[str] = (),
    cut: bool = False,
    drop_softmax: bool = False,
    integer_io: bool = False,
    everything: bool = False,
    seeds: int = 2,
    **options: Unpack[Options],
) -> Fixed:
    """Edit a model file where that helps; `data` of the result is the content of the fixed one.

    Without a wish, fixes that keep the network's function are tried. `only` names rules or
    fixes, which are then applied whatever they cost.
    """
    from npuscope.advice.fix.candidates import Choice
    from npuscope.advice.fix.candidates import only as checked
    from npuscope.advice.fix.run import fix as run_fix

    choice = Choice(checked(only), cut, drop_softmax, integer_io, everything)
    return run_fix(model, choice, options, seeds)


def sweep(
    spec: str | Path,
    store: str | Path | None = None,
    options: SweepOptions | None = None,
    watch: Watch | None = None,
) -> Sweep:
    """The runs of a sweep file that its store (a JSONL file) does not hold yet.

    `watch` hears of every run that is done. With a local cluster a script needs the usual
    `if __name__ == "__main__"`.
    """
    from npuscope.advice.sweep.drive import sweep as run_sweep

    return run_sweep(spec, store, options, watch or (lambda tally: None))


def compare(
    a: Source,
    b: Source | None = None,
    *,
    a_options: Options | None = None,
    b_options: Options | None = None,
    noise: float = 0.0,
    **options: Unpack[Options],
) -> Comparison:
    """What changed from A to B by source op; without `b`, the same source with other options.

    Both may be models, builds, saved profiles, results in JSON, or log:FILE. Rows of a measured
    run that differ by less than its spread, or than the share `noise`, are marked as noise.
    """
    from npuscope.advice.compare.run import compare as run_compare
    from npuscope.advice.compare.sides import open_sides

    first: Options = {**options, **(a_options or {})}
    second: Options = {**options, **(b_options or {})}
    return run_compare(*open_sides(a, a if b is None else b, first, second), noise)


def gate(
    source: Source,
    *,
    most: Mapping[str, float | str] | None = None,
    least: Mapping[str, float | str] | None = None,
    baseline: Source | None = None,
    tolerance: float | str = 0.0,
    with_findings: bool = False,
    **options: Unpack[Options],
) -> Gate:
    """Whether a run keeps its limits, e.g. most={"total_ms": 20, "internal_ram_bytes": "2MiB"}.

    Against a `baseline` (an earlier result, a saved profile, any source) time, memory and epochs
    off the NPU may get worse by the share `tolerance`.
    """
    from npuscope.advice.compare.sides import open_side
    from npuscope.advice.gate import gate as run_gate
    from npuscope.advice.gate_baseline import read_baseline
    from npuscope.advice.gate_figures import figures, needs_findings, parse_limits, parse_share

    share = parse_share(str(tolerance), "--tol")
    side = open_side(source, options)
    wanted = with_findings or needs_findings(most, least)
    findings = _findings_of(side, source, options) if wanted else None
    limits = parse_limits(most, least, figures(side.profile, findings))
    before = None if baseline is None else read_baseline(baseline, options)
    return run_gate(side, limits, before, share, findings)


def _findings_of(side: Side, source: Source, options: Options) -> tuple[Finding, ...]:
    if side.program is None or side.is_measured:
        raise UsageError(
            "findings are those of a model or a build, not of a run that was kept",
            where=side.name,
            hint="give the model or the build itself",
        )
    return explain(source, **options).findings


def lint(source: Source, **options: Unpack[Options]) -> tuple[Finding, ...]:
    """Risks that the model alone shows, the gravest first."""
    machine = machine_for(options)
    graph = read_graph(source, options)
    from npuscope.rules.finding import gravest_first
    from npuscope.rules.registry import lint_graph

    return gravest_first((*lint_graph(graph, machine), *_file_findings(source, machine)))


def _file_findings(source: Source, machine: Machine) -> tuple[Finding, ...]:
    """What only the file itself shows, before a reader has smoothed it."""
    if isinstance(source, Graph) or is_program(source):
        return ()
    from npuscope.rules.registry import lint_model_file

    return lint_model_file(source, machine)
