"""Fix a model file: try what the findings offer, keep what helps, explain again, until nothing is
left to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from npuscope.advice.fix.candidates import Candidate, Choice, Place, candidates
from npuscope.advice.fix.numeric import border_notes, effects
from npuscope.advice.fix.step import Fixed, Outcome, Step, judge
from npuscope.advice.fix.workbench import Look, Workbench, opened
from npuscope.building import Options
from npuscope.edits import Document, NotFitting, Request, apply_edit
from npuscope.errors import NpuscopeError
from npuscope.rulebook.finding import Fix

_MOST_STEPS = 100  # each kept step helps, but no file may keep us for ever

Progress = Callable[[str], None]


def fix(
    path: str | Path,
    choice: Choice,
    options: Options,
    seeds: int = 2,
    progress: Progress = lambda text: None,
) -> Fixed:
    """All fixes that may be applied and help; the file itself is not touched."""
    bench = Workbench(Path(path), options)
    first = look = bench.look(bench.open())
    steps: list[Step] = []
    if choice.integer_border and bench.has_float_border:
        bench = bench.with_integer_border()
        look = bench.look(look.document)
        steps.append(_integer_border(first, look))
    tried: set[object] = set()
    offered = _offered(bench, look, choice)
    while len(steps) < _MOST_STEPS:
        candidate = next((one for one in offered if one.key not in tried), None)
        if candidate is None:
            break
        tried.add(candidate.key)
        progress(candidate.fix.title)
        step, look = attempt(bench, look, candidate, seeds)
        steps.append(step)
        if step.outcome.kept:
            offered = _offered(bench, look, choice)
    return Fixed(
        look.data,
        first.profile,
        look.profile,
        tuple(steps),
        effects(first.network.graph, look.network.graph, seeds),
        seeds,
        opened(bench.path, first, look, seeds),
    )


def _integer_border(before: Look, after: Look) -> Step:
    """Float was asked for by an option: that is undone by not asking."""
    fix = Fix("integer-input", "compile without float32 at the border", {})
    candidate = Candidate("", fix, (), forced=True)
    return Step(candidate, Outcome(True, "asked for"), 1, (), before.profile, after.profile)


def _offered(bench: Workbench, look: Look, choice: Choice) -> list[Candidate]:
    return candidates(look, bench.explained(look), choice)


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
