"""Does a fix help? Faster, less on the CPU, or a hazard gone at a fair price."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from npuscope.advice.fix.candidates import Candidate
from npuscope.advice.fix.numeric import Effect
from npuscope.advice.fix.step import Outcome
from npuscope.advice.fix.workbench import Look
from npuscope.profile.model import Profile
from npuscope.rules.finding import Finding, Severity
from npuscope.rules.registry import file_lints

Risks = Callable[[Look], tuple[Finding, ...]]

_NOISE = 0.001  # share of the time that is no gain
_HAZARD_PRICE = 0.10  # share of the time that a known hazard may cost to avoid
_LEAST_SQNR_DB = 20.0  # below, the network is another one


def judge(
    candidate: Candidate,
    before: Look,
    after: Look,
    effects: tuple[Effect, ...],
    risks: Risks,
) -> Outcome:
    """`risks` tells the findings on a file; it is asked only where time does not decide."""
    if candidate.forced:
        return Outcome(True, "asked for")
    if _spills(before.profile, after.profile):
        return Outcome(False, "it needs more external RAM")
    worst = min((effect.sqnr_db for effect in effects), default=inf)
    if worst < _LEAST_SQNR_DB:
        return Outcome(False, _too_far(worst, before.network.unrest_db))
    return _by_time(candidate, before, after, risks)


def _too_far(found_db: float, unrest_db: float) -> str:
    """With what to hold it against: some networks are restless by themselves."""
    return (
        f"the results differ too much (SQNR {found_db:.0f} dB; one step more in every 256th input "
        f"value gives {unrest_db:.0f} dB): --only applies it"
    )


def _by_time(
    candidate: Candidate,
    before: Look,
    after: Look,
    risks: Risks,
) -> Outcome:
    change = (after.total_ms - before.total_ms) / max(before.total_ms, 1e-9)
    if change < -_NOISE:
        return Outcome(True, "faster")
    if after.layers_on_cpu < before.layers_on_cpu:
        return Outcome(True, "layers leave the CPU, whose time there is not known")
    if change <= _NOISE and after.off_npu < before.off_npu:
        return Outcome(True, "fewer epochs on the CPU")
    if _count(risks(before), candidate.rule) > _count(risks(after), candidate.rule):
        if is_hazard(candidate) and change <= _HAZARD_PRICE:
            return Outcome(True, "the hazard is gone")
        if change <= 0 and _is_free(before, after):
            return Outcome(True, "simpler at no cost")
    return Outcome(False, "it does not help" if change <= _NOISE else "it is slower")


def _is_free(before: Look, after: Look) -> bool:
    """Neither more weights nor more epochs."""
    old, new = before.profile, after.profile
    grows = new.memory.weights_bytes > old.memory.weights_bytes
    return not grows and len(new.epochs) <= len(old.epochs)


def is_hazard(candidate: Candidate) -> bool:
    """More than a matter of time: wrong results, hangs, tools that stop."""
    return candidate.severity is not Severity.INFO or candidate.rule in file_lints()


def _count(findings: tuple[Finding, ...], rule: str) -> int:
    """Ops that a rule complains of; some rules tell all of them in one finding."""
    return sum(max(1, len(finding.ops)) for finding in findings if finding.rule == rule)


def _spills(before: Profile, after: Profile) -> bool:
    return after.memory.external_ram_bytes > before.memory.external_ram_bytes
