"""What `fix` did as a JSON object. Keys are added, never renamed."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from npuscope.profile.model import Profile

if TYPE_CHECKING:
    from npuscope.advice.fix.numeric import Effect
    from npuscope.advice.fix.step import Fixed, Step

FIX_SCHEMA = "npuscope/fix/1"


def fix_json(fixed: Fixed, output: str | None) -> dict[str, Any]:
    """The object of `npuscope fix --json`; `output` is the file that was written."""
    runtime = fixed.runtime
    return {
        "schema": FIX_SCHEMA,
        "output": output,
        "before": _profile(fixed.before),
        "after": _profile(fixed.after),
        "model_error": fixed.after.model_error,
        "applied": [_step(step) for step in fixed.applied],
        "refused": [_step(step) for step in fixed.refused],
        "numeric": [_effect(effect) for effect in fixed.effects],
        "seeds": fixed.seeds,
        "runtime": runtime
        and {"name": runtime.name, "numeric": [_effect(effect) for effect in runtime.effects]},
    }


def _profile(profile: Profile) -> dict[str, Any]:
    memory = profile.memory
    return {
        "total_ms": profile.total_ms,
        "interval_ms": list(profile.interval_ms),
        "counts": profile.counts,
        "internal_ram_bytes": memory.internal_ram_bytes,
        "external_ram_bytes": memory.external_ram_bytes,
        "weights_bytes": memory.weights_bytes,
    }


def _step(step: Step) -> dict[str, Any]:
    candidate = step.candidate
    return {
        "rule": candidate.rule or None,
        "fix": candidate.fix.id,
        "title": candidate.fix.title,
        "ops": sorted({op for place in candidate.places for op in place.ops}),
        "places": step.places,
        "misfits": list(step.misfits),
        "notes": list(step.notes),
        "reason": step.outcome.reason,
        "before": _profile(step.before),
        "after": _profile(step.after) if step.after else None,
        "saved_ms": step.saved_ms if step.after else None,
        "numeric": [_effect(effect) for effect in step.effects],
    }


def _effect(effect: Effect) -> dict[str, Any]:
    """Infinite differences and ratios have no number in JSON."""
    return {
        "output": effect.output,
        "reference": effect.reference,
        "exact": effect.exact,
        "max_lsb": effect.max_lsb if isfinite(effect.max_lsb) else None,
        "exact_share": effect.exact_share,
        "sqnr_db": effect.sqnr_db if isfinite(effect.sqnr_db) else None,
    }
