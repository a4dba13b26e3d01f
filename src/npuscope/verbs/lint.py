"""`npuscope lint MODEL`: risks that the model file alone shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.options.kinds import Argument, Verb
from npuscope.options.rows import FINDINGS, LOOKED_AT, OUTPUT, READING
from npuscope.verbs.check import checked
from npuscope.verbs.families import check_rules, other_family

if TYPE_CHECKING:
    from npuscope.building import ReadOptions, Source
    from npuscope.families import Family
    from npuscope.rulebook.finding import Finding, Findings

VERB = Verb(
    "risks visible in the model file alone",
    (Argument("source", "MODEL", "a model: .tflite or .onnx"),),
    (LOOKED_AT, READING, FINDINGS, OUTPUT),
    text="npuscope.report.findings:lint_text",
    json="npuscope.report.findings:lint_json",
    busy="looking",
    code="risk_code",
    all_families=True,
)


@checked(VERB)
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
    from npuscope.report.result_files import write_findings
    from npuscope.rulebook.finding import Findings, gravest_first

    family = other_family(options)
    if family is not None:
        found, generation = _core_risks(source, family, options), ""
    else:
        from npuscope.building import machine_for, read_graph

        machine = machine_for(options)
        graph = read_graph(source, options)
        from npuscope.rulebook.registry import lint_graph
        from npuscope.verbs.explain import file_findings

        found = gravest_first((*lint_graph(graph, machine), *file_findings(source, machine)))
        generation = options.get("generation") or machine.generation.name
    write_findings("lint", source, found, generation, sarif=sarif, junit=junit)
    return Findings(found)


def risk_code(found: Findings) -> int:
    return 1 if any(finding.is_problem for finding in found) else 0


def _core_risks(source: Source, family: Family, options: ReadOptions) -> tuple[Finding, ...]:
    from npuscope.building import read_graph
    from npuscope.many_core.machine import load_core_machine
    from npuscope.many_core.rules import core_lints

    check_rules(family, "lint")
    plain: ReadOptions = {**options}
    plain.pop("machine", None)
    machine = load_core_machine(str(options.get("machine")))
    return core_lints(read_graph(source, plain), machine)
