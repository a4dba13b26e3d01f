"""Verbs that judge: why it is slow, what is risky, what to edit, whether results are right; and
the live view, where one tries it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import UsageError
from npuscope.options.check import verb
from npuscope.whole_file import refuse_same, write_whole

if TYPE_CHECKING:
    import numpy as np

    from npuscope.advice.explain import Explanation
    from npuscope.advice.fix.run import Fixed
    from npuscope.building import Options, ReadOptions, Source
    from npuscope.families import Family
    from npuscope.machine.model import Machine
    from npuscope.profiling.bisection import Bisection
    from npuscope.profiling.validate import Validation
    from npuscope.quantizing.run import Quantized
    from npuscope.report.core_explain import CoreExplanation
    from npuscope.rulebook.finding import Finding, Findings

__all__ = ["bisect", "explain", "fix", "lint", "quantize", "serve", "validate"]


@verb
def explain(
    source: Source,
    *,
    batch: int = 0,
    model: str | Path | None = None,
    sarif: str | Path | None = None,
    junit: str | Path | None = None,
    **options: Unpack[Options],
) -> Explanation:
    """Why a network is slow or off the NPU, and what to change.

    In: a source. Without a `batch` it is estimated, with one it is run that many times. The
    reasons of a compiled program come from its `model`, which is looked for beside it. For a
    machine with many cores, or stats buffers and results of `opstats`, the same of that run.
    Out: the verdict, the changes that pay most, and every finding.

    >>> npuscope.explain("model.tflite").changes
    """
    of_cores = _of_cores(source, options)
    if of_cores is not None:
        from npuscope.report.result_files import write_findings

        write_findings("explain", source, of_cores.findings, "", sarif=sarif, junit=junit)
        return of_cores  # type: ignore[return-value]
    from npuscope.report.result_files import write_findings

    told = explained(source, options, batch=batch, model=model, timed=not batch)
    generation = told.profile.machine.generation
    write_findings("explain", source, told.findings, generation, sarif=sarif, junit=junit)
    return told


def explained(
    source: Source,
    options: Options,
    *,
    batch: int = 0,
    model: str | Path | None = None,
    timed: bool = False,
) -> Explanation:
    """The explanation alone; changes are compiled only where they shall be `timed`."""
    from npuscope.advice.compare.sides import with_model
    from npuscope.advice.explain import explain as run_explain
    from npuscope.advice.fix.trials import trials_of
    from npuscope.building import build, without_collector
    from npuscope.profiling.run import estimate as run_estimate
    from npuscope.profiling.run import profile as run_profile

    made = build(source, {**options, "compiled_from": model or options.get("compiled_from")})
    made = with_model(made, source, model, options)
    with without_collector():
        if batch:
            found = run_profile(made.program, made.machine, made.graph, batch=batch)
        else:
            found = run_estimate(made.program, made.machine, made.graph)
        trials = trials_of(source, options, made, found) if timed else None
        return run_explain(made, found, _file_findings(source, made.machine), trials=trials)


def _of_cores(source: Source, options: Options) -> CoreExplanation | None:
    """Of a model for a machine with many cores, or of a run of one."""
    from npuscope.families import family_of
    from npuscope.machine.load import known_machines
    from npuscope.many_core.buffer_format import is_core_run

    family = family_of(options.get("machine"), known_machines())
    if family is None and not is_core_run(source):
        return None
    from npuscope.report.core_explain import explain_model, explain_run

    if family is None:
        return explain_run(str(source))
    _check_family(family, "explain")
    return explain_model(family.time(family.compile(str(source), dict(options))))


def _check_family(family: Family, verb: str) -> None:
    """Rules know the families that npuscope itself has."""
    from npuscope.many_core.family import FAMILY

    if family.name != FAMILY.name:
        raise UsageError(f"{verb} is not made for {family.name} machines", where="machine")


@verb
def lint(
    source: Source,
    *,
    sarif: str | Path | None = None,
    junit: str | Path | None = None,
    **options: Unpack[ReadOptions],
) -> Findings:
    """Risks that the model alone shows, the gravest first.

    In: a model; nothing is compiled. Out: findings, also as files for other programs.

    >>> npuscope.lint("model.onnx").to_dataframe()
    """
    from npuscope.families import family_of
    from npuscope.machine.load import known_machines

    family = family_of(options.get("machine"), known_machines())
    if family is not None:
        return _lint_cores(source, family, options, sarif, junit)
    from npuscope.building import machine_for, read_graph

    machine = machine_for(options)
    graph = read_graph(source, options)
    from npuscope.report.result_files import write_findings
    from npuscope.rulebook.finding import Findings, gravest_first
    from npuscope.rulebook.registry import lint_graph

    found = gravest_first((*lint_graph(graph, machine), *_file_findings(source, machine)))
    generation = options.get("generation") or machine.generation.name
    write_findings("lint", source, found, generation, sarif=sarif, junit=junit)
    return Findings(found)


def _lint_cores(
    source: Source,
    family: Family,
    options: ReadOptions,
    sarif: str | Path | None,
    junit: str | Path | None,
) -> Findings:
    from npuscope.building import read_graph
    from npuscope.many_core.machine import load_core_machine
    from npuscope.many_core.rules import core_lints
    from npuscope.report.result_files import write_findings
    from npuscope.rulebook.finding import Findings

    _check_family(family, "lint")
    plain: ReadOptions = {**options}
    plain.pop("machine", None)
    machine = load_core_machine(str(options.get("machine")))
    found = core_lints(read_graph(source, plain), machine)
    write_findings("lint", source, found, "", sarif=sarif, junit=junit)
    return Findings(found)


def _file_findings(source: Source, machine: Machine) -> tuple[Finding, ...]:
    """What only the file itself shows, before the reader normalises it."""
    from npuscope.building import is_program
    from npuscope.graph.model import Graph

    if isinstance(source, Graph) or is_program(source):
        return ()
    from npuscope.rulebook.registry import lint_model_file

    return lint_model_file(source, machine)


@verb
def fix(
    model: str | Path,
    output: str | Path | None = None,
    *,
    only: Iterable[str] = (),
    cut: bool = False,
    drop_softmax: bool = False,
    integer_io: bool = False,
    everything: bool = False,
    lossy: bool = False,
    seeds: int = 2,
    data: str | Path | None = None,
    mean: str | Sequence[float] | None = None,
    std: str | Sequence[float] | None = None,
    pixel_max: float = 1.0,
    layout: str | None = None,
    html: str | Path | None = None,
    **options: Unpack[Options],
) -> Fixed:
    """Edit a model file where that helps; `data` of the result is the content of the fixed one.

    In: a model. Without a wish, fixes that keep the network's function are tried; `lossy` allows
    those that do not. `only` names rules or fixes, which are then applied whatever they cost.
    Results are compared on `data`, or on random numbers of `seeds` seeds. Out: every step with
    what it gave; with `output`, the fixed model as a file.

    >>> npuscope.fix("model.tflite", "fixed.tflite", cut=True).steps
    """
    from npuscope.advice.fix.candidates import Choice
    from npuscope.advice.fix.candidates import only as checked
    from npuscope.advice.fix.run import fix as run_fix
    from npuscope.building import refuse_stand_ins
    from npuscope.files.load import load_model
    from npuscope.quantizing.network_inputs import network_inputs
    from npuscope.quantizing.samples import image_form

    refuse_stand_ins(options, "fix")
    if seeds < 1:
        raise UsageError(f"expected 1 or more, found {seeds}", where="--seeds")
    if output is not None:
        _check_output(Path(model), Path(output))
    choice = Choice(checked(only), cut, drop_softmax, integer_io, everything, lossy)
    form = image_form(mean, std, pixel_max, layout)
    inputs = network_inputs(load_model(model, options.get("shapes")), data, form, seeds)
    fixed = run_fix(model, choice, options, inputs)
    if output is not None:
        write_whole(output, fixed.data)
    if html:
        from npuscope.report.html.changes import fix_page
        from npuscope.report.result_files import write_html

        write_html(html, lambda: fix_page(fixed, None if output is None else str(output)))
    return fixed


def _check_output(source: Path, target: Path, made: str = "fixed") -> None:
    refuse_same(source, target)
    if source.suffix.lower() != target.suffix.lower():
        raise UsageError(
            f"the model is a {source.suffix} file, so the {made} one is",
            where=f"-o {target}",
            hint=f"name it {target.with_suffix(source.suffix)}",
        )


@verb
def quantize(
    model: str | Path,
    output: str | Path | None = None,
    *,
    data: str | Path,
    calibration: str = "auto",
    samples: int = 128,
    seed: int = 0,
    loss_db: float = 1.0,
    mean: str | Sequence[float] | None = None,
    std: str | Sequence[float] | None = None,
    pixel_max: float = 1.0,
    layout: str | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Unpack[Options],
) -> Quantized:
    """A float model to int8: calibrated, tried in the forms that the machine likes, measured.

    In: a float model and data for calibration. Types at the border are int8 unless the options
    ask for others. Out: times, signal to noise of outputs and layers, and what was chosen; `data`
    of the result is the content of the quantized file, which `output` names.

    >>> npuscope.quantize("model.onnx", "int8.onnx", data="images").sqnr_db
    """
    from npuscope.building import refuse_stand_ins
    from npuscope.quantizing.run import Wish
    from npuscope.quantizing.run import quantize as run_quantize
    from npuscope.quantizing.samples import image_form

    refuse_stand_ins(options, "quantize")
    if output is not None:
        _check_output(Path(model), Path(output), "quantized")
    form = image_form(mean, std, pixel_max, layout)
    wish = Wish(data, calibration, samples, seed, loss_db, form)
    made = run_quantize(Path(model), wish, options, progress or (lambda text: None))
    if output is not None:
        write_whole(output, made.data)
    return made


@verb
def validate(
    source: Source,
    *,
    inputs: Sequence[np.ndarray] | None = None,
    seeds: int = 1,
    model: str | Path | None = None,
    **options: Unpack[Options],
) -> Validation:
    """NPU arithmetic against the reference, on `inputs` or on random data of `seeds` seeds.

    In: a model, or a compiled program with the `model` it was made from. Out: how near outputs
    and layers are, and the `verdict` on it: passed, differs (as rounding does), wrong, or unjudged.

    >>> npuscope.validate("model.tflite", seeds=3).passed
    """
    from npuscope.building import (
        build,
        is_program,
        read_graph,
        reference_of,
        refuse_other_model,
        refuse_stand_ins,
    )
    from npuscope.graph.model import Graph

    refuse_stand_ins(options, "validate")
    made = build(source, {**options, "compiled_from": model or options.get("compiled_from")})
    from npuscope.profiling.validate import validate as run_validation

    compiled = not isinstance(source, Graph) and is_program(source)
    original = model if compiled else source
    if original is None and compiled:
        original = reference_of(Path(str(source)), made.program)
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
    if compiled and not isinstance(original, Graph):
        refuse_other_model(Path(str(source)), made.program, Path(original))
    return run_validation(made.program, graph, made.machine, inputs=inputs, seeds=seeds, model=file)


@verb
def bisect(
    source: Source,
    *,
    inputs: Sequence[np.ndarray] | None = None,
    seeds: int = 1,
    model: str | Path | None = None,
    **options: Unpack[Options],
) -> Bisection:
    """The first op whose NPU arithmetic differs from the reference.

    In: as `validate`. Out: op, epoch, how far it is off and which rule that breaks. Every layer
    is given the reference's inputs, so that an earlier one cannot be the cause.

    >>> npuscope.bisect("model.tflite").op
    """
    from npuscope.profiling.bisection import bisect as run_bisect

    return run_bisect(validate(source, inputs=inputs, seeds=seeds, model=model, **options))


@verb
def serve(
    *models: str | Path,
    port: int = 0,
    pools: Iterable[str | Path] = (),
    ready: Callable[[str], None] | None = None,
    **options: Unpack[Options],
) -> None:
    """The report as an application in the browser: change the machine, toggle fixes, compare.

    In: models, and `pools` (.mpool files) to choose from; other options are where it starts.
    `ready` is called with the address, which only this computer can reach. Out: nothing; Ctrl-C
    ends it.

    >>> npuscope.serve("model.tflite", ready=print)
    """
    from npuscope.live.library import Library, check_models
    from npuscope.live.server import LiveServer
    from npuscope.live.setting import first_setting

    if not 0 <= port < 0x10000:
        raise UsageError(f"expected a port from 0 to 65535, found {port}", where="--port")
    paths = [Path(model) for model in models]
    check_models(paths)
    own = options.get("mpool")
    files = [Path(file) for file in ([own] if own else [])] + [Path(file) for file in pools]
    library = Library(paths, files, options)
    first = first_setting(options, 1 if own else 0)
    library.shown(first)  # a mistake in what was given is told here, not in the browser
    server = LiveServer(library, first, port)
    try:
        if ready is not None:
            ready(server.address)
        server.serve_forever()
    except KeyboardInterrupt:  # a signal is the usual way to end it
        pass
    finally:
        server.server_close()
