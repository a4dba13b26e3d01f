"""What explain and lint looked at and found, as other programs' formats need it."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.rules.finding import Finding
from npuscope.rules.registry import Kind, Rule, rules


@dataclass(frozen=True, slots=True)
class Checked:
    """`source` is the file or folder as the user named it; `verb` the command that looked."""

    verb: str
    source: str
    generation: str
    findings: tuple[Finding, ...]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that were asked; those that found something are always among them."""
        found = {finding.rule: finding for finding in self.findings}
        known = rules() if self.verb == "lint" else _every()
        asked = [info for info in known.values() if info.id in found or self._asks(info)]
        return (*asked, *(_foreign(found[name]) for name in found if name not in known))

    def _asks(self, info: Rule) -> bool:
        """lint compiles nothing, so that only its own rules have a say."""
        fits = info.applies_to(self.generation)
        return fits and (self.verb != "lint" or info.kind is Kind.LINT)


def _every() -> dict[str, Rule]:
    """Advice is built on compiler and simulator, which lint does without."""
    from npuscope.advice.advise import catalogue

    return catalogue()


def _foreign(finding: Finding) -> Rule:
    """A rule that only the file of a program names."""
    return Rule(
        finding.rule,
        Kind.REFUSE,
        finding.title,
        finding.severity,
        finding.confidence,
        finding.cause,
        since=finding.since,
        until=finding.until,
    )
