"""Every rule there is, those on runs included, and what they find in a run."""

from __future__ import annotations

from functools import cache

from npuscope.advice.refused import refused_findings
from npuscope.advice.subject import Subject
from npuscope.rulebook.finding import Finding, worst_first
from npuscope.rulebook.registry import Kind, Rule, rules, themed

# The order in which findings of one weight are told.
THEMES = ("software", "layers", "moves", "memory", "control")


@cache
def advices() -> dict[str, Rule]:
    """Rules on a run, by id."""
    return themed("npuscope.advice", THEMES)


@cache
def catalogue() -> dict[str, Rule]:
    """Every rule by id: those that refuse, then lint, then advice."""
    every = {**rules(), **advices()}
    order = list(Kind)
    return dict(sorted(every.items(), key=lambda entry: order.index(entry[1].kind)))


def advise_run(subject: Subject) -> tuple[Finding, ...]:
    """What the rules find in a run: epochs off the NPU and why, then all that slows it down."""
    found = [*refused_findings(subject)]
    for rule in advices().values():
        found += rule.findings(subject.machine, subject)
    return tuple(sorted(found, key=worst_first))
