"""`npuscope explain SOURCE`: why it is slow or off the NPU, and what to change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.options.kinds import Group, Kind, Verb, flag, option
from npuscope.options.rows import COMPILED_FROM, FINDINGS, OUTPUT, READING, SOURCE, TARGET
from npuscope.verbs.check import checked
from npuscope.verbs.families import is_other_run, other_family, timed

if TYPE_CHECKING:
    from npuscope.advice.explain import Explanation
    from npuscope.building import Options, Source
    from npuscope.machine.model import Machine
    from npuscope.report.core_explain import CoreExplanation
    from npuscope.rulebook.finding import Finding

VERB = Verb(
    "why it is slow or off the NPU, and what to change",
    (SOURCE,),
    (
        Group(
            "",
            (
                flag("strict", "exit code 1 when there are errors or warnings", python=False),
                COMPILED_FROM,
                option("batch", Kind.WHOLE, "inferences to run", default=0, shell=False),
            ),
        ),
        TARGET,
        READING,
        FINDINGS,
        OUTPUT,
    ),
    text="npuscope.report.findings:explain_text",
    json="npuscope.report.findings:explain_json",
    busy="explaining",
    code="strict_code",
    reads=("source", "model"),
    all_families=True,
)


@checked(VERB)
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
    from npuscope.report.result_files import write_findings

    other = _of_other_family(source, options)
    if other is not None:
        write_findings("explain", source, other.findings, "", sarif=sarif, junit=junit)
        return other  # type: ignore[return-value]
    found = explanation(source, options, batch=batch, model=model, with_trials=not batch)
    generation = found.profile.machine.generation
    write_findings("explain", source, found.findings, generation, sarif=sarif, junit=junit)
    return found


def strict_code(found: Explanation | CoreExplanation, strict: bool) -> int:
    return 1 if strict and found.has_problems else 0


def explanation(
    source: Source,
    options: Options,
    *,
    batch: int = 0,
    model: str | Path | None = None,
    with_trials: bool = False,
) -> Explanation:
    """The explanation alone; changes are compiled and timed only `with_trials`."""
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
        trials = trials_of(source, options, made, found) if with_trials else None
        return run_explain(made, found, file_findings(source, made.machine), trials=trials)


def file_findings(source: Source, machine: Machine) -> tuple[Finding, ...]:
    """What only the file itself shows, before the reader normalises it."""
    from npuscope.building import is_program
    from npuscope.graph.model import Graph

    if isinstance(source, Graph) or is_program(source):
        return ()
    from npuscope.rulebook.registry import lint_model_file

    return lint_model_file(source, machine)


def _of_other_family(source: Source, options: Options) -> CoreExplanation | None:
    """Of a model for a machine with many cores, or of a run of one."""
    family = other_family(options)
    if family is None and not is_other_run(source):
        return None
    from npuscope.report.core_explain import explain_model, explain_run

    if family is None:
        return explain_run(str(source))
    return explain_model(timed(family, source, options, "explain"))
