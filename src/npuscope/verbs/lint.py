"""`npuscope lint MODEL`: risks visible in the model file alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import UsageError
from npuscope.families.registry import family_for
from npuscope.options.kinds import Argument, OptionGroup, Verb, text
from npuscope.options.rows import FINDINGS, LOOKED_AT, OF_MODELS, OUTPUT
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import ReadOptions, Source
    from npuscope.rulebook.finding import Findings

VERB = Verb(
    "risks visible in the model file alone",
    (Argument("source", "MODEL", "a model: .tflite or .onnx"),),
    (
        OptionGroup(
            "exit code",
            (
                text(
                    "fail_on",
                    "the mildest finding that sets exit code 1",
                    "",
                    default="warning",
                    choices=("error", "warning", "info", "never"),
                    python=False,
                ),
            ),
        ),
        LOOKED_AT,
        OF_MODELS,
        FINDINGS,
        OUTPUT,
    ),
    text="npuscope.report.findings:lint_text",
    json="npuscope.report.findings:lint_json",
    busy="looking",
    code="risk_code",
    all_families=True,
    one_thread=True,
)


@checked(VERB)
def lint(
    source: Source,
    *,
    sarif: str | Path | None = None,
    junit: str | Path | None = None,
    **options: Unpack[ReadOptions],
) -> Findings:
    """Risks visible in the model file alone, the most severe first.

    In: a model; nothing is compiled. Out: findings, also as files for other programs.

    >>> npuscope.lint("model.onnx").to_dataframe()
    """
    from npuscope.report.result_files import write_findings
    from npuscope.rulebook.finding import Findings

    family = family_for(source, options)
    given = dict(options)
    for row in family.options:  # all of them say how a network is compiled
        if row.is_given(given.get(row.name)):
            raise UsageError(
                "lint compiles nothing, so this option changes nothing",
                where=row.long,
                hint="leave it out; estimate and explain take it",
            )
    findings = family.lint(source, options)
    generation = family.generation(options)
    write_findings("lint", source, findings, generation, sarif=sarif, junit=junit)
    return Findings(findings)


def risk_code(findings: Findings, fail_on: str) -> int:
    from npuscope.rulebook.finding import Severity

    if fail_on == "never":
        return 0
    mildest = Severity(fail_on).rank
    return 1 if any(finding.severity.rank <= mildest for finding in findings) else 0
