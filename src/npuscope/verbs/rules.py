"""`npuscope rules [ID]`: what is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuscope.errors import UsageError
from npuscope.options.kinds import Argument, Verb
from npuscope.options.rows import OUTPUT
from npuscope.shown import Several
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.rulebook.registry import Rule

VERB = Verb(
    "the rules that explain and lint check",
    (Argument("rule", "ID", "one rule, with cause and fixes", "?"),),
    (OUTPUT,),
    text="npuscope.report.rules:rules_text",
    json="npuscope.report.findings:rules_json",
)


class Rules(Several):
    __slots__ = ()
    noun = "rule"
    columns = (
        ("rule", "id"),
        ("severity", "severity.value"),
        ("kind", "kind.value"),
        ("title", "title"),
    )


@checked(VERB)
def rules(rule: str | None = None) -> tuple[Rule, ...]:
    """The rules that `explain` and `lint` check.

    In: nothing, or the id of one `rule`. Out: rules with sentence, cause and fixes.

    >>> npuscope.rules("NA-SOFTMAX")[0].cause
    """
    from npuscope.advice.catalogue import catalogue

    every = catalogue()
    if rule is None:
        return Rules(every.values())
    if rule.upper() in every:
        return Rules((every[rule.upper()],))
    import difflib

    near = difflib.get_close_matches(rule.upper(), every, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`npuscope rules` lists all"
    raise UsageError(f"unknown rule '{rule}'", hint=hint)
