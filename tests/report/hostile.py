"""Findings about names that mean harm."""

from __future__ import annotations

from hostile_names import HOSTILE
from npuscope.rulebook.finding import Finding, Hit, Severity
from npuscope.rulebook.registry import make_finding, rule


def hostile_findings() -> tuple[Finding, ...]:
    """A finding of each severity about each name."""
    info = rule("NA-SOFTMAX")
    assert info is not None
    return tuple(
        make_finding(
            info,
            Hit((name, f"{severity}:{name}"), name, name, epoch=number, severity=severity),
        )
        for number, name in enumerate(HOSTILE.values())
        for severity in Severity
    )
