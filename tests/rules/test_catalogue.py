"""The catalogue holds every rule once, says all of it, and its pages are up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from advice.test_advise_rules import CASES as ADVISE_CASES
from npuscope.advice.advise import advices
from npuscope.advice.rule_pages import rule_pages
from npuscope.advice.sentences import sentences
from npuscope.rules import RULES
from npuscope.rules.catalogue import (
    GENERATIONS,
    FixTemplate,
    Kind,
    RuleInfo,
    catalogue,
    make_finding,
    rule,
)
from npuscope.rules.finding import Confidence, Hit, Severity
from npuscope.rules.lint import lints
from npuscope.rules.lint_file import file_lints
from rules.test_lint_file import CASES as FILE_CASES
from rules.test_lint_layers import CASES as LAYER_CASES
from rules.test_lint_moves import CASES as MOVE_CASES
from rules.test_lint_numbers import CASES as NUMBER_CASES

PAGES = Path(__file__).parents[2] / "docs" / "rules"
INFOS = list(catalogue().values())
LINT_CASES = (*NUMBER_CASES, *LAYER_CASES, *MOVE_CASES, *FILE_CASES)
WANTED_CASES = 40


@pytest.mark.parametrize("rule_id", sorted({rule.id for rule in RULES}))
def test_every_refusing_rule_is_in_the_catalogue(rule_id: str) -> None:
    info = rule(rule_id)
    assert info is not None, f"add {rule_id} to rules/catalogue_refuse*.py"
    assert info.kind is Kind.REFUSE


def test_every_lint_and_advise_rule_looks_for_something() -> None:
    by_kind = {kind: {i.id for i in INFOS if i.kind is kind} for kind in Kind}
    assert by_kind[Kind.LINT] == {*lints(), *file_lints()}
    assert by_kind[Kind.ADVISE] == set(advices())


def test_every_lint_and_advise_rule_has_both_tests() -> None:
    """The tables hold, for each rule, a network that it finds and one that it leaves alone."""
    assert {case.rule for case in LINT_CASES} == {*lints(), *file_lints()}
    assert {case.rule for case in ADVISE_CASES} == set(advices())


def test_enough_known_problems_are_covered() -> None:
    """Refusing rules have both networks in test_rules.py, all others in the tables above."""
    tested = {case.rule for case in (*LINT_CASES, *ADVISE_CASES)} | {rule.id for rule in RULES}
    covered = {case for info in INFOS if info.id in tested for case in info.cases}
    ours = {case for case in covered if re.match(r"[FCSWHI]\d\d$", case)}
    assert len(ours) >= WANTED_CASES
    assert {"F01", "F02", "F03", "F09", "F15", "S01", "S07", "W01", "H01"} <= ours


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.id)
def test_an_entry_is_complete(info: RuleInfo) -> None:
    prefix = {Kind.REFUSE: "NA", Kind.LINT: "LINT", Kind.ADVISE: "ADV"}[info.kind]
    assert re.fullmatch(rf"{prefix}-[A-Z0-9]+(-[A-Z0-9]+)*", info.id)
    assert info.title[0].isupper() or info.title[0].isdigit() or info.title.startswith("uint8")
    assert not info.title.endswith(".")
    assert info.cause.endswith(".")
    assert info.fixes, "a user wants to know what to do"
    assert info.since in ("", *GENERATIONS)
    assert info.until in ("", *GENERATIONS)
    assert all(twin in catalogue() for twin in info.twins)
    assert len({fix.id for fix in info.fixes}) == len(info.fixes)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fix.id) for fix in info.fixes)


def test_a_fix_is_automatic_or_not_whatever_rule_offers_it() -> None:
    known: dict[str, bool] = {}
    for fix in (fix for info in INFOS for fix in info.fixes):
        assert known.setdefault(fix.id, fix.automatic) is fix.automatic, fix.id


def test_every_rule_that_looks_has_a_sentence() -> None:
    assert all(text.endswith(".") and not text[0].islower() for text in sentences().values())


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
    ],
)
def test_rules_hold_for_their_generations(since: str, until: str, expected: object) -> None:
    info = RuleInfo(
        "X", Kind.LINT, "", Severity.INFO, Confidence.REPORTED, "", (), (), since, until
    )
    assert tuple(name for name in GENERATIONS if info.applies_to(name)) == expected
    assert info.applies_to("5.1-beta")


def test_a_fix_without_its_parameters_is_left_out() -> None:
    fixes = (FixTemplate("split", "split into {parts}", True), FixTemplate("cut", "cut it"))
    info = RuleInfo("X", Kind.LINT, "t", Severity.INFO, Confidence.REPORTED, "c", fixes)
    plain = make_finding(info, Hit(("op",), 7, 3))
    assert [fix.title for fix in plain.fixes] == ["cut it"]
    assert plain.evidence == {"value": 7, "limit": 3}
    full = make_finding(
        info,
        Hit(("op",), 7, fixes={"split": {"parts": "2+3"}}, gains={"split": 0.5}, epoch=4),
    )
    assert [(fix.title, fix.gain_ms, fix.automatic) for fix in full.fixes] == [
        ("split into 2+3", 0.5, True),
        ("cut it", None, False),
    ]
    assert (full.gain_ms, full.epoch, plain.gain_ms) == (0.5, 4, None)
