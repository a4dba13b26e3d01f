"""Fix a model file: try what the findings offer, keep what helps, explain again, until nothing is
left to try."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct, field

from npuscope.advice.fix.candidates import Candidate, FixChoice, candidates, savings_on_request
from npuscope.advice.fix.judge import Judgement, judge, runtime_fault
from npuscope.advice.fix.numeric import InputData, OutputEffect, border_notes, effects_on
from npuscope.advice.fix.workbench import Look, Opened, Workbench, opened, original_ahead
from npuscope.blas_threads import one_thread
from npuscope.building import Options
from npuscope.collector import without_collector
from npuscope.edits import Document, EditRequest, NotFitting, apply_edit, open_document
from npuscope.errors import ModelError, NpuscopeError
from npuscope.families.registry import family_for
from npuscope.files.load import model_bytes
from npuscope.graph.model import Graph
from npuscope.ops.unknown import check_executable
from npuscope.profiling.model import Profile
from npuscope.profiling.validate import Validation
from npuscope.progress import progress
from npuscope.rulebook.finding import Fix
from npuscope.rulebook.fix import FunctionEffect
from npuscope.shown import Rows, ShownRecord
from npuscope.structs import replace

log = logging.getLogger(__name__)


class FixStep(Struct, frozen=True):
    """`places` counts the findings it was applied to; `misfits` say where it could not be.

    `after` is None and `effects` are empty where the edit was not possible at all.
    """

    candidate: Candidate
    outcome: Judgement
    places: int
    misfits: tuple[str, ...]
    before: Profile
    after: Profile | None = None
    effects: tuple[OutputEffect, ...] = ()
    border: tuple[str, ...] = ()  # what changes for the application

    @property
    def notes(self) -> tuple[str, ...]:
        """For the author of the application."""
        return (*self.candidate.notes, *self.border)

    @property
    def saved_ms(self) -> float:
        return self.before.total_ms - self.after.total_ms if self.after else 0.0


class Fixed(ShownRecord, frozen=True):
    """The result: first and last profile, the steps between, and the content of the fixed file.

    `effects` compare the end with the original; `runtime` names what opened it, None where there
    is none or the file was not `changed`. `inlined`: data of other files are inside now.
    `on_request`: what options that were not given could save, in ms at most.
    """

    data: bytes
    before: Profile
    after: Profile
    steps: tuple[FixStep, ...]
    effects: tuple[OutputEffect, ...]
    inputs: InputData
    runtime: Opened | None = None
    interrupted: bool = False  # more could have been tried
    changed: bool = True
    inlined: bool = False
    validation: Validation | None = None  # of the end, where the family executes
    on_request: dict[str, float] = field(default_factory=dict)

    def told(self) -> str:
        before, after = self.before.total_ms, self.after.total_ms
        return f"fixes applied: {len(self.applied)}, {before:.3f} ms to {after:.3f} ms"

    def table(self) -> Rows:
        """One row per step."""
        return [
            {"fix": step.candidate.fix.id, "rule": step.candidate.rule, "kept": step.outcome.kept}
            for step in self.steps
        ]

    @property
    def is_lossy(self) -> bool:
        """An edit that changes outputs was kept."""
        return any(step.candidate.is_lossy for step in self.applied)

    @property
    def function(self) -> FunctionEffect:
        """What all kept edits together do to the network's function."""
        order = [*FunctionEffect]
        functions = (step.candidate.fix.function for step in self.applied)
        return max(functions, key=order.index, default=FunctionEffect.EXACT)

    @property
    def applied(self) -> tuple[FixStep, ...]:
        return tuple(step for step in self.steps if step.outcome.kept)

    @property
    def refused(self) -> tuple[FixStep, ...]:
        """Without wishes for the whole network that came true in another step."""
        applied = {step.candidate.fix.id for step in self.applied}
        return tuple(
            step
            for step in self.steps
            if not step.outcome.kept
            and (step.candidate.rule or step.candidate.fix.id not in applied)
        )


_MOST_STEPS = 100  # each kept step helps, but the loop must end for every file


class _Bench:
    """The file on its way: what was tried, and the best that was found so far."""

    def __init__(self, bench: Workbench, choice: FixChoice, data: InputData) -> None:
        self.bench, self.choice, self.data = bench, choice, data
        progress("reading and compiling %s", bench.path.name)
        self.first = self.look = bench.look(bench.open())
        check_executable(self.first.network.graph, "compared before and after")
        self.steps: list[FixStep] = []
        self.on_request: dict[str, float] = {}

    def run(self) -> None:
        if self.choice.integer_border and self.bench.has_float_border:
            self.bench = self.bench.with_integer_border()
            self.look = self.bench.look(self.look.document)
            self.steps.append(_integer_border(self.first, self.look))
        tried: set[object] = set()
        offered = self._offered()
        while len(self.steps) < _MOST_STEPS:
            waiting = [one for one in offered if one.key not in tried]
            if not waiting:
                break
            candidate = waiting[0]
            tried.add(candidate.key)
            tell = self._tell(candidate, len(waiting))
            with without_collector():
                step, look = attempt(
                    self.bench, self.look, candidate, self.data, tell, self.first.network.graph
                )
            # Together: an interruption finds either both or neither.
            self.steps, self.look = [*self.steps, step], look
            if step.outcome.kept:
                offered = self._offered()

    def _tell(self, candidate: Candidate, waiting: int) -> Tell:
        """Where we are, the best so far, and what is tried; the part where there are several."""
        best, was = self.look.total_ms, self.first.total_ms
        head = f"step {len(self.steps) + 1} ({waiting} to try), best so far {best:.3f} ms"
        head += f" of {was:.3f} ms" if best != was else ""

        def tell(part: int, places: int) -> None:
            which = f", part {part}" if part > 1 else ""
            at = f" at {places} places" if places > 1 else ""
            progress("%s; trying: %s%s%s", head, candidate.fix.title, at, which)

        return tell

    def _offered(self) -> list[Candidate]:
        progress("best so far %.3f ms; looking for more", self.look.total_ms)
        explanation = self.bench.explained(self.look)
        self.on_request = savings_on_request(self.look, explanation, self.choice)
        return candidates(self.look, explanation, self.choice)


def fix(path: str | Path, choice: FixChoice, options: Options, data: InputData) -> Fixed:
    """All fixes that may be applied and help, judged on `data`; the file itself is not touched.

    An interruption ends the search, not the work: the best that was found is the result.
    """
    with one_thread():
        return _fixed(path, choice, options, data)


def _fixed(path: str | Path, choice: FixChoice, options: Options, data: InputData) -> Fixed:
    family = family_for(path, options)
    own = family.bench(Path(path), options, data)
    work = _Bench(own or Workbench(Path(path), options, data=data), choice, data)
    interrupted, first = False, work.first
    with original_ahead(work.bench.path, first, data) as ahead:
        try:
            work.run()
        except KeyboardInterrupt:
            interrupted = True
            text = "interrupted after %d steps: the fixes so far are checked and kept"
            log.warning(text, len(work.steps))
        progress("comparing outputs before and after")
        last, runtime = work.look, None
        if last.data != first.data:
            runtime = opened(work.bench.path, first, last, data, ahead)
    effects = effects_on(data, first.network.graph, last.network.graph, work.bench.results)
    fault = runtime_fault(runtime, effects) if runtime else ""
    validation = work.bench.verified(last)
    if validation is not None and not validation.passed and last.data != first.data:
        before = work.bench.verified(first)
        if before is not None and before.passed:
            fault = fault or f"the machine computes other outputs: {validation.sentence}"
    if fault:
        names = ", ".join(dict.fromkeys(s.candidate.fix.id for s in work.steps if s.outcome.kept))
        raise ModelError(
            f"{fault}: nothing was written",
            where=str(path),
            hint=f"name the fixes to apply with --only, leaving out one of: {names}",
        )
    return Fixed(
        last.data,
        first.profile,
        last.profile,
        tuple(work.steps),
        effects,
        data,
        runtime,
        interrupted,
        last.data != first.data,
        first.data != model_bytes(work.bench.path),
        validation,
        work.on_request,
    )


def _integer_border(before: Look, after: Look) -> FixStep:
    """Float was asked for by an option: that is undone by not asking."""
    title = "compile without float32 inputs and outputs"
    fix = Fix("integer-input", title, {}, FunctionEffect.MOVED)
    candidate = Candidate("", fix, (), forced=True)
    return FixStep(candidate, Judgement(True, "asked for"), 1, (), before.profile, after.profile)


_MOST_PARTS = 12  # compilations spent on one candidate


Tell = Callable[[int, int], None]  # number of the part, its places


def attempt(
    bench: Workbench,
    look: Look,
    candidate: Candidate,
    data: InputData,
    tell: Tell = lambda part, places: None,
    original: Graph | None = None,
) -> tuple[FixStep, Look]:
    """The step and what the document is afterwards: the edited one only if it was kept. Outputs
    are compared with those before it and, for answers, with those of the original."""
    first: FixStep | None = None
    for number, part in enumerate(_parts(candidate), 1):
        tell(number, len(part.places))
        step, after = _try(bench, look, part, data, original)
        # Findings change with the network: what a kept edit made possible is offered now.
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
            # Breadth first: all halves before any quarter, so that the limit keeps the largest
            # parts.
            waiting += [places[:middle], places[middle:]]


def _try(
    bench: Workbench,
    look: Look,
    candidate: Candidate,
    data: InputData,
    original: Graph | None,
) -> tuple[FixStep, Look]:
    # An edit that turns out not to help leaves the kept document untouched; its bytes are known.
    document = open_document(bench.path, look.data)
    misfits = apply_places(document, candidate, look)
    edits = len(candidate.places) - len(misfits)
    refused = FixStep(candidate, Judgement(False, ""), edits, tuple(misfits), look.profile)
    if not edits:
        reasons = (*misfits, *candidate.notes)
        return replace(refused, outcome=Judgement(False, reasons[0])), look
    try:
        after = bench.look(document)
    except NpuscopeError as error:
        reason = f"the edited file cannot be written or read: {error}"
        return replace(refused, outcome=Judgement(False, reason)), look
    effects = effects_on(data, look.network.graph, after.network.graph, bench.results)
    whole = None
    if original is not None and original is not look.network.graph and not candidate.may_change:
        whole = effects_on(data, original, after.network.graph, bench.results)
    outcome = judge(candidate, look, after, effects, bench.risks, whole)
    border = border_notes(look.network.graph, after.network.graph)
    step = replace(refused, outcome=outcome, after=after.profile, effects=effects, border=border)
    return step, after


def apply_places(document: Document, candidate: Candidate, look: Look) -> list[str]:
    """Edit all places; gives the sentences of those that do not fit."""
    misfits = []
    # Two findings may be about one op.
    places = {(place.ops, str(place.fix.parameters)): place for place in candidate.places}.values()
    there = {name for place in places for name in place.ops if document.op(name) is not None}
    for place in places:
        own = there.intersection(place.ops)
        if own and all(document.op(name) is None for name in own):
            continue  # the edit of another place took it along
        request = EditRequest(place.ops, place.fix.parameters, look.network)
        try:
            apply_edit(document, candidate.fix.id, request)
        except NotFitting as misfit:
            misfits.append(str(misfit))
    return misfits
