"""Advise rules: what hurts in a run. The registry, and the run over all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from npuscope.advice.subject import Subject
from npuscope.errors import InternalError
from npuscope.rules.catalogue import RuleInfo, make_finding, rule
from npuscope.rules.finding import Finding, Hit, worst_first

AdviseFunction = Callable[[Subject], Iterator[Hit]]
_MODULES = (
    "advise_software",
    "advise_layers",
    "advise_moves",
    "advise_memory",
    "advise_control",
)


@dataclass(frozen=True, slots=True)
class Advice:
    """A registered rule; `sentence` is its docstring."""

    info: RuleInfo
    sentence: str
    look: AdviseFunction

    def findings(self, subject: Subject) -> Iterator[Finding]:
        for hit in self.look(subject):
            yield make_finding(self.info, hit)


_ADVICE: dict[str, Advice] = {}


def advise(rule_id: str) -> Callable[[AdviseFunction], AdviseFunction]:
    """Register a rule under its id in the catalogue."""

    def register(look: AdviseFunction) -> AdviseFunction:
        info = rule(rule_id)
        if info is None:
            raise InternalError(f"rule '{rule_id}' is not in the catalogue")
        _ADVICE[rule_id] = Advice(info, " ".join((look.__doc__ or "").split()), look)
        return look

    return register


def advices() -> dict[str, Advice]:
    """All advise rules by id."""
    for name in _MODULES:
        import_module(f"npuscope.advice.{name}")
    return _ADVICE


def advise_run(subject: Subject) -> tuple[Finding, ...]:
    """What the rules find in a run: epochs off the NPU and why, then all that slows it down."""
    known = advices()
    from npuscope.advice.refused import refused_findings

    found = [*refused_findings(subject)]
    found += [finding for entry in known.values() for finding in entry.findings(subject)]
    return tuple(sorted(found, key=worst_first))
