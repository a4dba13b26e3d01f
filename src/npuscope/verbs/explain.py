"""`npuscope explain SOURCE`: why it is slow or off the NPU, and what to change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.collector import without_collector
from npuscope.families.registry import family_for
from npuscope.options.kinds import OptionGroup, OptionKind, Verb, flag, option
from npuscope.options.rows import COMPILED_FROM, FINDINGS, OUTPUT, READING, SOURCE, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.advice.explanation import Explanation
    from npuscope.building import Options, Source

VERB = Verb(
    "why it is slow or off the NPU, and what to change",
    (SOURCE,),
    (
        OptionGroup(
            "",
            (
                flag("strict", "exit code 1 when there are errors or warnings", python=False),
                COMPILED_FROM,
                option(
                    "batch",
                    OptionKind.WHOLE,
                    "inferences to run",
                    default=0,
                    shell=False,
                    of_family=True,
                ),
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
    one_thread=True,
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
    machine with many cores, stats buffers and results of `opstats` are explained too.
    Out: the verdict, the changes that pay most, and every finding.

    >>> npuscope.explain("model.tflite").changes
    """
    from npuscope.report.result_files import write_findings

    request = {**options, "batch": batch, "model": model, "trials": not batch}
    with without_collector():
        explanation = family_for(source, options).explain(source, request)
    generation = explanation.profile.machine.generation
    write_findings("explain", source, explanation.findings, generation, sarif=sarif, junit=junit)
    return explanation


def strict_code(explanation: Explanation, strict: bool) -> int:
    return 1 if strict and explanation.has_problems else 0
