"""All rules by id, whatever their kind: what the user reads, as data.

The functions that find something live elsewhere (refuse: beside this file; lint: lint_*.py;
advise: the advice package); severity, cause and fixes are told here, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from string import Formatter

from npuscope.rules.finding import Confidence, Finding, Fix, Hit, Severity, Value

# Compiler generations in the order in which they came.
GENERATIONS = ("2.2", "3.0", "4.0", "open")


class Kind(StrEnum):
    REFUSE = "refuse"  # keeps an op off the NPU; lowering asks
    LINT = "lint"  # a risk that the model file alone shows
    ADVISE = "advise"  # what hurts in a run


class Effect(StrEnum):
    """What a fix does to the op it is about: tells how a gain may be predicted."""

    REMOVES = "removes"  # the work is gone from the network
    MAPS = "maps"  # the same work in one pass over the NPU
    RESHAPES = "reshapes"  # other channel counts: the layer can be compiled again
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FixTemplate:
    """`title` may name parameters in braces; a finding fills them in."""

    id: str
    title: str
    automatic: bool = False
    effect: Effect = Effect.OTHER

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(name for _, name, _, _ in Formatter().parse(self.title) if name)

    @property
    def in_general(self) -> str:
        """The title before there is a finding: names stand in for values."""
        return self.title.format(**{name: f"<{name}>" for name in self.parameters})

    def fix(self, parameters: Mapping[str, Value]) -> Fix:
        title = self.title.format(**parameters)
        return Fix(self.id, title, parameters, self.automatic)


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """One rule. `cases` are ids of the catalogue of user problems that it answers.

    `twins` are refuse rules that say the same of a compiled network as a lint rule says of the
    model file.
    """

    id: str
    kind: Kind
    title: str
    severity: Severity
    confidence: Confidence
    cause: str
    fixes: tuple[FixTemplate, ...] = ()
    cases: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    twins: tuple[str, ...] = ()

    @property
    def docs(self) -> str:
        return f"docs/rules/{self.id}.md"

    def applies_to(self, generation: str) -> bool:
        """A generation that we do not know may have every habit."""
        if generation not in GENERATIONS:
            return True
        place = GENERATIONS.index(generation)
        first = GENERATIONS.index(self.since) if self.since else 0
        last = GENERATIONS.index(self.until) if self.until else len(GENERATIONS)
        return first <= place <= last


def rule(rule_id: str) -> RuleInfo | None:
    return catalogue().get(rule_id)


def catalogue() -> dict[str, RuleInfo]:
    """Every rule, in the order of the themes."""
    if not _KNOWN:
        from npuscope.rules import (
            catalogue_advise,
            catalogue_file,
            catalogue_lint_layers,
            catalogue_lint_moves,
            catalogue_lint_numbers,
            catalogue_refuse,
            catalogue_refuse_moves,
        )

        for theme in (
            catalogue_refuse,
            catalogue_refuse_moves,
            catalogue_lint_numbers,
            catalogue_lint_layers,
            catalogue_lint_moves,
            catalogue_file,
            catalogue_advise,
        ):
            _KNOWN.update({info.id: info for info in theme.RULES})
    return _KNOWN


_KNOWN: dict[str, RuleInfo] = {}


def make_finding(info: RuleInfo, hit: Hit) -> Finding:
    """The finding of a rule; a fix whose parameters the hit does not give is left out."""
    return Finding(
        rule=info.id,
        severity=hit.severity or info.severity,
        title=info.title,
        epoch=hit.epoch,
        ops=hit.ops,
        evidence={"value": hit.value, "limit": hit.limit, **hit.evidence},
        cause=info.cause,
        fixes=tuple(_fixes(info, hit)),
        confidence=info.confidence,
        since=info.since,
        until=info.until,
        docs=info.docs,
    )


def _fixes(info: RuleInfo, hit: Hit) -> Iterator[Fix]:
    for template in info.fixes:
        given = hit.fixes.get(template.id, {})
        if set(template.parameters) <= set(given):
            yield replace(template.fix(given), gain_ms=hit.gains.get(template.id))
