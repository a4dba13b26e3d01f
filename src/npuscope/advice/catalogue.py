"""Every rule of the house by its id: those on networks and files, on runs, and of each family."""

from __future__ import annotations

from functools import cache

from npuscope.families.registry import families
from npuscope.rulebook.registry import Rule, RuleKind, rules, rules_in, themed

# The order in which findings of equal weight are reported.
THEMES = ("software", "layers", "moves", "memory", "control")


@cache
def advices() -> dict[str, Rule]:
    """Rules on a run, by id."""
    return themed("npuscope.advice", THEMES)


@cache
def catalogue() -> dict[str, Rule]:
    """Every rule by id: those that refuse, then lint, then advice."""
    every = {**rules(), **advices()}
    for family in families():
        for module in family.rules:
            every |= rules_in(module)
    order = list(RuleKind)
    return dict(sorted(every.items(), key=lambda entry: order.index(entry[1].kind)))
