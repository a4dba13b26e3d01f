"""Whether a fix that was tried helps, and whether an outside runtime takes the fixed file.

A fix helps if it makes the network faster by more than predictions of two programs can be told
apart, or takes a hazard away at no cost. Answers stay what they were, unless that was asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import hypot, inf

from msgspec import Struct

from npuscope.advice.fix.candidates import Candidate
from npuscope.advice.fix.numeric import OutputEffect
from npuscope.advice.fix.workbench import Look, Opened
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.rulebook.finding import Finding, Severity
from npuscope.rulebook.fix import FunctionEffect
from npuscope.rulebook.registry import file_lints


class Judgement(Struct, frozen=True):
    """Kept or not, and why in a few words."""

    kept: bool
    reason: str


Risks = Callable[[Look], tuple[Finding, ...]]

_NOISE = 0.001  # share of the time below which a change is not one
_ROUNDING_LSB = 1.01  # steps are compared as real values
_SAME_SQNR_DB = 40.0  # what rounding of single steps leaves of int8 outputs that fill their range
_LEAST_SQNR_DB = 20.0  # below this, the network computes something else
_LEAST_SAME = 0.99  # of the answers (a choice)


def judge(
    candidate: Candidate,
    before: Look,
    after: Look,
    effects: tuple[OutputEffect, ...],
    risks: Risks,
    whole: tuple[OutputEffect, ...] | None = None,
) -> Judgement:
    """`risks` gives the findings on a file; it is called only where time does not decide. `whole`
    are the effects of all edits so far, where this is not the first one."""
    if candidate.forced:
        return Judgement(True, "asked for")
    # Before time is looked at: the cost of external RAM depends on placement and is predicted least
    # well.
    old, new = before.profile.memory, after.profile.memory
    if new.external_ram_bytes > old.external_ram_bytes:
        return Judgement(False, "it needs more external RAM: --only applies it")
    worst = _furthest_db(effects)
    if worst < _LEAST_SQNR_DB:
        # With what to hold it against: some networks are numerically sensitive by themselves.
        return Judgement(
            False,
            f"the results differ too much (SQNR {worst:.0f} dB; one step more in every 256th "
            f"input value gives {before.network.unrest_db:.0f} dB): --only applies it",
        )
    same = _same_answers(effects)
    if candidate.is_lossy and before.network.has_real_data and same < _LEAST_SAME:
        return Judgement(
            False, f"the top score changes at {1 - same:.1%} of the positions in your data"
        )
    changed = "" if candidate.may_change else _changed_answers(effects if whole is None else whole)
    if changed:
        return Judgement(False, f"answers change, {changed}: --lossy allows it")
    return _by_time(candidate, before, after, risks)


def _changed_answers(effects: tuple[OutputEffect, ...]) -> str:
    """How, in words; empty where outputs are what they were but for the rounding of steps."""
    same, worst = _same_answers(effects), _furthest_db(effects)
    if same < _LEAST_SAME:
        return f"the top score at {1 - same:.1%} of the positions"
    return f"SQNR {worst:.0f} dB" if worst < _SAME_SQNR_DB else ""


def _same_answers(effects: tuple[OutputEffect, ...]) -> float:
    return min((e.same_answers for e in effects if e.same_answers is not None), default=1.0)


def _by_time(
    candidate: Candidate,
    before: Look,
    after: Look,
    risks: Risks,
) -> Judgement:
    gain = before.total_ms - after.total_ms
    resolved = resolution_ms(before.profile, after.profile)
    if gain > max(resolved, _NOISE * before.total_ms):
        return Judgement(True, "faster")
    # Such times are guesses, so a prediction that is a little slower says nothing.
    if after.layers_on_cpu < before.layers_on_cpu and gain >= -resolved:
        return Judgement(True, "layers leave the CPU, where their time was unknown")
    if gain < -_NOISE * before.total_ms:
        return Judgement(False, "it is slower")
    # Fewer ops with the risk, not none: an edit may fit only some of its places.
    if _count(risks(before), candidate.rule) > _count(risks(after), candidate.rule):
        if is_hazard(candidate):
            return Judgement(True, "the hazard is gone")
        if gain >= 0 and _is_free(before, after) and candidate.fix.function is FunctionEffect.EXACT:
            return Judgement(True, "simpler at no cost")
    if gain > 0:
        text = f"it saves {gain:.3f} ms, and less than {resolved:.3f} ms is within the error"
        return Judgement(False, f"{text} of the two predictions")
    return Judgement(False, "it does not help")


def resolution_ms(before: Profile, after: Profile) -> float:
    """The smallest gain that predictions of two programs of one network show: epochs that are in
    both are off by the same, the others by their known error, each program's on its own."""
    old, new = (Counter(map(_work, profile.epochs)) for profile in (before, after))
    parts = ((before, old - new), (after, new - old))
    errors = (_share_of_error(p) * sum(w[-1] * n for w, n in only.items()) for p, only in parts)
    return hypot(*errors)


def _work(epoch: EpochProfile) -> tuple[str, tuple[str, ...], float]:
    return epoch.kind.value, epoch.operators, round(epoch.ms, 6)


def _share_of_error(profile: Profile) -> float:
    low = profile.interval_ms[0]
    return 1 - low / profile.total_ms if profile.total_ms else 0.0


def _is_free(before: Look, after: Look) -> bool:
    """Neither more weights nor more epochs."""
    old, new = before.profile, after.profile
    grows = new.memory.weights_bytes > old.memory.weights_bytes
    return not grows and len(new.epochs) <= len(old.epochs)


def is_hazard(candidate: Candidate) -> bool:
    """More than a matter of time: tools that stop, and other risks where the cure is exact."""
    if candidate.severity is Severity.ERROR or candidate.rule in file_lints():
        return True
    exact = candidate.fix.function is FunctionEffect.EXACT
    return exact and candidate.severity is Severity.WARNING


def _count(findings: tuple[Finding, ...], rule: str) -> int:
    """Ops that a rule complains about; some rules report all of them in one finding."""
    return sum(max(1, len(finding.ops)) for finding in findings if finding.rule == rule)


def runtime_fault(runtime: Opened, effects: tuple[OutputEffect, ...]) -> str:
    """Why the fixed file is not what the original is there; empty where it is."""
    if runtime.is_worse:
        return f"{runtime.name} accepts the original but rejects the fixed file"
    here, there = _furthest_db(effects), _furthest_db(runtime.effects)
    if there < _LEAST_SQNR_DB <= here:
        return (
            f"{runtime.name} computes different outputs from the fixed file (SQNR {there:.0f} "
            "dB), and its arithmetic does not explain why"
        )
    return ""


def _furthest_db(effects: tuple[OutputEffect, ...]) -> float:
    """Of the outputs; one step is what rounding may turn, and of a small output that says little
    in decibels."""
    return min(
        (effect.sqnr_db for effect in effects if effect.max_lsb > _ROUNDING_LSB), default=inf
    )
