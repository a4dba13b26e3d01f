"""Spellings for those who train: one for every fix that is theirs, with the finding's numbers."""

from __future__ import annotations

from npuscope.advice.catalogue import catalogue
from npuscope.rulebook.finding import fix_json
from npuscope.rulebook.fixes import CHANGE_OUTPUTS, OLDER_IR
from npuscope.rulebook.training import ELSEWHERE, SPELLINGS, training


def test_every_fix_is_spelled_or_is_done_elsewhere() -> None:
    fixes = {fix.id for rule in catalogue().values() for fix in rule.fixes}
    assert fixes - SPELLINGS.keys() - ELSEWHERE == set()
    assert (SPELLINGS.keys() | ELSEWHERE) - fixes == set()
    assert not SPELLINGS.keys() & ELSEWHERE


def test_numbers_of_a_finding_are_filled_in() -> None:
    fix = CHANGE_OUTPUTS.fix({"channels": 256})
    assert fix_json(fix)["training"] == {
        "keras": "Conv2D(filters=256, ...)",
        "torch": "nn.Conv2d(c, 256, ...)",
    }
    assert training("change-outputs", {}) == {
        "keras": "Conv2D(filters=<channels>, ...)",
        "torch": "nn.Conv2d(c, <channels>, ...)",
    }


def test_a_repair_of_the_file_has_none() -> None:
    assert fix_json(OLDER_IR.fix({}))["training"] is None
