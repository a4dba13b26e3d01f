"""`npuscope estimate SOURCE`: fit and speed in one screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import UsageError
from npuscope.options.kinds import Group, Verb, file, flag
from npuscope.options.rows import HTML, OUTPUT, READING, SOURCE, TARGET
from npuscope.verbs.check import checked
from npuscope.verbs.families import other_family, timed

if TYPE_CHECKING:
    from npuscope.building import Options, Source
    from npuscope.families import Report
    from npuscope.profiling.model import Profile
    from npuscope.report.estimate import Screen

VERB = Verb(
    "whether a model fits and how fast it is: one screen, no files",
    (SOURCE,),
    (
        Group(
            "",
            (
                HTML,
                file("model", "the model of a compiled program, for --set with mapping keys", "M"),
                flag(
                    "sensitivity",
                    "show which timing keys save most time if improved by 10 %",
                    python=False,  # npuscope.sensitivity(...)
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
    reads=("source", "model"),
    all_families=True,
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

    For a machine of another family (`machine="cloudai100"`) it is what that family timed, with
    `total_ms` and `inferences_per_s` too.

    >>> npuscope.estimate("model.tflite", generation="2.2", npu_mhz=800).total_ms
    """
    family = other_family(options)
    if family is not None:
        _refuse_options(options, model=model, html=html)
        return timed(family, source, options)  # type: ignore[no-any-return]
    if html:
        from npuscope.report.result_files import write_explained
        from npuscope.verbs.explain import explanation

        found = explanation(source, options, model=model, with_trials=True)
        write_explained(html, found)
        return found.profile
    from npuscope.building import build, without_collector

    with without_collector():
        made = build(source, {**options, "compiled_from": model or options.get("compiled_from")})
        from npuscope.profiling.run import estimate as run_estimate

        return run_estimate(made.program, made.machine, made.graph)


def screen(
    source: str,
    *,
    model: str | None = None,
    html: str | None = None,
    sensitivity: bool = False,
    json: str | None = None,
    **options: Unpack[Options],
) -> Screen | Report:
    """The estimate as the command line shows it."""
    family = other_family(options)
    if family is not None:
        _refuse_options(options, model=model, html=html, sensitivity=sensitivity)
        return family.report(timed(family, source, options))
    from npuscope.report.estimate import Screen
    from npuscope.verbs.sensitivity import sensitivity as sensitivity_of
    from npuscope.verbs.what_if import what_if

    options = {**options, "compiled_from": model}
    values = options.get("overrides")
    # Compared with the machine as the other options describe it.
    plain: Options = {**options, "overrides": {}}
    changed = what_if(source, values, **plain) if values else None
    keys = sensitivity_of(source, **options) if sensitivity else None
    if json is None and not html:
        return Screen(changed.profile if changed else estimate(source, **options), changed, keys)
    from npuscope.report.result_files import write_explained
    from npuscope.verbs.explain import explanation

    found = explanation(source, options, with_trials=bool(html))
    write_explained(html, found)
    return Screen(found.profile, changed, keys, found.findings)


def _refuse_options(options: Options, **others: object) -> None:
    """What only the first family has."""
    for name, value in others.items():
        if value:
            machine = options.get("machine")
            raise UsageError(f"this option is not made for {machine}", where=f"--{name}")
