"""Fixes worth a try: which may be applied, what the findings offer, the requests first, then what
pays most."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from msgspec import Struct

from npuscope.advice.catalogue import catalogue
from npuscope.advice.explanation import Explanation
from npuscope.advice.fix.frontier import Frontier, frontier
from npuscope.advice.fix.workbench import Look
from npuscope.edits import has_edit
from npuscope.errors import UsageError
from npuscope.rulebook.finding import Finding, Fix, Severity, Value
from npuscope.rulebook.fix import FixTemplate, FunctionEffect
from npuscope.rulebook.fixes import FLAGS, INTEGER_INPUT, INTEGER_OUTPUT
from npuscope.rulebook.registry import file_lints

# Fixes that change what the application sees: they wait until they are asked for.
CUT = "cut-tail"
DROP_SOFTMAX = "drop-softmax"
INTEGER_IO = ("integer-input", "integer-output")


class FixChoice(Struct, frozen=True):
    """`only` names rules or fixes; `everything` asks for every edit that keeps the network's
    function, `lossy` also for those that do not."""

    only: frozenset[str] = frozenset()
    cut: bool = False
    drop_softmax: bool = False
    integer_io: bool = False
    everything: bool = False
    lossy: bool = False
    sizes: Mapping[str, str] = {}  # by fix: parts that were asked for

    def allows(self, rule: str, fix: Fix) -> bool:
        if self._named(rule, fix):
            return True
        if fix.function is FunctionEffect.CHANGED:
            return self.lossy and not self.only
        if self.asked(fix.id):
            return True
        return fix.automatic and not self.only

    @property
    def integer_border(self) -> bool:
        return self.integer_io or self.everything

    def asked(self, fix: str) -> bool:
        """By an option of its own, or with all."""
        return self.everything or self._flagged(fix)

    def forces(self, rule: str, fix: Fix) -> bool:
        """Asked for by name: applied even if it costs time."""
        return self._named(rule, fix) or self._flagged(fix.id)

    def _flagged(self, fix: str) -> bool:
        options = {
            "--cut": self.cut,
            "--drop-softmax": self.drop_softmax,
            "--integer-io": self.integer_border,
        }
        return options.get(FLAGS.get(fix, ""), False)

    def _named(self, rule: str, fix: Fix) -> bool:
        return bool(self.only & {rule, fix.id})


def only(words: Iterable[str]) -> tuple[frozenset[str], dict[str, str]]:
    """Names of rules and fixes, checked, and the sizes that a fix was given: FIX=144+113."""
    rules = catalogue()
    templates = {fix.id: fix for info in rules.values() for fix in info.fixes}
    fixes = set(templates)
    given = {name: value for name, sign, value in (w.partition("=") for w in words) if name}
    chosen_names, sizes = frozenset(given), {name: v for name, v in given.items() if v}
    for name, value in sizes.items():
        where = f"--only {name}={value}"
        if name not in templates or not templates[name].sizes:
            named = ", ".join(sorted(n for n, t in templates.items() if t.sizes))
            raise UsageError("takes no sizes", where=where, hint=f"these do: {named}")
        if not all(part.isascii() and part.isdecimal() for part in value.split("+")):
            raise UsageError("expected sizes such as 144+113", where=where)
    for name in sorted(chosen_names - rules.keys() - fixes):
        near = difflib.get_close_matches(name, [*rules, *fixes], n=3, cutoff=0.5)
        hint = f"nearest: {', '.join(near)}" if near else "`npuscope rules` lists them"
        raise UsageError(f"unknown rule or fix '{name}'", where="--only", hint=hint)
    return chosen_names, sizes


class FixPlace(Struct, frozen=True):
    """One finding's share of a candidate; no ops stand for the whole network."""

    ops: tuple[str, ...]
    fix: Fix


class Candidate(Struct, frozen=True):
    """One fix at all places where one rule offers it."""

    rule: str
    fix: Fix
    places: tuple[FixPlace, ...]
    severity: Severity = Severity.INFO
    forced: bool = False
    notes: tuple[str, ...] = ()  # what the application has to do then
    left_ms: float = 0.0  # what that takes on the board's CPU, as it was timed in the network
    may_change: bool = False  # answers, as --lossy allows

    @property
    def is_lossy(self) -> bool:
        return self.fix.function is FunctionEffect.CHANGED

    @property
    def key(self) -> object:
        """Two rules may offer the same edit of the same ops: it is tried once."""
        places = {(place.ops, str(dict(place.fix.parameters))) for place in self.places}
        return self.fix.id, frozenset(places)

    @property
    def gain_ms(self) -> float | None:
        gains = [p.fix.gain_ms for p in self.places if p.fix.gain_ms is not None]
        return sum(gains) if gains else None


def candidates(look: Look, explanation: Explanation, choice: FixChoice) -> list[Candidate]:
    """In the order in which they should be tried: what shortens the network, what pays most, and
    at last the border, which other fixes may have brought to integers."""
    offered = _offered(explanation.findings, look.document.format, choice)
    return [*_cut(look, choice), *sorted(offered, key=_order), *_border(look, choice)]


def savings_on_request(look: Look, explanation: Explanation, choice: FixChoice) -> dict[str, float]:
    """By option that was not given: the milliseconds that its fixes save at most."""
    savings: dict[str, float] = {}
    for fix in (fix for finding in explanation.findings for fix in finding.fixes):
        possible = fix.id in FLAGS and has_edit(fix.id, look.document.format)
        if possible and not choice.asked(fix.id) and fix.gain_ms:
            savings[FLAGS[fix.id]] = savings.get(FLAGS[fix.id], 0.0) + fix.gain_ms
    return savings


def _offered(findings: tuple[Finding, ...], format: str, choice: FixChoice) -> Iterator[Candidate]:
    places: dict[tuple[str, str], list[FixPlace]] = {}
    severity: dict[tuple[str, str], Severity] = {}
    for finding in findings:
        for fix in finding.fixes:
            offered = has_edit(fix.id, format) and choice.allows(finding.rule, fix)
            if offered and fix.gain.may_pay:  # else not worth a compilation
                key = (finding.rule, fix.id)
                if fix.id in choice.sizes:
                    fix = template_of(finding.rule, fix.id).with_sizes(fix, choice.sizes[fix.id])
                places.setdefault(key, []).append(FixPlace(finding.ops, fix))
                severity[key] = finding.severity
    for (name, _), rows in places.items():
        fix = rows[0].fix
        forced = choice.forces(name, fix)
        yield Candidate(
            name, fix, tuple(rows), severity[name, fix.id], forced, may_change=choice.lossy
        )


def template_of(rule: str, fix: str) -> FixTemplate:
    return next(template for template in catalogue()[rule].fixes if template.id == fix)


def _cut(look: Look, choice: FixChoice) -> Iterator[Candidate]:
    if not choice.asked(CUT) or not has_edit(CUT, look.document.format):
        return
    end = frontier(look.graph, look.profile)
    title = "end the network after the last NPU op; run the rest in the application"
    parameters: dict[str, Value] = {"tensors": [tensor.name for tensor in end.tensors]}
    fix = Fix(CUT, title, parameters, FunctionEffect.MOVED)
    places = (FixPlace(end.removed, fix),) if end.tensors else ()
    yield Candidate("", fix, places, forced=True, notes=_notes(end), left_ms=end.cpu_ms)


def _notes(end: Frontier) -> tuple[str, ...]:
    """What the application finds, and what it has to do with it."""
    tensors = (
        f"output {t.name}: {t.dtype}{list(t.shape)}"
        + (f", scale {t.scale:.6g}, zero point {t.zero_point}" if t.scale is not None else "")
        for t in end.tensors
    )
    rest = [f"in the application: {', '.join(end.removed)}"] if end.removed else []
    return end.sentence, *tensors, *rest


def _border(look: Look, choice: FixChoice) -> Iterator[Candidate]:
    """Integers at the border need no finding."""
    for template in (INTEGER_INPUT, INTEGER_OUTPUT):
        if choice.asked(template.id) and has_edit(template.id, look.document.format):
            fix = template.fix({})
            yield Candidate("", fix, (FixPlace((), fix),), forced=True)


def _order(candidate: Candidate) -> tuple[int, float, int]:
    """What a file needs to be read at all, then what pays most."""
    gain = candidate.gain_ms
    loss = -gain if gain is not None else inf
    return candidate.rule not in file_lints(), loss, candidate.severity.rank
