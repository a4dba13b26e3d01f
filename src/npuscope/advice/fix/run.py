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
from npuscope.advice.fix.step import Fixed, Step
from npuscope.advice.fix.workbench import Look, Workbench
from npuscope.building import Options
from npuscope.graph.edit import open_document

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
    first = look = bench.look(open_document(path))
    steps: list[Step] = []
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
        opened(bench.path, look, seeds),
    )


def _offered(bench: Workbench, look: Look, choice: Choice) -> list[Candidate]:
    return candidates(look, bench.explained(look), choice)
