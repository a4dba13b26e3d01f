"""`npuscope estimate SOURCE`: fit and speed in one screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.collector import without_collector
from npuscope.errors import UsageError
from npuscope.families.registry import family_for
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, flag
from npuscope.options.rows import HTML, OUTPUT, READING, SOURCE, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.advice.compare.machines import ModelTable
    from npuscope.application.plan import Plan
    from npuscope.building import Options, Source
    from npuscope.families.interface import Report
    from npuscope.profiling.model import Profile
    from npuscope.report.estimate import Screen
    from npuscope.rulebook.finding import Finding

VERB = Verb(
    "whether a model fits and how fast it is: one screen, no files",
    (SOURCE, Argument("others", "SOURCE", "more of them: one line for each", "*", python=False)),
    (
        OptionGroup(
            "",
            (
                HTML,
                file(
                    "model",
                    "the model of a compiled program, for --set with mapping keys",
                    "M",
                    of_family=True,
                ),
                flag(
                    "sensitivity",
                    "show which timing keys save most time if improved by 10 %",
                    python=False,  # npuscope.sensitivity(...)
                    of_family=True,
                ),
                flag(
                    "together",
                    "the networks in one application: their plan with defaults",
                    python=False,  # npuscope.plan(...)
                ),
            ),
        ),
        TARGET,
        READING,
        OUTPUT,
    ),
    run="screen",
    text="npuscope.report.estimate:screen_text",
    json="npuscope.report.estimate:screen_json",
    busy="estimating",
    code="table_code",
    reads=("source", "others", "model"),
    all_families=True,
    one_thread=True,
)


@checked(VERB)
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

    For a machine of another family (`machine="cloudai100"`) the Profile holds what that family
    knows: times, figures, and its own tables as `payload`.

    >>> npuscope.estimate("model.tflite", generation="2.2", npu_mhz=800).total_ms
    """
    return _timed(source, model, html, False, options)[0]


def screen(
    source: str,
    *,
    others: Sequence[str] = (),
    model: str | None = None,
    html: str | None = None,
    sensitivity: bool = False,
    together: bool = False,
    json: str | None = None,
    **options: Unpack[Options],
) -> Screen | Report | ModelTable | Plan:
    """The estimate as the command line shows it, with what changed values would give."""
    if together:
        plan: Plan = family_for(source, options).together((source, *others), options)
        return plan
    if others:
        from npuscope.advice.compare.machines import of_models

        for name, value in (("html", html), ("model", model), ("sensitivity", sensitivity)):
            if value:
                raise UsageError("takes one SOURCE", where=f"--{name}")
        return of_models((source, *others), options)
    profile, findings = _timed(source, model, html, json is not None, options, generations=True)
    family = family_for(source, options)
    own = family.screen(profile)
    if own is not None:
        return own
    from npuscope.report.estimate import Screen
    from npuscope.verbs.sensitivity import sensitivity as sensitivity_of
    from npuscope.verbs.what_if import what_if

    values = options.get("overrides")
    request: Options = {**options, "compiled_from": model}
    # Compared with the machine as the other options describe it.
    plain: Options = {**request, "overrides": {}}
    changed = what_if(source, values, **plain) if values and family.house_machines else None
    keys = sensitivity_of(source, **request) if sensitivity else None
    return Screen(profile, changed, keys, findings)


@without_collector()
def _timed(
    source: Source,
    model: str | Path | None,
    html: str | Path | None,
    with_findings: bool,
    options: Options,
    generations: bool = False,
) -> tuple[Profile, tuple[Finding, ...]]:
    """Findings take time of their own: they are looked for where somebody will see them."""
    family = family_for(source, options)
    if model is not None and not family.house_machines:
        raise family.lacks("estimate --model")
    request = {**options, "compiled_from": model or options.get("compiled_from")}
    if not with_findings and not html:
        return family.estimate(source, {**request, "generations": generations}), ()
    from npuscope.report.result_files import write_explained

    explanation = family.explain(source, {**request, "model": model, "trials": bool(html)})
    write_explained(html, explanation)
    return explanation.profile, explanation.findings


def table_code(result: Screen | Report | ModelTable | Plan) -> int:
    """3: a file of several could not be estimated; its line says why. 1: together they do not
    fit."""
    if getattr(result, "has_failed", False):
        return 3
    return 0 if getattr(result, "fits", True) else 1
