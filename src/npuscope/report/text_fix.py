"""What `fix` did, as text: the gain first, then each step with its price in numbers."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from npuscope.profile.model import Profile
from npuscope.report.header import machine_line, model_line
from npuscope.report.numbers import ms, shorten
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from npuscope.advice.fix.numeric import Effect
    from npuscope.advice.fix.step import Fixed, Step

_NOTE = 160  # characters of a note


def fix_text(fixed: Fixed, *, every: bool = False) -> str:
    """`every` also lists where a fix could not be made."""
    lines = [
        _answer(fixed),
        *_applied(fixed.applied, every),
        *_refused(fixed.refused, every),
        *_effect_lines(fixed),
        *_runtime_line(fixed),
        model_line(fixed.after),
        machine_line(fixed.after),
        f"times    predicted, known error: {fixed.after.model_error}",
    ]
    return "\n".join(lines) + "\n"


def _answer(fixed: Fixed) -> str:
    if not fixed.applied:
        tried = f"{len(fixed.steps)} tried, none helps" if fixed.steps else "no edit applies"
        return f"nothing to fix: {tried}; {ms(fixed.before.total_ms)} ms"
    return f"{change(fixed.before, fixed.after)}; outputs {effect_words(fixed.effects)}"


def change(before: Profile, after: Profile) -> str:
    """Times and what runs on the CPU, before and after."""
    share = (after.total_ms - before.total_ms) / before.total_ms if before.total_ms else 0.0
    text = f"{ms(before.total_ms)} -> {ms(after.total_ms)} ms ({share:+.0%})"
    for kind in ("SW", "HYBRID"):
        if before.counts[kind] or after.counts[kind]:
            text += f", {kind} epochs {before.counts[kind]} -> {after.counts[kind]}"
    return text


def effect_words(effects: Iterable[Effect]) -> str:
    """The worst of all outputs in a few words."""
    known = [effect for effect in effects if effect.reference is not None]
    if not known:
        return "have nothing to be compared with"
    if all(effect.exact for effect in known):
        return "exactly equal"
    worst = min(known, key=lambda effect: effect.sqnr_db)
    return f"differ by up to {max(e.max_lsb for e in known):g} LSB, SQNR {_db(worst.sqnr_db)}"


def _db(value: float) -> str:
    return "infinite" if value == inf else f"{value:.1f} dB"


def _applied(steps: tuple[Step, ...], every: bool) -> list[str]:
    lines = ["applied"] if steps else []
    for number, step in enumerate(steps, 1):
        after = step.after or step.before
        lines += [
            f"  {number}. {_title(step)}",
            f"     {change(step.before, after)}{_effect(step)} ({step.outcome.reason})",
            *_notes(step, every),
            *_misfits(step, every),
        ]
    return lines


def _notes(step: Step, every: bool) -> list[str]:
    """What the application has to do; converters write names of several lines."""
    notes = [safe_terminal(note) for note in step.notes]
    return [f"     {note if every else shorten(note, _NOTE)}" for note in notes]


def _effect(step: Step) -> str:
    return f"; outputs {effect_words(step.effects)}" if step.effects else ""


def _refused(steps: tuple[Step, ...], every: bool) -> list[str]:
    shown = [step for step in steps if every or _tells(step)]
    lines = ["refused"] if shown else []
    for step in shown:
        times = f" ({change(step.before, step.after)})" if step.after else ""
        lines.append(f"  - {_title(step)}")
        lines.append(f"     {safe_terminal(step.outcome.reason)}{times}")
        lines += _misfits(step, every) if step.after else []
    return lines


def _tells(step: Step) -> bool:
    """A wish for the whole network that found nothing to do is no news."""
    return bool(step.candidate.rule or step.candidate.notes) or step.after is not None


def _title(step: Step) -> str:
    places = f" (and {step.places - 1} alike)" if step.places > 1 else ""
    rule = f" [{step.candidate.rule}]" if step.candidate.rule else ""
    return f"{safe_terminal(step.candidate.fix.title)}{places}{rule}"


def _misfits(step: Step, every: bool) -> list[str]:
    if not step.misfits:
        return []
    if not every:
        return [f"     not at {len(step.misfits)} more: {safe_terminal(step.misfits[0])}"]
    return [f"     not: {safe_terminal(misfit)}" for misfit in step.misfits]


def _effect_lines(fixed: Fixed) -> list[str]:
    """One line an output, where they are not all equal."""
    if not fixed.applied or all(effect.exact for effect in fixed.effects):
        return []
    lines = [f"outputs  against the original, {fixed.seeds} seeded inputs"]
    for effect in fixed.effects:
        name = safe_terminal(effect.output)
        if effect.reference is None:
            lines.append(f"  {name}: new, nothing to be compared with")
        else:
            share = f"{effect.exact_share:.1%} equal"
            lines.append(
                f"  {name}: max {effect.max_lsb:g} LSB, {share}, SQNR {_db(effect.sqnr_db)}"
            )
    return lines


def _runtime_line(fixed: Fixed) -> list[str]:
    found = fixed.runtime
    if found is None:
        return ["checked  in no outside runtime (pip install npuscope[reference])"]
    words = f"; outputs {effect_words(found.effects)} there" if found.effects else ""
    return [f"checked  opens and runs in {safe_terminal(found.name)}{words}"]
