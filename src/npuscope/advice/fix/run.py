"""Fix a model file: try what the findings offer, keep what helps, explain again, until nothing is
left to try."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from npuscope.advice.fix.attempt import attempt
from npuscope.advice.fix.candidates import Candidate, candidates
from npuscope.advice.fix.choice import Choice
from npuscope.advice.fix.numeric import effects
from npuscope.advice.fix.opened import opened
from npuscope.advice.fix.step import Fixed, Outcome, Step
from npuscope.advice.fix.workbench import Look, Workbench
from npuscope.building import Options
from npuscope.rules.finding import Fix

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
