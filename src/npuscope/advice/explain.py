"""Explain a run: what all rules find in it, the verdict, and the changes that pay most."""

from __future__ import annotations

from collections.abc import Iterable

from npuscope.advice.catalogue import advices, catalogue
from npuscope.advice.changes import Trials, best_changes, settled, try_changes, with_moves
from npuscope.advice.explanation import Built, Explanation, verdict_of
from npuscope.advice.refused import refused_findings
from npuscope.advice.subject import Bench, Subject
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.program.model import EpochKind, Program
from npuscope.rulebook.finding import Finding, worst_first
from npuscope.rulebook.fix import FixEffect, at_most
from npuscope.rulebook.registry import lint_graph
from npuscope.shown import counted, significant
from npuscope.structs import replace


def advise_run(subject: Subject) -> tuple[Finding, ...]:
    """What the rules find in a run: epochs off the NPU and why, then all that slows it down."""
    findings = [*refused_findings(subject)]
    for rule in advices().values():
        findings += rule.findings(subject.machine, subject)
    return worst_first(findings, subject.profile.total_ms)


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
    # Epochs and their places, by the first op that they stand for.
    by_origin: _Epochs = {}
    for place, epoch in enumerate(profile.epochs):
        for name in epoch.origin[:1]:
            by_origin.setdefault(name, []).append((place, epoch))
    timed = tuple(with_times(finding, by_origin) for finding in lint)
    findings = merged(run, (*timed, *file_findings), profile.total_ms)
    findings = tuple(with_moves(finding, graph) for finding in findings)
    tried = try_changes(findings, profile.total_ms, trials) if trials else {}
    findings = worst_first(settled(findings, tried), profile.total_ms)
    changes = best_changes(findings, profile.total_ms, tried)
    timed_changes = tuple(change for change in tried.values() if change is not None)
    sentence = verdict(build.program, profile, findings)
    editing = trials.editing if trials else None
    return Explanation(sentence, profile, changes, findings, timed_changes, build, editing)


_Epochs = dict[str, list[tuple[int, EpochProfile]]]


def with_times(finding: Finding, by_origin: _Epochs) -> Finding:
    """A risk with a bound for its fixes that remove ops: the time of the epochs that go."""
    ops = set(finding.ops)
    begun = (entry for name in ops for entry in by_origin.get(name, ()))
    inside = {place: epoch.ms for place, epoch in begun if ops.issuperset(epoch.origin)}
    times = [inside[place] for place in sorted(inside)]
    effects = {template.id: template.effect for template in catalogue()[finding.rule].fixes}
    fixes = (
        replace(fix, gain=at_most(sum(times)))
        if times and effects[fix.id] is FixEffect.REMOVES
        else fix
        for fix in finding.fixes
    )
    return replace(finding, fixes=tuple(fixes))


def merged(
    run: tuple[Finding, ...], lint: tuple[Finding, ...], total_ms: float
) -> tuple[Finding, ...]:
    """Both kinds together; a risk that a run confirms is reported once, by the run unless the risk
    sees more of it."""
    findings = list(run)
    places: dict[tuple[str, str], list[Finding]] = {}
    for finding in run:
        for op in finding.ops:
            places.setdefault((finding.rule, op), []).append(finding)
    for risk in lint:
        twins = [
            t
            for rule in catalogue()[risk.rule].twins
            for op in risk.ops
            for t in places.get((rule, op), ())
        ]
        if risk.stake_ms > sum({id(t): t.stake_ms for t in twins}.values()):
            findings = [finding for finding in findings if all(finding is not t for t in twins)]
            findings.append(risk)
        elif not twins:
            findings.append(risk)
    return worst_first(findings, total_ms)


def verdict(program: Program, profile: Profile, findings: tuple[Finding, ...]) -> str:
    """The first line: the whole answer in one sentence."""
    stopped = f"{profile.stopped}; without that: " if profile.stops else ""
    return verdict_of(f"{stopped}{_where(program, profile)}", findings)


def _where(program: Program, profile: Profile) -> str:
    """How much of the network runs where."""
    epochs = sum(program.tally.values())
    away = program.count(EpochKind.SW) + program.count(EpochKind.HYBRID)
    if not program.executed:
        return "nothing to compute: the network hands its inputs on, and no epoch is compiled"
    if not away:
        where = "the only epoch runs" if epochs == 1 else f"all {epochs} epochs run"
        return f"{where} on the NPU, in {significant(profile.total_ms, 3)} ms"
    lost = profile.time.software_ms + profile.time.hybrid_ms
    if profile.is_lower_bound:
        kinds = ", ".join(dict.fromkeys(profile.unknown_ops))
        least = f"the network takes at least {significant(profile.total_ms, 3)} ms"
        return (
            f"{away} of {epochs} epochs leave the NPU, {len(profile.unknown_ops)} of unknown "
            f"cost ({kinds}); {'its time is unknown' if profile.is_mostly_unknown else least}"
        )
    share = lost / profile.total_ms if profile.total_ms else 0.0
    leave, take = ("leaves", "takes") if away == 1 else ("leave", "take")
    return (
        f"{away} of {counted(epochs, 'epoch')} {leave} the NPU and {take} "
        f"{significant(lost, 3)} of {significant(profile.total_ms, 3)} ms ({share:.0%})"
    )
