"""Explain a run: what all rules find in it, the verdict, and the changes that pay most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import cache
from typing import Any, Protocol

from npuscope.advice.refused import refused_findings
from npuscope.advice.subject import Bench, Subject
from npuscope.families.registry import families
from npuscope.graph.model import Graph, Op
from npuscope.lean_dataclass import dataclass, replace
from npuscope.machine.model import Machine
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.program.model import EpochKind, Program
from npuscope.rulebook.finding import Finding, Findings, Fix, Severity, worst_first
from npuscope.rulebook.fix import FixEffect, FunctionEffect, Gain, GainBasis, at_most
from npuscope.rulebook.registry import Rule, RuleKind, lint_graph, rules, rules_in, themed
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
    for family in families():
        for module in family.rules:
            every |= rules_in(module)
    order = list(RuleKind)
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
_MOST_TRIALS = 5  # compilations spent on changes


@dataclass(frozen=True, slots=True)
class Change:
    """One kind of fix for all findings of a cause; `fix.gain` is that of all places together.
    `cost_ms` is what they take off the NPU: no fix of them saves more."""

    rule: str
    fix: Fix
    ops: tuple[str, ...]
    count: int
    cost_ms: float = 0.0
    places: tuple[tuple[Finding, Fix], ...] = field(default=(), compare=False, repr=False)

    @property
    def key(self) -> ChangeKey:
        return *self.places[0][0].pattern, self.fix.id

    @property
    def gain(self) -> Gain:
        """A bound where nothing better is known: what the ops take. What an option of the tools
        does to them is not known."""
        untouched = self.fix.function is FunctionEffect.UNTOUCHED
        known = self.fix.gain.ms is not None or not self.cost_ms or untouched
        return self.fix.gain if known else replace(at_most(self.cost_ms), elsewhere=self.moves)

    @property
    def moves(self) -> str:
        """What the application does then."""
        return self.fix.gain.elsewhere

    @property
    def gain_ms(self) -> float | None:
        return self.gain.ms

    @property
    def is_lossy_edit(self) -> bool:
        """It was made on a copy of the file, and the network then computes something else."""
        return self.gain.is_timed and self.fix.function is FunctionEffect.CHANGED


ChangeKey = tuple[str, str, str]  # rule, op, fix


@dataclass(frozen=True, slots=True)
class Editing:
    """Which verbs take the source, a model file: `fix` one that can be run and written again,
    `quantize` one without any scales."""

    possible: bool
    quantizable: bool = False


class Trials(Protocol):
    """Makes changes and times the whole network with them."""

    @property
    def editing(self) -> Editing: ...

    def can_try(self, change: Change) -> bool: ...

    def gain(self, change: Change) -> Gain | None:
        """None where the change cannot be made at any of its places."""


class Built(Protocol):
    """What was compiled (api.Build); the network may be unknown."""

    @property
    def graph(self) -> Graph | None: ...
    @property
    def machine(self) -> Machine: ...
    @property
    def program(self) -> Program: ...


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Shown):
    """A verdict with its findings, of a run on a machine of any family."""

    verdict: str
    profile: Profile
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    tried: tuple[Change, ...] = ()  # with their timed gains, the best first
    build: Built | None = field(default=None, compare=False, repr=False)  # what was explained
    editing: Editing | None = None  # None where the source is no model file
    lines: tuple[str, ...] = ()  # of what was explained, in the words of another family
    about: dict[str, Any] = field(default_factory=dict)  # the same as keys of --json

    @property
    def has_problems(self) -> bool:
        return any(finding.is_problem for finding in self.findings)

    def told(self) -> str:
        return self.verdict

    def table(self) -> Rows:
        """One row per finding."""
        return Findings(self.findings).table()


def explain(
    build: Built,
    profile: Profile,
    file_findings: Iterable[Finding] = (),
    bench: Bench | None = None,
    trials: Trials | None = None,
) -> Explanation:
    """All that is known about a run, with what the model file alone shows; a `bench` knows layers
    that were timed before, on the same machine. With `trials` the changes that promise most are
    timed."""
    graph, machine = build.graph, build.machine
    run = advise_run(Subject(build.program, profile, machine, graph, bench or Bench(machine)))
    lint = lint_graph(graph, machine) if graph is not None else ()
    by_origin = _by_origin(profile)
    timed = tuple(with_times(finding, by_origin) for finding in lint)
    findings = merged(run, (*timed, *file_findings))
    findings = tuple(with_moves(finding, graph) for finding in findings)
    tried = try_changes(findings, profile.total_ms, trials) if trials else {}
    findings = worst_first(settled(findings, tried))
    changes = best_changes(findings, profile.total_ms, tried)
    known = tuple(change for change in tried.values() if change is not None)
    told = verdict(build.program, profile, findings)
    editing = trials.editing if trials else None
    return Explanation(told, profile, changes, findings, known, build, editing)


def explanation(
    answer: str,
    profile: Profile,
    findings: Iterable[Finding],
    lines: tuple[str, ...] = (),
    about: dict[str, Any] | None = None,
) -> Explanation:
    """Of a family that knows its findings; gains are those that they bring along."""
    worst = worst_first(findings)
    changes = best_changes(worst, profile.total_ms)
    told = verdict_of(answer, worst)
    return Explanation(told, profile, changes, worst, lines=lines, about=about or {})


_Epochs = dict[str, list[tuple[int, EpochProfile]]]


def _by_origin(profile: Profile) -> _Epochs:
    """Epochs and their places, by the first op that they stand for."""
    found: _Epochs = {}
    for place, epoch in enumerate(profile.epochs):
        for name in epoch.origin[:1]:
            found.setdefault(name, []).append((place, epoch))
    return found


def with_times(finding: Finding, by_origin: _Epochs) -> Finding:
    """A risk with a bound for its fixes that remove ops: the time of the epochs that go."""
    ops = set(finding.ops)
    begun = (found for name in ops for found in by_origin.get(name, ()))
    inside = {place: epoch.ms for place, epoch in begun if ops.issuperset(epoch.origin)}
    gone = [inside[place] for place in sorted(inside)]
    effects = {template.id: template.effect for template in catalogue()[finding.rule].fixes}
    fixes = (
        replace(fix, gain=at_most(sum(gone)))
        if gone and effects[fix.id] is FixEffect.REMOVES
        else fix
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


# --- Changes: gathered from findings, tried, ranked ---

_FEW = 3  # ops that are named one by one


def with_moves(finding: Finding, graph: Graph | None) -> Finding:
    """Fixes that leave work to the application say which."""
    if not any(fix.function is FunctionEffect.MOVED for fix in finding.fixes):
        return finding
    work = f"the application then does {moved_work(graph, finding.ops)}"
    fixes = (
        replace(fix, gain=replace(fix.gain, elsewhere=work))
        if fix.function is FunctionEffect.MOVED
        else fix
        for fix in finding.fixes
    )
    return replace(finding, fixes=tuple(fixes))


def moved_work(graph: Graph | None, names: Iterable[str]) -> str:
    """Ops of the network in words: 'a Softmax over 8,400 x 16 values'."""
    wanted = set(names)
    ops = [op for op in graph.ops if wanted.intersection(op.origin)] if graph is not None else []
    if graph is None or not ops:
        return "this work"
    if len(ops) > _FEW:
        kinds = ", ".join(list(dict.fromkeys(op.kind for op in ops))[:_FEW])
        return f"the work of {len(ops)} ops ({kinds} ...)"
    return " and ".join(f"{_article(op.kind)} over {_values(graph, op)} values" for op in ops)


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "AEIO" else f"a {kind}"


def _values(graph: Graph, op: Op) -> str:
    sizes = [size for size in graph.output_tensor(op).shape if size != 1] or [1]
    return " x ".join(f"{size:,}" for size in sizes)


def changes_of(findings: Iterable[Finding]) -> dict[ChangeKey, Change]:
    """Every fix of every cause, for all findings that offer it."""
    groups: dict[ChangeKey, list[tuple[Finding, Fix]]] = {}
    for finding in findings:
        for fix in finding.fixes:
            groups.setdefault((*finding.pattern, fix.id), []).append((finding, fix))
    return {key: _change(rows) for key, rows in groups.items()}


def _change(rows: list[tuple[Finding, Fix]]) -> Change:
    first, fix = max(rows, key=lambda row: row[1].gain_ms or 0.0)
    gains = [row.gain for _, row in rows if row.gain.ms is not None]
    ops = tuple(dict.fromkeys(op for finding, _ in rows for op in finding.ops))
    if len(rows) > 1 and gains:
        total = sum(gain.ms or 0.0 for gain in gains)
        nothing = all(gain.is_timed and not gain.may_pay for gain in gains)
        basis = GainBasis.TIMED if nothing else GainBasis.BOUND
        fix = replace(fix, gain=Gain(total, basis, fix.gain.elsewhere))
    cost = sum(finding.cost_ms for finding, _ in rows)
    return Change(first.rule, fix, ops, len(rows), cost, tuple(rows))


Tried = dict[ChangeKey, Change | None]  # None: the change cannot be made here


def try_changes(findings: tuple[Finding, ...], total_ms: float, trials: Trials) -> Tried:
    """What promises most is timed first. A timed gain takes the place of its bound, so after a few
    trials the best are known, and what is left promises less."""
    tried: Tried = {}
    every = changes_of(findings)
    for _ in range(_MOST_TRIALS):
        first = best_changes(findings, total_ms, tried)
        waiting = [c for c in first if c.key not in tried and trials.can_try(c)]
        if not waiting:
            break
        change = every[waiting[0].key]
        gain = trials.gain(change)
        kept = None if gain is None else replace(change, fix=replace(change.fix, gain=gain))
        tried[change.key] = kept
    return tried


def settled(findings: Iterable[Finding], tried: Tried) -> Iterator[Finding]:
    """Findings without fixes that cannot be made; a gain that was timed at a single place, or is
    none at all, is theirs."""
    for finding in findings:
        fixes = []
        for fix in finding.fixes:
            key = (*finding.pattern, fix.id)
            change = tried.get(key)
            if change is not None and (change.count == 1 or not change.gain.may_pay):
                fix = replace(fix, gain=change.gain)
            if key not in tried or change is not None:
                fixes.append(fix)
        yield replace(finding, fixes=tuple(fixes))


def best_changes(
    findings: tuple[Finding, ...], total_ms: float, tried: Tried | None = None
) -> tuple[Change, ...]:
    """The three changes that pay most, one per cause; a bound stands for a gain that is not
    known."""
    known = {**changes_of(findings), **(tried or {})}
    offered = [change for change in known.values() if change is not None]
    problems = {finding.rule for finding in findings if finding.is_problem}
    least = _LEAST_SHARE * total_ms
    worth = [change for change in offered if _is_worth_it(change, problems, least)]
    causes: dict[tuple[str, str], Change] = {}
    for change in sorted(worth, key=_preference):
        causes.setdefault(change.places[0][0].pattern, change)
    return tuple(sorted(causes.values(), key=lambda change: -(change.gain_ms or 0.0))[:_BEST])


def _preference(change: Change) -> tuple[bool, int, float]:
    """Within a cause: what was timed, then what leaves most of the network as it is, then what
    may save most."""
    place = list(FunctionEffect).index(change.fix.function)
    return not change.gain.is_timed, place, -(change.gain_ms or 0.0)


def _is_worth_it(change: Change, problems: set[str], least_ms: float) -> bool:
    """A change that saves time or may, or that may remove a problem."""
    if change.gain_ms is not None:
        return change.gain_ms >= least_ms
    return change.rule in problems


def verdict(program: Program, profile: Profile, findings: tuple[Finding, ...]) -> str:
    """The first line: the whole answer in one sentence."""
    return verdict_of(_where(program, profile), findings)


def verdict_of(answer: str, findings: tuple[Finding, ...]) -> str:
    """An answer with the number of findings behind it."""
    if not findings:
        return f"nothing to change: {answer}, and no rule found anything"
    return f"{answer}; {_counted(findings)}"


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
