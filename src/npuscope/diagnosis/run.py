"""From a build and what was seen to the causes that reproduce it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from npuscope.blas_threads import one_thread
from npuscope.diagnosis.case import TriageCase, TriageRequest, open_case
from npuscope.diagnosis.causes.lines import line_count
from npuscope.diagnosis.causes.old_inputs import MOST_SINGLE_LINES
from npuscope.diagnosis.causes.registry import FaultPlace
from npuscope.diagnosis.causes.weights import MOST_SECTORS, SECTORS
from npuscope.diagnosis.evidence import BoardEvidence, SeenValues
from npuscope.diagnosis.fault import RIGHT
from npuscope.diagnosis.observations import confirming_looks, localising_looks, next_looks
from npuscope.diagnosis.result import (
    MOST_CHANCE,
    Suspect,
    SuspectClass,
    TimeTriage,
    Triage,
    TriageVerdict,
)
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.search import BUDGET_S, Search
from npuscope.diagnosis.sights import SightView
from npuscope.diagnosis.signs import signs
from npuscope.diagnosis.times import FITTED
from npuscope.diagnosis.trial import FaultTrial
from npuscope.errors import NpuscopeError
from npuscope.program.model import Program
from npuscope.shown import counted
from npuscope.structs import replace

_NEAREST = 4
_OWN_LAYOUT = (
    "weights and buffers are placed as npuscope's compiler does: for faults of weights or memory "
    "give the build that is on the board as SOURCE"
)

_ONE_STEP = "the board's compiler generation is not known: one step off counts as equal"
_TWO = (
    "one cause does not explain all of it: some pairs of faults do, but so few values are no "
    "evidence for one of them"
)


def triage_values(
    program: Program,
    request: TriageRequest,
    other: Program | None = None,
    rivals: Mapping[str, Callable[[], Program]] | None = None,
    budget_s: float = BUDGET_S,
    tolerant: bool = False,
) -> Triage:
    """`rivals` are builds of the same network by other generations; `tolerant`: nobody knows which
    one the board has, so that one step of difference is no evidence."""
    case = open_case(program, request, other)

    def twin(generation: str) -> TriageCase:
        assert rivals is not None
        return open_case(rivals[generation](), request, other)

    twins = {name: partial(twin, name) for name in rivals or ()}
    return diagnose(case, twins, budget_s, tolerant, wall_s=budget_s)


def diagnose(
    case: TriageCase,
    rivals: Mapping[str, Callable[[], TriageCase]] | None = None,
    budget_s: float = BUDGET_S,
    tolerant: bool = False,
    wall_s: float = math.inf,
) -> Triage:
    """The causes of one case."""
    with one_thread():
        # Where the generation is not known, the other ones have their share of the time.
        share = 0.5 if tolerant and rivals else 1.0
        search = Search(case.scene, case.evidence, tolerant, share * budget_s, share * wall_s)
        return _diagnosed(case, rivals, search)


def _diagnosed(
    case: TriageCase,
    rivals: Mapping[str, Callable[[], TriageCase]] | None,
    search: Search,
) -> Triage:
    program, tolerant = case.scene.program, search.tolerant
    base = _base(program, case, search, tolerant)
    if search.total.exact:
        return replace(
            base, verdict=TriageVerdict.NO_FAULT, answer=_equal(search, program.generation)
        )
    cases: dict[str, TriageCase] = {}
    for generation, open_rival in (rivals or {}).items():
        try:
            rival = cases[generation] = open_rival()
        except NpuscopeError:  # it has no such buffer, or weights of another size
            continue
        fits = (one.fit(rival.scene, RIGHT) for one in rival.evidence.seen)
        if not all(fit is not None and fit.exact for fit in fits):  # up to the first that is not
            continue
        if not tolerant:
            return _other_generation(base, generation)
        return replace(
            base,
            verdict=TriageVerdict.NO_FAULT,
            answer=_equal(search, generation),
            generation=generation,
            differing=0,
        )
    if search.sees_no_fault:
        return replace(base, verdict=TriageVerdict.NO_FAULT, answer=_one_step(search, case, cases))
    matches = search.run()
    base = replace(
        base,
        tried=len(search.trials),
        simulations=case.scene.runs.executions,
        not_tried=tuple(search.not_tried),
        left_out=tuple(f"{id_} ({count:,} places)" for id_, count in search.left_out.items()),
    )
    if not matches and tolerant:
        found = _by_generation(base, search, case, cases)
        if found is not None:
            return found
    if not matches:
        return _not_reproduced(base, search, case.used)
    return _reproduced(base, search, matches, case.used)


def _one_step(search: Search, case: TriageCase, cases: Mapping[str, TriageCase]) -> str:
    """The generation is not known: can it be the reason?"""
    off = search.total.compared - search.total.equal
    values = _right_values(case)
    is_reason = any(_right_values(other) != values for other in cases.values())
    reason = "which another compiler generation explains"
    if not is_reason:
        reason = "as another generation may do, but none of those known here: with --generation a "
        reason += "step counts"
    return (
        f"no fault visible: {off} of {search.total.compared:,} values differ, by one step, {reason}"
    )


def _by_generation(
    base: Triage, search: Search, case: TriageCase, cases: Mapping[str, TriageCase]
) -> Triage | None:
    """A fault of a board of another generation, whose values are more than a step off."""
    others, seen = {}, {_right_values(case)}
    for generation, other in cases.items():
        values = _right_values(other)
        if values not in seen:
            others[generation] = other
        seen.add(values)
    for generation, other in others.items():
        cpu_s, wall_s = search.budget_s / len(others), search.wall_s / len(others)
        one = Search(other.scene, other.evidence, False, cpu_s, wall_s)
        matches = one.run()
        base = replace(base, tried=base.tried + len(one.trials))
        if matches and not one.chance(matches[0]) > MOST_CHANCE:
            note = f"so it is with generation {generation}: the board's is not known"
            notes = (*(text for text in base.notes if text != _ONE_STEP), note)
            base = replace(base, generation=generation, notes=notes, not_tried=tuple(one.not_tried))
            return _reproduced(base, one, matches, case.used)
    return None


def _right_values(case: TriageCase) -> bytes:
    """What a right board would show of the evidence."""
    sights = (one.sight for one in case.evidence.seen if isinstance(one, SeenValues))
    values = (case.scene.predict(sight) for sight in sights)
    return b"|".join(b"" if array is None else array.tobytes() for array in values)


def _reproduced(
    base: Triage, search: Search, matches: list[FaultTrial], used: frozenset[str]
) -> Triage:
    classes = _classes(search, matches)
    first = [trial for trial in matches if trial.fit.exact is matches[0].fit.exact]
    looks = next_looks(search, first, used)
    if all(one.by_chance for one in classes[0].suspects):
        best = classes[0].suspects[0]
        values, tries = counted(best.explained, "value"), counted(best.tries, "fault")
        return replace(
            base,
            verdict=TriageVerdict.PERHAPS,
            answer=f"may be by chance: {_answer(classes[0])}; it reproduces only {values} that the "
            f"fault changed, and {tries} of its kind were tried",
            classes=classes,
            next_looks=looks or confirming_looks(search.scene, used),
        )
    return replace(
        base,
        verdict=TriageVerdict.REPRODUCED,
        answer=_answer(classes[0]) + _cut(search),
        classes=classes,
        next_looks=looks,
    )


def _cut(search: Search) -> str:
    """A cause that is alone only because others were not tried is not certain."""
    count = len(search.untried)
    return f"; {counted(count, 'cause')} not tried for lack of time" if count else ""


def _listed(evidence: BoardEvidence) -> tuple[str, ...]:
    """Outputs of several inputs in one line."""
    frames: dict[tuple[SightView, str, int], list[int]] = {}
    words: list[str] = []
    for one in evidence.seen:
        if isinstance(one, SeenValues) and one.sight.view is not SightView.WEIGHTS:
            key = one.sight.view, one.sight.name, one.values.size
            frames.setdefault(key, []).append(one.sight.frame + 1)
        else:
            words.append(one.words)
    for (view, name, size), numbers in frames.items():
        which = f"input {numbers[0]}"
        if len(numbers) > 1:
            which = f"inputs {numbers[0]} to {numbers[-1]}"
        words.append(f"{view.value} '{name}' of {which}: {counted(size, 'value')}")
    return tuple(words)


def only_time(program: Program, timed: TimeTriage) -> Triage:
    """Where no values are evidence."""
    return Triage(
        model=program.model_file or program.name,
        verdict=TriageVerdict.NO_FAULT if timed.explained else TriageVerdict.UNKNOWN,
        answer=time_answer(timed),
        generation=program.generation,
        generation_known=True,
        evidence=(f"{timed.measured_ms:g} ms per inference",),
        differing=0,
        compared=0,
        time=timed,
    )


def time_answer(timed: TimeTriage) -> str:
    ratio = f"{timed.measured_ms / timed.predicted_ms:.2f} times" if timed.predicted_ms else "not"
    head = f"{timed.measured_ms:.4g} ms is {ratio} the predicted {timed.predicted_ms:.4g} ms"
    if timed.explained:
        return f"no fault visible: {head}, within its range"
    if timed.settings:
        best = timed.settings[0]
        if best.id in FITTED:
            return (
                f"{head}: no setting with a figure of its own explains it; possible: {best.title}"
            )
        return f"{best.title}: {head}, and that predicts {best.predicted_ms:.4g} ms"
    number = f"{counted(len(timed.tried), 'setting')} tried"
    worst = max(timed.tried, key=lambda row: row.predicted_ms, default=None)
    tried = number
    if worst is not None:
        tried += f", the slowest ({worst.title}) gives {worst.predicted_ms:.4g} ms"
    if timed.far:
        return f"{head}, beyond every setting of clocks and memories ({tried}): see what costs more"
    return f"{head}: none of the settings explains it ({tried})"


def _other_generation(base: Triage, generation: str) -> Triage:
    """The stated generation does not give what was seen, another one does."""
    count = base.compared
    build = Suspect(
        "other-generation",
        FaultPlace.PROGRAM.value,
        "The board runs a build or runtime of another compiler generation",
        f"generation {generation} instead of {base.generation}",
        f"the simulation of generation {generation} gives all {count:,} values that were seen",
        "build network.c, weights and runtime with one version of the tools",
        True,
        count,
        count,
    )
    group = SuspectClass((build.kind,), True, (build,))
    return replace(base, verdict=TriageVerdict.REPRODUCED, answer=_answer(group), classes=(group,))


def _base(program: Program, case: TriageCase, search: Search, tolerant: bool) -> Triage:
    notes = list(case.notes)
    if program.source == "npuscope":
        notes.append(_OWN_LAYOUT)
    if tolerant:
        notes.append(_ONE_STEP)
    total = search.total
    return Triage(
        model=program.model_file or program.name,
        verdict=TriageVerdict.UNKNOWN,
        answer="",
        generation=program.generation,
        generation_known=not tolerant,
        evidence=_listed(case.evidence),
        differing=total.compared - total.equal,
        compared=total.compared,
        notes=tuple(notes),
    )


def _equal(search: Search, generation: str) -> str:
    count = search.total.compared
    return f"no fault visible: all {count:,} values equal the simulation of generation {generation}"


def _classes(search: Search, matches: list[FaultTrial]) -> tuple[SuspectClass, ...]:
    """Exact ones are one class, those within a step another; what may be by chance comes last."""
    classes = []
    for exact in (True, False):
        rows: dict[str, Suspect] = {}
        for trial in matches:
            if trial.fit.exact is exact:
                rows.setdefault(trial.cause.id, suspect(search, trial))
        if rows:
            suspects = tuple(sorted(rows.values(), key=lambda row: row.by_chance))
            kinds = tuple(dict.fromkeys(row.kind for row in suspects))
            classes.append(SuspectClass(kinds, exact, suspects))
    return tuple(classes)


def suspect(search: Search, trial: FaultTrial) -> Suspect:
    cause, fit = trial.cause, trial.fit
    chance = search.chance(trial)
    if trial.contradicted:
        before, after = search.wrong(search.total), search.wrong(fit)
        proof = f"with it {after:,} instead of {before:,} of {fit.compared:,} values differ"
    elif fit.compared == 1:
        proof = "the simulation gives the value that was seen"
    else:
        how = "exactly" if fit.exact else f"{fit.equal:,} of them exactly, the rest within one step"
        proof = f"the simulation gives all {fit.compared:,} values that were seen, {how}"
    if chance > MOST_CHANCE and not trial.contradicted:
        proof += f"; may be by chance: {counted(fit.touched, 'value')} differ from a right board"
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
        fit.touched,
        fit.explained,
        search.tries(trial),
        chance,
    )


def _answer(first: SuspectClass) -> str:
    lead = first.suspects[0]
    text = f"{lead.title[0].lower()}{lead.title[1:]} ({lead.fault})"
    more = len(first.suspects) - 1
    if not more:
        return text
    others = "another cause gives" if more == 1 else f"{more} other causes give"
    return f"{text}, or {others} the same: this evidence cannot tell"


def _never_tried(scene: BoardScene) -> Iterator[str]:
    """What is possible on a board and too much to try: sets of places, places of large images."""
    yield (
        "several stale cache lines inside of a buffer (one line, the end and all of an input are "
        "tried)"
    )
    sizes = {pool: image.size for pool, image in scene.images.items()}
    for pool, size in sizes.items():
        sector = next((s for s in SECTORS if -(-size // s) <= MOST_SECTORS), None)
        if sector != SECTORS[0]:
            yield (
                f"ranges of several sectors of 4 KB inside of the {size:,} bytes of weights in "
                f"{pool} (single sectors are tried)"
            )
    lines = max(line_count(a, b - a) for a, b in map(scene.address, scene.program.inputs))
    if lines > MOST_SINGLE_LINES:
        yield f"single stale cache lines: the input has {lines:,} of them"


def _not_reproduced(base: Triage, search: Search, used: frozenset[str]) -> Triage:
    """What the evidence shows by itself, what came nearest, and where to look for more."""
    nearest = [suspect(search, trial) for trial in search.nearest()[:_NEAREST]]
    shown = signs(search.scene, search.evidence, search.right, search.tolerant)
    tried = f"none of {base.tried:,} faults explains what was seen"
    points = [kind.value for sign in shown[:1] for kind in sign.kinds]
    points += [one.kind for one in nearest[:1]]
    looks = localising_looks(search.scene, used, search.inner_states(), search.wrong_checksums)
    if search.pairs_by_chance:
        tried = _TWO
        looks = next_looks(search, search.pairs_by_chance, used) or looks
    base = replace(base, next_looks=looks, never_tried=tuple(_never_tried(search.scene)))
    if not points:
        return replace(base, verdict=TriageVerdict.UNKNOWN, answer=tried)
    if shown:
        answer = f"{shown[0].words}; {tried}"
    else:
        best = nearest[0]
        answer = f"{tried}; nearest: {best.title[0].lower()}{best.title[1:]} ({best.fault})"
    return replace(
        base,
        verdict=TriageVerdict.POINTS,
        answer=answer,
        nearest=tuple(nearest),
        points_to=tuple(dict.fromkeys(points)),
        signs=tuple(sign.words for sign in shown),
    )
