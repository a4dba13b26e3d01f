"""`npuscope gate SOURCE --max KEY=VALUE`: limits with an exit code, for build servers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from npuscope.errors import UsageError
from npuscope.families.registry import family_for
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, flag, list_, result_file, text
from npuscope.options.rows import FINDINGS, HTML, OUTPUT, READING, RUN_HELP, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.advice.gate import Gate
    from npuscope.building import Options, Source

_GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"


def limit_table(where: str, words: Iterable[str]) -> dict[str, float | str]:
    """What --max or --min was given: KEY=VALUE each."""
    limits: dict[str, float | str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key.strip() or not value.strip():
            raise UsageError(f"expected KEY=VALUE, found '{word}'", where=where)
        if key.strip() in limits:
            raise UsageError(f"{key.strip()} is given twice", where=where)
        limits[key.strip()] = value.strip()
    return limits


# One option per row is easier to read than the formatter's layout.
# fmt: off
VERB = Verb(
    "check limits on time, memory and epochs; the exit code tells the result",
    (Argument("source", "SOURCE", RUN_HELP),),
    (
        OptionGroup("", (
            *(
                list_(name, f"the {word} allowed value of a figure: total_ms=20, SW=0, "
                    "internal_ram_bytes=2MiB, findings.error=0", "KEY=VALUE", flags=(flag,),
                    parse=partial(limit_table, flag))
                for name, flag, word in (
                    ("most", "--max", "largest"), ("least", "--min", "smallest"))
            ),
            file("baseline",
                "nothing may be worse than here: JSON of estimate, profile or gate, or any source"),
            text("tolerance", "how much worse a figure may get, e.g. 3%", "SHARE", default="0",
                flags=("--tol",)),
            result_file("summary", "append a Markdown table to FILE"),
            HTML,
            flag("with_findings", "include findings, without writing a file for them",
                shell=False),
            flag("github", "for GitHub: errors as annotations on stdout, the table in the job "
                "summary", python=False),
        )),
        TARGET,
        READING,
        FINDINGS,
        OUTPUT,
    ),
    run="judge",
    text="npuscope.report.gate:gate_text",
    json="npuscope.report.gate:gate_json",
    busy="checking",
    code="verdict_code",
    after="annotate",
    reads=("source", "baseline"),
    all_families=True,
)
# fmt: on


@checked(VERB)
def gate(
    source: Source,
    *,
    most: Mapping[str, float | str] | None = None,
    least: Mapping[str, float | str] | None = None,
    baseline: Source | None = None,
    tolerance: float | str = 0.0,
    with_findings: bool = False,
    summary: str | Path | None = None,
    sarif: str | Path | None = None,
    junit: str | Path | None = None,
    html: str | Path | None = None,
    **options: Unpack[Options],
) -> Gate:
    """Whether a run keeps its limits, e.g. most={"total_ms": 20, "internal_ram_bytes": "2MiB"}.

    In: a source with limits, or a `baseline` (an earlier result, a saved profile, any source)
    against which time, memory and epochs off the NPU may get worse by the share `tolerance`.
    Out: the checks with their figures, and whether all passed.

    >>> npuscope.gate("model.tflite", most={"total_ms": 20, "SW": 0}).passed
    """
    from npuscope.advice.compare.sides import open_side, refuse_late
    from npuscope.advice.gate import (
        figures,
        needs_findings,
        parse_limits,
        parse_share,
        read_baseline,
    )
    from npuscope.advice.gate import gate as run_gate

    share = parse_share(str(tolerance), "--tol")
    refuse_late(source, options)
    side = open_side(source, options)
    with_rules = bool(with_findings or sarif or junit) or needs_findings(most, least)
    findings = _findings_of(side, source, options) if with_rules else None
    limits = parse_limits(most, least, figures(side.profile, findings))
    before = None if baseline is None else read_baseline(baseline, options)
    verdict = run_gate(side, limits, before, share, findings)
    from npuscope.report.result_files import write_findings, write_html

    if html:
        from npuscope.report.html.changes import gate_page

        write_html(html, lambda: gate_page(verdict))
    write_findings(
        "gate", source, verdict.findings, side.profile.machine.generation, sarif=sarif, junit=junit
    )
    if summary:
        from npuscope.report.gate import gate_markdown

        _append(Path(summary), gate_markdown(verdict))
    return verdict


def _findings_of(side: Any, source: Source, options: Options) -> Any:
    family = family_for(source, options)
    if family.needs_program and (side.program is None or side.is_measured):
        raise UsageError(
            "findings need a model or a build, not a saved run",
            where=side.name,
            hint="give the model or the build itself",
        )
    return family.explain(source, options).findings


def _append(path: Path, text: str) -> None:
    """Append, because several gates of a job write to one summary."""
    from npuscope.whole_file import as_file_error

    with as_file_error(path), path.open("ab", buffering=0) as file:
        file.write(text.encode("utf-8"))  # in one piece, also beside another gate


# --- For build servers ---


def judge(
    source: str,
    *,
    most: Mapping[str, float | str] | None = None,
    least: Mapping[str, float | str] | None = None,
    baseline: str | None = None,
    summary: str | None = None,
    github: bool = False,
    **options: Any,
) -> Gate:
    if not (most or least or baseline):
        raise UsageError(
            "no limit given", hint="give --max KEY=VALUE, --min KEY=VALUE or --baseline FILE"
        )
    verdict = gate(source, most=most, least=least, baseline=baseline, **options)
    from npuscope.report.gate import gate_markdown
    from npuscope.whole_file import appear

    appear()  # first what can be refused: a summary that has grown stays so
    of_job = os.environ.get(_GITHUB_SUMMARY) if github else None
    # Both options may name one file; it gets the table once.
    for path in dict.fromkeys(path for path in (summary, of_job) if path):
        _append(Path(path), gate_markdown(verdict))
    return verdict


def annotate(verdict: Gate, github: bool, json: str | None = None) -> None:
    """With JSON on stdout nothing else may be printed there."""
    from npuscope.report.gate import error_commands

    if github and json != "-":
        for line in error_commands(verdict):
            print(line)


def verdict_code(verdict: Gate) -> int:
    return 0 if verdict.passed else 1
