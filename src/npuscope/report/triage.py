"""A triage as text and JSON: the answer, the classes of causes, the next thing to look at."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from npuscope.records import encode
from npuscope.shown import counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.diagnosis.result import NextLook, Suspect, SuspectClass, TimeTriage, Triage

SCHEMA = "npuscope/triage/1"


def triage_json(triage: Triage) -> dict[str, Any]:
    """The record's own fields are the keys."""
    return {"schema": SCHEMA, **encode(triage, whole=True)}


def triage_text(triage: Triage) -> str:
    lines = [triage.answer]
    lines.append(f"network   {triage.model}, generation {triage.generation}")
    if triage.compared:
        differ = f"{triage.differing:,} of {triage.compared:,} values differ from a right board"
        lines.append(f"evidence  {differ}")
        lines += [f"          {words}" for words in triage.evidence]
    if triage.time is not None:
        lines += _time_lines(triage.time)
    for number, group in enumerate(triage.classes, 1):
        lines += _class_lines(number, group)
    lines += [f"sign      {words}" for words in triage.signs]
    for suspect in triage.nearest:
        lines.append(f"nearest   {suspect.id}: {suspect.fault}; {suspect.proof}")
    lines += _look_lines(triage.next_looks)
    if triage.tried:
        tried = f"{counted(triage.tried, 'fault')} in {counted(triage.simulations, 'simulation')}"
        lines.append(f"tried     {tried}")
    if triage.not_tried:
        lines.append(f"not tried for lack of time: {', '.join(triage.not_tried)}")
    if triage.left_out:
        places = ", ".join(triage.left_out)
        lines.append(f"rare places not tried for lack of time: {places}")
    lines += [f"never tried: {words}" for words in triage.never_tried]
    lines += [f"note: {note}" for note in triage.notes]
    return "".join(f"{safe_terminal(line)}\n" for line in lines)


def _time_lines(timed: TimeTriage) -> list[str]:
    high = "" if timed.high_ms is None else f" to {timed.high_ms:.4g}"
    span = f"{timed.low_ms:.4g}{high} ms" if timed.low_ms is not None else "no range"
    measured = f"measured {timed.measured_ms:.4g} ms"
    lines = [f"time      {measured}, predicted {timed.predicted_ms:.4g} ms ({span})"]
    for row in timed.settings:
        lines.append(
            f"  {row.id}: {row.title}; predicts {row.predicted_ms:.4g} ms, {row.error:.0%} off"
        )
        lines.append(f"    remedy  {row.remedy}")
    if not timed.settings and not timed.explained:
        lines.append("  none of the settings explains it; tried, with what each predicts:")
        tried = (f"{row.id} {row.predicted_ms:.4g} ms" for row in timed.tried)
        lines += textwrap.wrap(
            ", ".join(tried), 96, initial_indent="    ", subsequent_indent="    "
        )
    if timed.far:
        lines.append("  what costs a board such a factor, and what tells one from the others:")
    for cause in timed.far:
        figure = "" if cause.predicted_ms is None else f"; gives {cause.predicted_ms:.4g} ms"
        lines.append(f"    {cause.id}: {cause.title}{figure}")
        lines.append(f"      look  {cause.shown_by}")
    return lines


def _class_lines(number: int, group: SuspectClass) -> list[str]:
    how = "exactly" if group.exact else "within one step"
    causes = counted(len(group.suspects), "cause")
    together = ", not told apart by this evidence" if len(group.suspects) > 1 else ""
    lines = [f"class {number}   {causes} that reproduce it {how}{together}:"]
    for suspect in group.suspects:
        lines += _suspect_lines(suspect)
    return lines


def _suspect_lines(suspect: Suspect) -> list[str]:
    return [
        f"  {suspect.id}: {suspect.title}",
        f"    fault   {suspect.fault}",
        f"    proof   {suspect.proof}",
        f"    remedy  {suspect.remedy}",
    ]


def _look_lines(looks: tuple[NextLook, ...]) -> list[str]:
    lines = []
    for word, look in zip(("next", "then", "then"), looks, strict=False):
        lines.append(f"{word:<9} {look.words}; {_use(look)}")
        lines.append(f"          {look.option}")
    return lines


def _use(look: NextLook) -> str:
    if not look.splits:
        return look.shows
    left = max(len(part) for part in look.splits)
    return "tells them apart" if left == 1 else f"leaves at most {left} of them together"
