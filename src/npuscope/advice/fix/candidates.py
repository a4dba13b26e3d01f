"""Fixes worth a try: what the findings offer, the requests first, then what pays most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from npuscope.advice.explain import Explanation
from npuscope.advice.fix.choice import CUT, Choice
from npuscope.advice.fix.edits import has_edit
from npuscope.advice.fix.frontier import Frontier, frontier
from npuscope.advice.fix.workbench import Look
from npuscope.rules.finding import Finding, Fix, Severity
from npuscope.rules.fixes import INTEGER_INPUT, INTEGER_OUTPUT
from npuscope.rules.registry import file_lints


@dataclass(frozen=True, slots=True)
class Place:
    """One finding's share of a candidate; no ops stand for the whole network."""

    ops: tuple[str, ...]
    fix: Fix


@dataclass(frozen=True, slots=True)
class Candidate:
    """One fix at all places where one rule offers it."""

    rule: str
    fix: Fix
    places: tuple[Place, ...]
    severity: Severity = Severity.INFO
    forced: bool = False
    notes: tuple[str, ...] = ()  # what the application has to do then

    @property
    def key(self) -> object:
        """Two rules may offer the same edit of the same ops: it is tried once."""
        places = {(place.ops, str(dict(place.fix.parameters))) for place in self.places}
        return self.fix.id, frozenset(places)

    @property
    def gain_ms(self) -> float | None:
        known = [p.fix.gain_ms for p in self.places if p.fix.gain_ms is not None]
        return sum(known) if known else None


def candidates(look: Look, found: Explanation, choice: Choice) -> list[Candidate]:
    """In the order in which they should be tried: what shortens the network, what pays most, and
    at last the border, which other fixes may have brought to integers."""
    offered = _offered(found.findings, look.document.format, choice)
    return [*_cut(look, choice), *sorted(offered, key=_order), *_border(look, choice)]


def _offered(findings: tuple[Finding, ...], format: str, choice: Choice) -> Iterator[Candidate]:
    places: dict[tuple[str, str], list[Place]] = {}
    severity: dict[tuple[str, str], Severity] = {}
    for finding in findings:
        for fix in finding.fixes:
            if has_edit(fix.id, format) and choice.allows(finding.rule, fix) and _may_pay(fix):
                key = (finding.rule, fix.id)
                places.setdefault(key, []).append(Place(finding.ops, fix))
                severity[key] = finding.severity
    for (name, _), found in places.items():
        fix = found[0].fix
        yield Candidate(name, fix, tuple(found), severity[name, fix.id], choice.forces(name, fix))


def _may_pay(fix: Fix) -> bool:
    """Predicted to save nothing: not worth a compilation."""
    return fix.gain_ms is None or fix.gain_ms > 0


def _cut(look: Look, choice: Choice) -> Iterator[Candidate]:
    if not choice.asked(CUT) or not has_edit(CUT, look.document.format):
        return
    end = frontier(look.build, look.profile)
    title = "end the network with the NPU's last work; the rest in the application"
    fix = Fix(CUT, title, {"tensors": [tensor.name for tensor in end.tensors]})
    places = (Place(end.removed, fix),) if end.tensors else ()
    yield Candidate("", fix, places, forced=True, notes=_told(end))


def _told(end: Frontier) -> tuple[str, ...]:
    """What the application finds, and what it has to do with it."""
    tensors = (
        f"output {t.name}: {t.dtype}{list(t.shape)}"
        + (f", scale {t.scale:.6g}, zero point {t.zero_point}" if t.scale is not None else "")
        for t in end.tensors
    )
    rest = [f"in the application: {', '.join(end.removed)}"] if end.removed else []
    return end.sentence, *tensors, *rest


def _border(look: Look, choice: Choice) -> Iterator[Candidate]:
    """Integers at the border need no finding."""
    for template in (INTEGER_INPUT, INTEGER_OUTPUT):
        if choice.asked(template.id) and has_edit(template.id, look.document.format):
            fix = template.fix({})
            yield Candidate("", fix, (Place((), fix),), forced=True)


def _order(candidate: Candidate) -> tuple[int, float, int]:
    """What a file needs to be read at all, then what pays most."""
    gain = candidate.gain_ms
    loss = -gain if gain is not None else inf
    return candidate.rule not in file_lints(), loss, candidate.severity.rank
