"""The sentence of every rule: the docstring of the function that looks for it."""

from __future__ import annotations

from npuscope.advice.advise import advices
from npuscope.rules import RULES
from npuscope.rules.lint import lints
from npuscope.rules.lint_file import file_lints


def sentences() -> dict[str, str]:
    """By rule id; rules of the catalogue that no function looks for yet are missing."""
    return {
        **{rule.id: rule.sentence for rule in RULES},
        **{rule_id: entry.sentence for rule_id, entry in lints().items()},
        **{rule_id: entry.sentence for rule_id, entry in file_lints().items()},
        **{rule_id: entry.sentence for rule_id, entry in advices().items()},
    }
