"""From a build and what was seen to the causes that reproduce it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from npuscope.diagnosis.case import Case, Request, open_case
from npuscope.diagnosis.observations import next_looks
from npuscope.diagnosis.result import Suspect, SuspectClass, Triage, Verdict
from npuscope.diagnosis.scene import Scene
from npuscope.diagnosis.search import BUDGET_S, Search, Trial
from npuscope.program.model import Program
from npuscope.structs import replace

_NEAREST = 4
_OWN_LAYOUT = (
    "weights and buffers are placed as npuscope's compiler does: for faults of weights or memory "
    "give the build that is on the board as SOURCE"
)


def triage_values(
    program: Program,
    request: Request,
    other: Program | None = None,
    rivals: Mapping[str, Callable[[], Program]] | None = None,
    budget_s: float = BUDGET_S,
) -> Triage:
    """`rivals` are builds of the same network by other generations, where nobody knows which one
    the board has: then one step of difference is no evidence."""
    case = open_case(program, request, other)

    def twin(generation: str) -> Case:
        assert rivals is not None
        return open_case(rivals[generation](), request, other)

    twins = None if rivals is None else {name: partial(twin, name) for name in rivals}
    return diagnose(case, twins, budget_s)


def diagnose(
    case: Case,
    rivals: Mapping[str, Callable[[], Case]] | None = None,
    budget_s: float = BUDGET_S,
) -> Triage:
    """The causes of one case."""
    program, tolerant = case.scene.program, rivals is not None
    search = Search(case.scene, case.evidence, tolerant, budget_s)
    base = _base(program, case, search, tolerant)
    if search.total.exact:
        return replace(base, verdict=Verdict.NO_FAULT, answer=_equal(search, program.generation))
    for generation, open_rival in (rivals or {}).items():
        rival = open_rival()
        theirs = Search(rival.scene, rival.evidence, False, 0.0)
        if theirs.total.exact:
            answer = _equal(theirs, generation)
            return replace(
                base, verdict=Verdict.NO_FAULT, answer=answer, generation=generation, differing=0
            )
    if search.sees_no_fault:
        off = search.total.compared - search.total.equal
        answer = (
            f"no fault visible: {off} of {search.total.compared:,} values differ, by one step, "
            "which another compiler generation explains"
        )
        return replace(base, verdict=Verdict.NO_FAULT, answer=answer)
    matches = search.run()
    base = replace(
        base,
        tried=len(search.trials),
        simulations=case.scene.executions,
        not_tried=tuple(search.not_tried),
    )
    if not matches:
        return _not_reproduced(base, search)
    classes = _classes(matches)
    looks = next_looks(case.scene, _first_class(matches), case.used)
    return replace(
        base,
        verdict=Verdict.REPRODUCED,
        answer=_answer(classes[0]),
        classes=classes,
        next_looks=looks,
    )


def _base(program: Program, case: Case, search: Search, tolerant: bool) -> Triage:
    notes = list(case.notes)
    if program.source == "npuscope":
        notes.append(_OWN_LAYOUT)
    if tolerant:
        notes.append("the board's compiler generation is not known: one step off counts as equal")
    total = search.total
    return Triage(
        model=program.model_file or program.name,
        verdict=Verdict.UNKNOWN,
        answer="",
        generation=program.generation,
        generation_known=not tolerant,
        evidence=tuple(one.words for one in case.evidence.seen),
        differing=total.compared - total.equal,
        compared=total.compared,
        notes=tuple(notes),
    )


def _equal(search: Search, generation: str) -> str:
    count = search.total.compared
    return f"no fault visible: all {count:,} values equal the simulation of generation {generation}"


def _classes(matches: list[Trial]) -> tuple[SuspectClass, ...]:
    """Exact ones are one class, those within a step another."""
    classes = []
    for exact in (True, False):
        rows: dict[str, Suspect] = {}
        for trial in matches:
            if trial.fit.exact is exact:
                rows.setdefault(trial.cause.id, suspect(trial))
        if rows:
            kinds = tuple(dict.fromkeys(row.kind for row in rows.values()))
            classes.append(SuspectClass(kinds, exact, tuple(rows.values())))
    return tuple(classes)


def _first_class(matches: list[Trial]) -> list[Trial]:
    return [trial for trial in matches if trial.fit.exact is matches[0].fit.exact]


def suspect(trial: Trial) -> Suspect:
    cause, fit = trial.cause, trial.fit
    how = "exactly" if fit.exact else f"{fit.equal:,} of them exactly, the rest within one step"
    if trial.contradicted:
        proof = f"{fit.equal:,} of {fit.compared:,} values are those that were seen"
    else:
        values = "the value" if fit.compared == 1 else f"all {fit.compared:,} values"
        proof = f"the simulation gives {values} that {'was' if fit.compared == 1 else 'were'} seen"
        proof += "" if fit.compared == 1 else f", {how}"
    return Suspect(
        cause.id,
        cause.kind.value,
        cause.title,
        trial.fault.words,
        proof,
        cause.remedy,
        fit.exact and not trial.contradicted,
        fit.equal,
        fit.compared,
    )


def _answer(first: SuspectClass) -> str:
    lead = first.suspects[0]
    text = f"{lead.title[0].lower()}{lead.title[1:]} ({lead.found})"
    more = len(first.suspects) - 1
    if not more:
        return text
    others = "another cause gives" if more == 1 else f"{more} other causes give"
    return f"{text}, or {others} the same: this evidence cannot tell"


def _not_reproduced(base: Triage, search: Search) -> Triage:
    nearest = [suspect(trial) for trial in search.nearest()[:_NEAREST]]
    tried = f"none of {base.tried:,} faults gives what was seen"
    if nearest:
        best = nearest[0]
        answer = f"{tried}; nearest: {best.title[0].lower()}{best.title[1:]} ({best.found})"
        return replace(base, verdict=Verdict.POINTS, answer=answer, nearest=tuple(nearest))
    return replace(base, verdict=Verdict.UNKNOWN, answer=tried)


__all__ = ["Scene", "triage_values"]
