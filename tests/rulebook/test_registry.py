"""The registry holds every rule once, says all of it, and its pages are up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from advice.test_advise_rules import CASES as ADVISE_CASES
from compiler.nets import MACHINES
from npuscope.advice.catalogue import advices, catalogue
from npuscope.advice.rule_pages import rule_pages
from npuscope.errors import InternalError
from npuscope.machine.load import generations
from npuscope.rulebook.finding import Confidence, Hit, Severity
from npuscope.rulebook.fix import FixTemplate, FunctionEffect, at_most
from npuscope.rulebook.registry import (
    THEMES,
    Rule,
    RuleKind,
    declare,
    file_lints,
    lints,
    make_finding,
    rules,
)
from rulebook.lint_case import Case, conv

PAGES = Path(__file__).parents[2] / "docs" / "rules"
INFOS = list(catalogue().values())
GENERATIONS = generations()
# Lowering tells these itself: no function looks for them.
WITHOUT_CHECK = {"NA-OP-SOFTWARE", "NA-SPLIT-AXIS"}


def lint_cases() -> list[Case]:
    """Of all themes: a test of a theme stands beside it under the same name."""
    tests = [import_module(f"rulebook.test_{theme}") for theme in THEMES]
    return [case for test in tests for case in test.CASES]


def test_every_refusing_rule_checks_ops() -> None:
    refusing = [info for info in INFOS if info.kind is RuleKind.REFUSE]
    assert {info.id for info in refusing if info.check is None} == WITHOUT_CHECK
    assert all(info.ops for info in refusing if info.check)


def test_every_lint_and_advise_rule_looks_for_something() -> None:
    own = [info for info in INFOS if not info.family]  # tests of a family stand beside it
    by_kind = {kind: {i.id for i in own if i.kind is kind} for kind in RuleKind}
    assert by_kind[RuleKind.LINT] == {*lints(), *file_lints()}
    assert by_kind[RuleKind.ADVISE] == set(advices())
    assert all(info.look for info in INFOS if info.family)


def test_every_lint_and_advise_rule_has_both_tests() -> None:
    """The tables hold, for each rule, a network that it finds and one that it leaves alone."""
    assert {case.rule for case in lint_cases()} == {*lints(), *file_lints()}
    assert {case.rule for case in ADVISE_CASES} == set(advices())


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.id)
def test_an_entry_is_complete(info: Rule) -> None:
    prefix = {RuleKind.REFUSE: "NA", RuleKind.LINT: "LINT", RuleKind.ADVISE: "ADV"}[info.kind]
    assert re.fullmatch(rf"{prefix}-[A-Z0-9]+(-[A-Z0-9]+)*", info.id)
    assert info.title[0].isupper() or info.title[0].isdigit() or info.title.startswith("uint8")
    assert not info.title.endswith(".")
    assert info.cause.endswith(".")
    assert info.fixes, "a user wants to know what to do"
    assert info.since in ("", "2.0", *GENERATIONS)
    assert info.until in ("", *GENERATIONS)
    assert all(twin in catalogue() for twin in info.twins)
    assert len({fix.id for fix in info.fixes}) == len(info.fixes)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fix.id) for fix in info.fixes)


def test_a_fix_is_automatic_or_not_whatever_rule_offers_it() -> None:
    known: dict[str, bool] = {}
    for fix in (fix for info in INFOS for fix in info.fixes):
        assert known.setdefault(fix.id, fix.automatic) is fix.automatic, fix.id


def test_every_rule_that_looks_has_a_sentence() -> None:
    told = {info.id: info.sentence for info in INFOS if info.check or info.look}
    assert all(text.endswith(".") and not text[0].islower() for text in told.values())
    assert {*catalogue()} - {*told} == WITHOUT_CHECK


def test_a_rule_is_declared_once() -> None:
    known = next(iter(rules().values()))
    with pytest.raises(InternalError, match=f"rule '{known.id}' is declared twice"):
        declare("npuscope.rulebook.another", known)


def test_a_foretold_refusal_is_found_by_its_check() -> None:
    """The lint rule asks the refuse rule: where that lets an op pass, lint says nothing."""
    graph, machine = conv((1, 8, 8, 18), groups=2), MACHINES["4.0"]
    (found,) = rules()["LINT-GROUPS"].findings(machine, graph, machine)
    refusal = rules()["NA-CONV-GROUPS"]
    assert refusal.refused(graph, graph.ops[-1], machine) is not None
    assert rules()["LINT-GROUPS"].twins == ("NA-CONV-GROUPS",)
    assert (found.title, found.severity) == (refusal.title, refusal.severity)
    assert found.cause != refusal.cause  # it is said of a file, not of an epoch


def test_rules_are_told_in_the_order_of_the_themes_whatever_was_imported_first() -> None:
    """In a process of its own: a late theme is imported before all others."""
    code = (
        "import npuscope.rulebook.layout, npuscope.advice.memory\n"
        "from npuscope.rulebook.registry import rules\n"
        "print(*rules())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [*rules()]


def test_a_record_names_nothing_outside() -> None:
    """Ids of documents that the reader does not have would tell nothing."""
    assert "cases" not in Rule.__struct_fields__


def test_pages_are_up_to_date() -> None:
    pages = rule_pages()
    written = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    stale = {name for name in {*pages, *written} if pages.get(name) != written.get(name)}
    assert not stale, "run: python tools/write_rule_docs.py"


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("", "", GENERATIONS),
        ("", "4.0", ("2.2", "3.0", "4.0")),
        ("4.0", "4.0", ("4.0",)),
        ("3.0", "", ("3.0", "4.0", "open")),
        ("2.0", "2.2", ("2.2",)),
    ],
)
def test_rules_hold_for_their_generations(since: str, until: str, expected: object) -> None:
    info = Rule("X", RuleKind.LINT, "", Severity.INFO, Confidence.REPORTED, "", (), since, until)
    assert tuple(name for name in GENERATIONS if info.applies_to(name)) == expected
    assert info.applies_to("5.1-beta")
    assert info.applies_to("2.1") is info.applies_to("2.2")


def test_a_fix_without_its_parameters_is_left_out() -> None:
    fixes = (
        FixTemplate("split", "split into {parts}", FunctionEffect.EXACT),
        FixTemplate("cut", "cut it"),
    )
    info = Rule("X", RuleKind.LINT, "t", Severity.INFO, Confidence.REPORTED, "c", fixes)
    plain = make_finding(info, Hit(("op",), 7, 3))
    assert [fix.title for fix in plain.fixes] == ["cut it"]
    assert plain.evidence == {"value": 7, "limit": 3}
    full = make_finding(
        info,
        Hit(("op",), 7, fixes={"split": {"parts": "2+3"}}, gains={"split": at_most(0.5)}, epoch=4),
    )
    assert [(fix.title, fix.gain_ms, fix.automatic) for fix in full.fixes] == [
        ("split into 2+3", 0.5, True),
        ("cut it", None, False),
    ]
    assert (full.gain_ms, full.epoch, plain.gain_ms) == (0.5, 4, None)
