"""Explain a run: what all rules find in it, the verdict, and the changes that pay most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import cache
from typing import Protocol

from npuscope.advice.refused import refused_findings
from npuscope.advice.subject import Bench, Subject
from npuscope.families import RULES
from npuscope.graph.model import Graph
from npuscope.lean_dataclass import dataclass, replace
from npuscope.machine.model import Machine
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.program.model import EpochKind, Program
from npuscope.rulebook.finding import Finding, Findings, Fix, Severity, worst_first
from npuscope.rulebook.fixes import FixEffect
from npuscope.rulebook.registry import Kind, Rule, lint_graph, rules, themed
from npuscope.shown import Rows, Shown, counted

# --- All rules, and what they find in a run ---

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
    for package, themes in RULES.items():
        every |= themed(package, themes)
    order = list(Kind)
    return dict(sorted(every.items(), key=lambda entry: order.index(entry[1].kind)))


def advise_run(subject: Subject) -> tuple[Finding, ...]:
    """What the rules find in a run: epochs off the NPU and why, then all that slows it down."""
    found = [*refused_findings(subject)]
    for rule in advices().values():
        found += rule.findings(subject.machine, subject)
    return worst_first(found)


# --- The explanation: verdict, changes that pay most, findings ---

_BEST = 3  # changes on the first screen
_LEAST_SHARE = 0.005  # of the time: a smaller gain is not worth a change


@dataclass(frozen=True, slots=True)
class Change:
    """One kind of fix for all findings of a cause; `gain_ms` is their sum, None when unknown.
    `cost_ms` is what they take off the NPU: no fix of them saves more."""

    rule: str
    fix: Fix
    ops: tuple[str, ...]
    count: int
    gain_ms: float | None
    cost_ms: float = 0.0

    @property
    def stake_ms(self) -> float:
        return self.cost_ms if self.gain_ms is None else self.gain_ms


class Built(Protocol):
    """What was compiled (api.Build); the network may be unknown."""

    @property
    def graph(self) -> Graph | None: ...
    @property
    def machine(self) -> Machine: ...
    @property
    def program(self) -> Program: ...


class Explained(Shown):
    """A verdict and findings, of a run on any family of machines."""

    __slots__ = ()
    verdict: str
    findings: tuple[Finding, ...]

    @property
    def has_problems(self) -> bool:
        return any(finding.is_problem for finding in self.findings)

    def told(self) -> str:
        return self.verdict

    def table(self) -> Rows:
        """One row per finding."""
        return Findings(self.findings).table()


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Explained):
    verdict: str
    profile: Profile
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    build: Built | None = field(default=None, compare=False, repr=False)  # what was explained


def explain(
    build: Built,
    profile: Profile,
    file_findings: Iterable[Finding] = (),
    bench: Bench | None = None,
) -> Explanation:
    """All that is known about a run, with what the model file alone shows; a `bench` knows layers
    that were timed before, on the same machine."""
    graph, machine = build.graph, build.machine
    run = advise_run(Subject(build.program, profile, machine, graph, bench or Bench(machine)))
    lint = lint_graph(graph, machine) if graph is not None else ()
    by_origin = _by_origin(profile)
    timed = tuple(with_times(finding, by_origin) for finding in lint)
    findings = merged(run, (*timed, *file_findings))
    changes = best_changes(findings, profile.total_ms)
    told = verdict(build.program, profile, findings)
    return Explanation(told, profile, changes, findings, build)


_Epochs = dict[str, list[tuple[int, EpochProfile]]]


def _by_origin(profile: Profile) -> _Epochs:
    """Epochs and their places, by the first op that they stand for."""
    found: _Epochs = {}
    for place, epoch in enumerate(profile.epochs):
        for name in epoch.origin[:1]:
            found.setdefault(name, []).append((place, epoch))
    return found


def with_times(finding: Finding, by_origin: _Epochs) -> Finding:
    """A risk with the gain of its fixes that remove ops: the time of the epochs that go."""
    ops = set(finding.ops)
    begun = (found for name in ops for found in by_origin.get(name, ()))
    inside = {place: epoch.ms for place, epoch in begun if ops.issuperset(epoch.origin)}
    gone = [inside[place] for place in sorted(inside)]
    effects = {template.id: template.effect for template in catalogue()[finding.rule].fixes}
    fixes = (
        replace(fix, gain_ms=sum(gone)) if gone and effects[fix.id] is FixEffect.REMOVES else fix
        for fix in finding.fixes
    )
    return replace(finding, fixes=tuple(fixes))


def merged(run: tuple[Finding, ...], lint: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Both kinds together; a risk that a run confirms is reported once, by the run unless the risk
    sees more of it."""
    kept = list(run)
    places: dict[tuple[str, str], list[Finding]] = {}
    for finding in run:
        for op in finding.ops:
            places.setdefault((finding.rule, op), []).append(finding)
    for risk in lint:
        twins = [t for key in _twin_keys(risk) for t in places.get(key, ())]
        if risk.stake_ms > sum({id(t): t.stake_ms for t in twins}.values()):
            kept = [finding for finding in kept if all(finding is not t for t in twins)]
            kept.append(risk)
        elif not twins:
            kept.append(risk)
    return worst_first(kept)


def _twin_keys(risk: Finding) -> list[tuple[str, str]]:
    return [(twin, op) for twin in catalogue()[risk.rule].twins for op in risk.ops]


def best_changes(findings: tuple[Finding, ...], total_ms: float) -> tuple[Change, ...]:
    """The three changes that pay most. Where a gain is not known the cost stands for it."""
    groups: dict[tuple[str, str, str], list[tuple[Finding, Fix]]] = {}
    for finding in findings:
        for fix in _best_fix(finding):
            groups.setdefault((*finding.pattern, fix.id), []).append((finding, fix))
    changes = [_change(rows) for rows in groups.values()]
    least = _LEAST_SHARE * total_ms
    worth = [change for change in changes if _is_worth_it(change, findings, least)]
    return tuple(sorted(worth, key=lambda change: -change.stake_ms)[:_BEST])


def _best_fix(finding: Finding) -> list[Fix]:
    """One fix per finding: the one with the largest gain, or the first."""
    return sorted(finding.fixes, key=lambda fix: -(fix.gain_ms or 0.0))[:1]


def _is_worth_it(change: Change, findings: tuple[Finding, ...], least_ms: float) -> bool:
    """A change that is known to save time, or that may remove a problem."""
    if change.gain_ms is not None or change.cost_ms:
        return change.stake_ms >= least_ms
    return any(f.is_problem for f in findings if f.rule == change.rule)


def _change(rows: list[tuple[Finding, Fix]]) -> Change:
    first, fix = max(rows, key=lambda row: row[1].gain_ms or 0.0)
    gains = [row.gain_ms for _, row in rows if row.gain_ms is not None]
    ops = tuple(dict.fromkeys(op for finding, _ in rows for op in finding.ops))
    total = sum(gains) if gains else None
    cost = sum(finding.cost_ms for finding, _ in rows)
    return Change(first.rule, replace(fix, gain_ms=total), ops, len(rows), total, cost)


def verdict(program: Program, profile: Profile, findings: tuple[Finding, ...]) -> str:
    """The first line: the whole answer in one sentence."""
    where = _where(program, profile)
    if not findings:
        return f"nothing to change: {where}, and no rule found anything"
    return f"{where}; {_counted(findings)}"


def _where(program: Program, profile: Profile) -> str:
    """How much of the network runs where."""
    epochs = len(program.executed)
    away = program.count(EpochKind.SW) + program.count(EpochKind.HYBRID)
    if not away:
        where = "the only epoch runs" if epochs == 1 else f"all {epochs} epochs run"
        return f"{where} on the NPU, in {profile.total_ms:.3g} ms"
    lost = profile.time.software_ms + profile.time.hybrid_ms
    if profile.is_lower_bound:
        kinds = ", ".join(dict.fromkeys(profile.unknown_ops))
        least = f"the whole takes at least {profile.total_ms:.3g} ms"
        return (
            f"{away} of {epochs} epochs leave the NPU, {len(profile.unknown_ops)} of unknown cost "
            f"({kinds}); {'its time is not known' if profile.is_mostly_unknown else least}"
        )
    share = lost / profile.total_ms if profile.total_ms else 0.0
    leave, take = ("leaves", "takes") if away == 1 else ("leave", "take")
    return (
        f"{away} of {counted(epochs, 'epoch')} {leave} the NPU and {take} {lost:.3g} of "
        f"{profile.total_ms:.3g} ms ({share:.0%})"
    )


def _counted(findings: tuple[Finding, ...]) -> str:
    names = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    counts = {name: sum(f.severity is s for f in findings) for s, name in names.items()}
    return ", ".join(counted(n, name) for name, n in counts.items() if n)
