"""What `fix` did, as text and as JSON: the gain first, then each step with its price in numbers."""

from __future__ import annotations

from math import inf, isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from npuscope.profiling.model import Profile
from npuscope.report.figures import how_sure, machine_line, model_line, ms, shorten
from npuscope.rulebook.fix import FunctionEffect
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from npuscope.advice.fix.numeric import InputData, OutputEffect
    from npuscope.advice.fix.run import Fixed, FixStep
    from npuscope.profiling.validate import Validation


# --- JSON; keys are added, never renamed ---

FIX_SCHEMA = "npuscope/fix/1"


def fix_json(fixed: Fixed, output: str | None = None) -> dict[str, Any]:
    """The object of `npuscope fix --json`; `output` is the file that was written."""
    runtime = fixed.runtime
    return {
        "schema": FIX_SCHEMA,
        "output": output,
        "changed": fixed.changed,
        "external_data_inside": fixed.inlined,
        "before": _profile(fixed.before),
        "after": _profile(fixed.after),
        "model_error": fixed.after.model_error,
        "applied": [_step(step) for step in fixed.applied],
        "refused": [_step(step) for step in fixed.refused],
        "numeric": [_effect(effect) for effect in fixed.effects],
        "seeds": len(fixed.inputs.samples),
        "inputs": {"told": fixed.inputs.told, "real": fixed.inputs.is_real},
        "lossy": fixed.is_lossy,
        "runtime": runtime
        and {
            "name": runtime.name,
            "opens": runtime.opens,
            "runs": runtime.runs,
            "numeric": [_effect(effect) for effect in runtime.effects],
        },
        **({"interrupted": True} if fixed.interrupted else {}),
        **({"validation": _verified(fixed.validation)} if fixed.validation else {}),
    }


def _verified(validation: Validation) -> dict[str, Any]:
    return {"verdict": validation.verdict.value, "sentence": validation.sentence}


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


def _step(step: FixStep) -> dict[str, Any]:
    candidate = step.candidate
    return {
        "rule": candidate.rule or None,
        "fix": candidate.fix.id,
        "function": candidate.fix.function.value,
        "title": candidate.fix.title,
        "ops": sorted({op for place in candidate.places for op in place.ops}),
        "places": step.places,
        "misfits": list(step.misfits),
        "notes": list(step.notes),
        "reason": step.outcome.reason,
        "before": _profile(step.before),
        "after": _profile(step.after) if step.after else None,
        "saved_ms": step.saved_ms if step.after else None,
        "left_ms": candidate.left_ms,
        "numeric": [_effect(effect) for effect in step.effects],
    }


def _effect(effect: OutputEffect) -> dict[str, Any]:
    """Infinite differences and ratios have no number in JSON."""
    return {
        "output": effect.output,
        "reference": effect.reference,
        "exact": effect.exact,
        "max_lsb": effect.max_lsb if isfinite(effect.max_lsb) else None,
        "exact_share": effect.exact_share,
        "same_answers": effect.same_answers,
        "sqnr_db": effect.sqnr_db if isfinite(effect.sqnr_db) else None,
    }


# --- Text ---

_NOTE = 160  # characters of a note
_LEAST_SAVING = 0.0005  # ms; less is shown as 0.000


def fix_text(fixed: Fixed, *, every: bool = False, output: str | None = None) -> str:
    """`every` also lists where a fix could not be made; `output` is the file that was written."""
    lines = [
        answer(fixed),
        *_applied(fixed.applied, every),
        *_refused(fixed.refused, every),
        *_effect_lines(fixed),
        *([f"checked  {safe_terminal(runtime_words(fixed))}"] if fixed.changed else []),
        *([f"executed {safe_terminal(fixed.validation.sentence)}"] if fixed.validation else []),
        model_line(fixed.after),
        machine_line(fixed.after),
        f"times    {how_sure(fixed.after)}",
        *_file_line(fixed, output),
    ]
    return "\n".join(lines) + "\n"


def _file_line(fixed: Fixed, output: str | None) -> list[str]:
    if output:
        inside = "; external data is included" if fixed.inlined else ""
        unchanged = "" if fixed.applied else ", a copy of the model: nothing was changed"
        return [f"file     {safe_terminal(output)}{unchanged}{inside}"]
    return ["file     none: -o FIXED writes the fixed model"] if fixed.applied else []


def answer(fixed: Fixed) -> str:
    """The first line: the gain, and what it does to the outputs."""
    if not fixed.applied:
        number = len(fixed.steps)
        outcome = f"no edit helps, {number} tried" if number else "no automatic edit applies"
        option, saving = max(fixed.on_request.items(), key=itemgetter(1), default=("", 0.0))
        if saving >= _LEAST_SAVING:
            outcome += f"; {option} would save at most {ms(saving)} ms"
        return f"{outcome}; {ms(fixed.before.total_ms)} ms"
    left_ms = sum(step.candidate.left_ms for step in fixed.applied)
    rest = f"; the part left to the application took {ms(left_ms)} ms here" if left_ms else ""
    runtime = fixed.runtime
    checked = not fixed.changed or (runtime is not None and runtime.runs)
    alone = "" if checked else " (not checked by an outside runtime)"
    outputs = f"{effect_words(fixed.effects, fixed.inputs, fixed.function)}{alone}"
    slower = fixed.after.total_ms > fixed.before.total_ms
    forced = "slower, and made because it was asked for: " if slower else ""
    outcome = f"{forced}{change(fixed.before, fixed.after)}"
    return f"{outcome}; outputs {outputs}{_elsewhere(fixed)}{rest}"


def _elsewhere(fixed: Fixed) -> str:
    """Where the outside runtime does not confirm that outputs are equal."""
    runtime = fixed.runtime
    if runtime is None or not all(effect.exact for effect in fixed.effects):
        return ""
    if all(effect.exact for effect in runtime.effects):
        return ""
    return f"; in {runtime.name} they {effect_words(runtime.effects)}"


def change(before: Profile, after: Profile) -> str:
    """Times and what runs on the CPU, before and after."""
    share = (after.total_ms - before.total_ms) / before.total_ms if before.total_ms else 0.0
    text = f"{ms(before.total_ms)} -> {ms(after.total_ms)} ms ({share:+.0%})"
    for kind in ("SW", "HYBRID"):
        old, new = before.counts.get(kind, 0), after.counts.get(kind, 0)
        if old or new:
            text += f", {kind} epochs {old} -> {new}"
    return text


def effect_words(
    effects: Iterable[OutputEffect],
    inputs: InputData | None = None,
    function: FunctionEffect = FunctionEffect.EXACT,
) -> str:
    """The worst of all outputs in a few words. That a few inputs give the same says nothing of
    others, unless the edit keeps every bit; random ones prove nothing of one that changes
    outputs."""
    comparable = [effect for effect in effects if effect.reference is not None]
    on = f" on {safe_terminal(inputs.told)}" if inputs else ""
    if not comparable:
        return "cannot be compared"
    lossy = function is FunctionEffect.CHANGED
    unproven = lossy and not (inputs and inputs.is_real)
    advice = ", which says little about real ones: check with --data" if unproven else ""
    if all(effect.exact for effect in comparable):
        words = "exactly equal" if function is FunctionEffect.EXACT else "do not differ"
        return f"{words}{on}{advice}"
    worst = min(comparable, key=lambda effect: effect.sqnr_db)
    same = min((e.same_answers for e in comparable if e.same_answers is not None), default=1.0)
    top = f", the top score changes at {1 - same:.2%} of the positions" if same < 1 else ""
    differ = (
        f"differ by up to {max(e.max_lsb for e in comparable):g} LSB, SQNR {_db(worst.sqnr_db)}"
    )
    return f"{differ}{top}{on}{advice}"


def _db(value: float) -> str:
    return "infinite" if value == inf else f"{value:.1f} dB"


def _applied(steps: tuple[FixStep, ...], every: bool) -> list[str]:
    lines = ["applied"] if steps else []
    for number, step in enumerate(steps, 1):
        after, outputs = step.after or step.before, step_outputs(step)
        # What the application has to do; converters write names of several lines.
        notes = [safe_terminal(note) for note in step.notes]
        lines += [
            f"  {number}. {_title(step)}",
            f"     {change(step.before, after)}{outputs and f'; outputs {outputs}'} "
            f"({step.outcome.reason})",
            *[f"     {note if every else shorten(note, _NOTE)}" for note in notes],
            *_misfits(step, every),
        ]
    return lines


def step_outputs(step: FixStep) -> str:
    """What became of the outputs; empty where they were not compared."""
    return effect_words(step.effects, function=step.candidate.fix.function) if step.effects else ""


def _refused(steps: tuple[FixStep, ...], every: bool) -> list[str]:
    steps_shown = [
        step
        for step in steps
        # A request for the whole network that found nothing to do is not reported.
        if every or step.candidate.rule or step.candidate.notes or step.after is not None
    ]
    lines = ["refused"] if steps_shown else []
    for step in steps_shown:
        times = f" ({change(step.before, step.after)})" if step.after else ""
        lines.append(f"  - {_title(step)}")
        lines.append(f"     {safe_terminal(step.outcome.reason)}{times}")
        lines += _misfits(step, every) if step.after else []
    return lines


def _title(step: FixStep) -> str:
    places = f" (and {step.places - 1} more)" if step.places > 1 else ""
    rule = f" [{step.candidate.rule}]" if step.candidate.rule else ""
    return f"{safe_terminal(step.candidate.fix.title)}{places}{rule}"


def _misfits(step: FixStep, every: bool) -> list[str]:
    if not step.misfits:
        return []
    if not every:
        return [f"     not possible at {len(step.misfits)} more: {safe_terminal(step.misfits[0])}"]
    return [f"     not possible: {safe_terminal(misfit)}" for misfit in step.misfits]


def _effect_lines(fixed: Fixed) -> list[str]:
    """One line per output, where they are not all equal."""
    if not fixed.applied or all(effect.exact for effect in fixed.effects):
        return []
    lines = [f"outputs  against the original, {safe_terminal(fixed.inputs.told)}"]
    for effect in fixed.effects:
        name = safe_terminal(effect.output)
        if effect.reference is None:
            lines.append(f"  {name}: new, cannot be compared")
        else:
            share = f"{effect.exact_share:.1%} equal"
            lines.append(
                f"  {name}: max {effect.max_lsb:g} LSB, {share}, SQNR {_db(effect.sqnr_db)}"
            )
    return lines


def runtime_words(fixed: Fixed) -> str:
    """What an outside runtime says of the fixed file."""
    runtime = fixed.runtime
    if not fixed.changed:
        return "the file is not changed"
    if runtime is None:
        return "no runtime to check with (pip install 'npuscope[reference]')"
    if runtime.runs:
        same = (
            f"outputs {effect_words(runtime.effects, function=fixed.function)} there"
            if runtime.effects
            else ""
        )
        return f"opens and runs in {runtime.name}; {same or 'its outputs are new'}"
    if runtime.opens:
        return f"opens in {runtime.name}, which can run neither it nor the original"
    return f"not checked: {runtime.name} does not open the original either"
