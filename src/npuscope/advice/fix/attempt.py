"""Try a candidate: edit a copy, compile it, time it, measure it. If all places together do not
help, look for a part of them that does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npuscope.advice.fix.border import border_notes
from npuscope.advice.fix.candidates import Candidate, Place
from npuscope.advice.fix.edits import apply_edit
from npuscope.advice.fix.judge import judge
from npuscope.advice.fix.numeric import effects
from npuscope.advice.fix.request import Request
from npuscope.advice.fix.step import Outcome, Step
from npuscope.advice.fix.workbench import Look, Workbench
from npuscope.errors import NpuscopeError
from npuscope.graph.edit import Document, NotFitting

_MOST_PARTS = 12  # compilations spent on one candidate


def attempt(bench: Workbench, look: Look, candidate: Candidate, seeds: int) -> tuple[Step, Look]:
    """The step and what the document is afterwards: the edited one only if it was kept."""
    first: Step | None = None
    for part in _parts(candidate):
        step, after = _try(bench, look, part, seeds)
        if step.outcome.kept:
            return step, after
        first = first or step
        if step.after is None:
            break  # no place fits: parts of them do not either
    assert first is not None
    return first, look


def _parts(candidate: Candidate) -> Iterator[Candidate]:
    """All places, then halves, quarters ... down to single ones."""
    waiting = [candidate.places]
    for _ in range(_MOST_PARTS):
        if not waiting:
            return
        places = waiting.pop(0)
        yield replace(candidate, places=places)
        if len(places) > 1:
            middle = len(places) // 2
            waiting += [places[:middle], places[middle:]]


def _try(bench: Workbench, look: Look, candidate: Candidate, seeds: int) -> tuple[Step, Look]:
    document = look.document.copy()
    misfits = _apply(document, candidate, look)
    done = len(candidate.places) - len(misfits)
    refused = Step(candidate, Outcome(False, ""), done, tuple(misfits), look.profile)
    if not done:
        reasons = (*misfits, *candidate.notes)
        return replace(refused, outcome=Outcome(False, reasons[0])), look
    try:
        after = bench.look(document)
    except NpuscopeError as error:
        return replace(refused, outcome=Outcome(False, f"not readable then: {error}")), look
    found = effects(look.network.graph, after.network.graph, seeds)
    outcome = judge(candidate, look, after, found, bench.risks)
    border = border_notes(look.network.graph, after.network.graph)
    step = replace(refused, outcome=outcome, after=after.profile, effects=found, border=border)
    return step, after


def _apply(document: Document, candidate: Candidate, look: Look) -> list[str]:
    """Edit all places; gives the sentences of those that do not fit."""
    misfits = []
    for place in _unique(candidate.places):
        request = Request(place.ops, place.fix.parameters, look.network)
        try:
            apply_edit(document, candidate.fix.id, request)
        except NotFitting as misfit:
            misfits.append(str(misfit))
    return misfits


def _unique(places: tuple[Place, ...]) -> list[Place]:
    """Two findings may be about one op."""
    return list({(place.ops, str(place.fix.parameters)): place for place in places}.values())
