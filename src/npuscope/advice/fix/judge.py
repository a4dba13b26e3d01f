"""Whether a fix that was tried helps, and whether an outside runtime takes the fixed file.

A fix helps if the network is faster, does less on the CPU, or loses a hazard at a fair price.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from msgspec import Struct

from npuscope.advice.fix.candidates import Candidate
from npuscope.advice.fix.numeric import OutputEffect
from npuscope.advice.fix.workbench import Look, Opened
from npuscope.rulebook.finding import Finding, Severity
from npuscope.rulebook.registry import file_lints


class Judgement(Struct, frozen=True):
    """Kept or not, and why in a few words."""

    kept: bool
    reason: str


Risks = Callable[[Look], tuple[Finding, ...]]

_NOISE = 0.001  # share of the time below which a change is not a gain
_HAZARD_PRICE = 0.10  # share of the time that a known hazard may cost to avoid
_ROUNDING_LSB = 1.01  # steps are compared as real values
_LEAST_SQNR_DB = 20.0  # below this, the network computes something else
_LEAST_SAME = 0.99  # of the answers on real data, for an edit that changes outputs (a choice)


def judge(
    candidate: Candidate,
    before: Look,
    after: Look,
    effects: tuple[OutputEffect, ...],
    risks: Risks,
) -> Judgement:
    """`risks` gives the findings on a file; it is called only where time does not decide."""
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
    same = min((e.same_answers for e in effects if e.same_answers is not None), default=1.0)
    if candidate.is_lossy and before.network.has_real_data and same < _LEAST_SAME:
        return Judgement(
            False, f"the top score changes at {1 - same:.1%} of the positions in your data"
        )
    return _by_time(candidate, before, after, risks)


def _by_time(
    candidate: Candidate,
    before: Look,
    after: Look,
    risks: Risks,
) -> Judgement:
    change = (after.total_ms - before.total_ms) / max(before.total_ms, 1e-9)
    if change < -_NOISE:
        return Judgement(True, "faster")
    # Predicted times of such layers are lower bounds, so a slower prediction may be faster in
    # truth.
    if after.layers_on_cpu < before.layers_on_cpu:
        return Judgement(True, "layers leave the CPU, where their time was unknown")
    if change <= _NOISE and after.off_npu < before.off_npu:
        return Judgement(True, "fewer epochs on the CPU")
    # Fewer ops with the risk, not none: an edit may fit only some of its places.
    if _count(risks(before), candidate.rule) > _count(risks(after), candidate.rule):
        if is_hazard(candidate) and change <= _HAZARD_PRICE:
            return Judgement(True, "the hazard is gone")
        if change <= 0 and _is_free(before, after):
            return Judgement(True, "simpler at no cost")
    return Judgement(False, "it does not help" if change <= _NOISE else "it is slower")


def _is_free(before: Look, after: Look) -> bool:
    """Neither more weights nor more epochs."""
    old, new = before.profile, after.profile
    grows = new.memory.weights_bytes > old.memory.weights_bytes
    return not grows and len(new.epochs) <= len(old.epochs)


def is_hazard(candidate: Candidate) -> bool:
    """More than a matter of time: wrong results, hangs, tools that stop."""
    return candidate.severity is not Severity.INFO or candidate.rule in file_lints()


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
